"""All of the core: its facts and decisions are values that nobody can change."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from enum import StrEnum

import onward.core

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


def test_every_fact_and_decision_is_frozen_and_has_slots() -> None:
    facts = [thing for thing in CLASSES if dataclasses.is_dataclass(thing)]

    assert len(facts) > 50
    assert [fact for fact in facts if not vars(fact)["__dataclass_params__"].frozen] == []
    assert [fact for fact in facts if "__slots__" not in vars(fact)] == []


def test_every_word_in_the_database_is_lower_case() -> None:
    words = [member for thing in CLASSES if issubclass(thing, StrEnum) for member in thing]

    assert len(words) > 50
    assert [word for word in words if not word.isidentifier() or word != word.lower()] == []
