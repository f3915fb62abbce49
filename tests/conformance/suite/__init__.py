"""The conformance suite: what every database of the store must do.

A subclass of `World` says how a fresh database is opened and reached from outside. Each test runs
in a world of its own, on every database. Nothing is skipped.
"""

from importlib import import_module

import pytest

from tests.conformance.suite.families import gathered
from tests.conformance.suite.world import Scenario, World, live

__all__ = ["SUBJECTS", "SUITE", "Scenario", "World", "live"]

SUBJECTS = (
    "deciding",
    "starting",
    "claiming",
    "sizing",
    "adopting",
    "leases",
    "recording",
    "repeating",
    "group_commits",
    "parking",
    "clock_steps",
    "inbox",
    "ending",
    "stopping",
    "holding",
    "deadlines",
    "following",
    "copying",
    "superseding",
    "owning",
    "limits",
    "scheduling",
    "flow",
    "flow_rules",
    "versions",
    "effects",
    "withdrawing",
    "publishing",
    "declaring",
    "launching",
    "reserving",
    "consuming",
    "operating",
    "inputs",
    "handler_ends",
    "handler_retries",
    "delivery_facts",
    "producing",
    "callers",
    "reading",
    "listing",
    "retention",
    "hinting",
    "namespaces",
    "access",
    "frame_facts",
    "views",
    "poison",
    "checking",
)
"""The modules of the suite, in the order in which they are best read."""

_MODULES = [f"{__name__}.{subject}" for subject in SUBJECTS]

pytest.register_assert_rewrite(*_MODULES)  # before they are imported, or failures tell nothing

SUITE: dict[str, Scenario] = gathered(map(import_module, _MODULES))
"""Every test by its name."""
