"""The examples in docstrings run as they are printed."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import onward


def examples() -> list[doctest.DocTest]:
    """Return the docstrings of the source that have examples."""
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = []
    for module in pkgutil.walk_packages(onward.__path__, "onward."):
        if module.name.endswith("__main__"):
            continue
        tests = finder.find(importlib.import_module(module.name), module.name)
        found += [test for test in tests if test.examples]
    return found


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_an_example_in_a_docstring_runs(example: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example)
    assert runner.summarize(verbose=False).failed == 0


def test_there_are_examples() -> None:
    assert len(examples()) >= 3
