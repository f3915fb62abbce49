"""The conformance suite: what every database of the store must do, as tests that anyone can run.

Say in a subclass of `World` how a fresh database is opened and reached from outside, and let each
test of the suite live in a world of its own:

    import pytest
    from onward.testing.conformance import SUITE, World, live

    class MyWorld(World):
        async def open(self, namespace): ...
        async def close(self, store): ...
        async def sql(self, statement): ...
        def caller(self, *, commit): ...

    @pytest.mark.parametrize("name", SUITE)
    def test_the_store_conforms(name, tmp_path):
        live(MyWorld(tmp_path), SUITE[name])

A store is a `Store` over anything that keeps the protocol `onward.store.database.Database`. Nothing
is skipped: a database that cannot do something is not one of ours.
"""

from importlib import import_module

import pytest

from onward.testing.conformance.families import gathered
from onward.testing.conformance.world import Scenario, World, live

__all__ = ["SUBJECTS", "SUITE", "Scenario", "World", "live"]

SUBJECTS = (
    "deciding",
    "starting",
    "claiming",
    "adopting",
    "leases",
    "recording",
    "repeating",
    "parking",
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
    "versions",
    "effects",
    "withdrawing",
    "deliveries",
    "states",
    "consuming",
    "callers",
    "reading",
    "listing",
    "hinting",
    "namespaces",
    "poison",
    "checking",
)
"""The modules of the suite, in the order in which they are best read."""

_MODULES = [f"{__name__}.{subject}" for subject in SUBJECTS]

pytest.register_assert_rewrite(*_MODULES)  # before they are imported, or failures tell nothing

SUITE: dict[str, Scenario] = gathered(map(import_module, _MODULES))
"""Every test by its name."""
