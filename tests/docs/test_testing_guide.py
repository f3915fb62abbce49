"""The tests on the page about testing pass."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT
from tests.docs.projects import write_project

if TYPE_CHECKING:
    import pytest

PAGE = ROOT / "docs" / "guides" / "testing.md"


def test_the_tests_of_the_page_pass(pytester: pytest.Pytester) -> None:
    files = write_project(PAGE, pytester.path)
    is_installed = entry_points(group="pytest11", name="onward")
    words = () if is_installed else ("-p", "onward.testing.pytest_plugin")
    result = pytester.runpytest_subprocess("-W", "error", "-p", "no:cacheprovider", *words)
    written = "".join((pytester.path / name).read_text() for name in files)
    result.assert_outcomes(passed=len(re.findall(r"def test_", written)))
