"""The files beside this one are read by the type checker, and say something to it."""

import re
import tomllib
from pathlib import Path

import pytest

import onward

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHECKED = sorted(path for path in HERE.glob("*.py") if path.name != Path(__file__).name)


def test_the_type_checker_reads_this_folder_strictly() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]
    assert settings["strict"]  # also reports a `type: ignore` that is no longer needed
    assert "tests" in settings["files"]
    assert "exclude" not in settings


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.name)
def test_a_checked_file_states_types(path: Path) -> None:
    assert "assert_type(" in path.read_text()


@pytest.mark.parametrize("path", CHECKED, ids=lambda path: path.name)
def test_a_mistake_that_must_be_seen_is_named_with_its_rule(path: Path) -> None:
    ignores = re.findall(r"# type: ignore.*", path.read_text())
    assert [
        text for text in ignores if not re.match(r"# type: ignore\[[a-z-]+\]  # \w", text)
    ] == []


@pytest.mark.parametrize("name", onward.__all__)
def test_the_types_of_every_public_name_are_stated(name: str) -> None:
    text = "\n".join(path.read_text() for path in CHECKED)
    assert re.search(rf"\b{name}\b", text), f"no file here uses {name}"
