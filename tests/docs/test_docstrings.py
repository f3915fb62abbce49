"""Every public name has a docstring, and the examples in docstrings run as printed."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
from typing import Any

import pytest

import onward
from onward import handles
from onward.sdk.current import Attributes, Counters
from onward.sdk.mapping import Mapped
from onward.sdk.sync import SyncWithin, SyncWorker
from onward.sdk.within import Within

# Types that public functions return, but that `onward` does not export.
RETURNED = (Attributes, Counters, Mapped, SyncWithin, SyncWorker, Within)
PUBLIC = {name: getattr(home, name) for home in (onward, handles) for name in home.__all__}


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


def members() -> list[tuple[str, Any]]:
    """Return (name, value) for every public method and property of the public classes."""
    kinds = [*PUBLIC.values(), *RETURNED]
    return [
        (f"{kind.__name__}.{name}", value)
        for kind in kinds
        if inspect.isclass(kind)
        for name, value in inspect.getmembers(kind)
        if not name.startswith("_") and (inspect.isroutine(value) or isinstance(value, property))
        if getattr(value, "__module__", "onward").startswith("onward")  # not what `tuple` gives
        and not inspect.isbuiltin(value)
    ]


@pytest.mark.parametrize("example", examples(), ids=lambda example: example.name)
def test_an_example_in_a_docstring_runs(example: doctest.DocTest) -> None:
    runner = doctest.DocTestRunner(verbose=False)
    runner.run(example)
    assert runner.summarize(verbose=False).failed == 0


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_a_docstring_with_an_example(name: str) -> None:
    text = PUBLIC[name].__doc__
    assert text, f"{name} has no docstring"
    assert doctest.DocTestParser().get_examples(text), f"{name} has no example"


def test_every_public_method_has_a_docstring() -> None:
    found = members()
    assert len(found) > 50
    assert [name for name, value in found if not inspect.getdoc(value)] == []


def test_returned_types_have_docstrings() -> None:
    assert [kind for kind in RETURNED if not kind.__doc__] == []
