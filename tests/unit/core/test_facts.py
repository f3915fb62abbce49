"""All of the core: its facts and decisions are values that nobody can change."""

from __future__ import annotations

import importlib
import pkgutil
from enum import StrEnum

import onward.core
from onward.core.value import Value

MODULES = [
    importlib.import_module(module.name)
    for module in pkgutil.walk_packages(onward.core.__path__, "onward.core.")
]
CLASSES = {
    thing
    for module in MODULES
    for thing in vars(module).values()
    if isinstance(thing, type) and thing.__module__ == module.__name__
}


# What keeps the place of a body in its history; all else is a value.
MUTABLE = {"Replay", "TrackedCall", "Naming"}


def test_every_fact_and_decision_is_a_value() -> None:
    values = {thing.__name__ for thing in CLASSES if issubclass(thing, Value)}
    rest = {
        thing.__name__
        for thing in CLASSES
        if not issubclass(thing, Value | StrEnum | tuple)
        and not getattr(thing, "_is_protocol", False)
    }

    tuples = [thing for thing in CLASSES if issubclass(thing, tuple)]

    assert len(values) > 60
    assert all(hasattr(thing, "_fields") for thing in tuples)  # cheaper where there are many
    # An API key shows its secret in no `repr`, as a value would.
    assert rest - MUTABLE - {"ApiKey", "Retry", "Rate", "Struct"} == set()


def test_every_word_in_the_database_is_lower_case() -> None:
    words = [member for thing in CLASSES if issubclass(thing, StrEnum) for member in thing]

    assert len(words) > 50
    assert [word for word in words if not word.isidentifier() or word != word.lower()] == []
