"""Tests that are one sentence over many cases: each case is a test of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import ModuleType

    from tests.conformance.suite.world import Scenario, World

Case = Callable[["World", str], Awaitable[None]]


@dataclass(frozen=True)
class Family:
    """A test and the names of its cases."""

    test: Case
    cases: tuple[str, ...]

    def scenarios(self) -> Iterator[tuple[str, Scenario]]:
        """Yield a test for each case, with its name."""
        for case in self.cases:
            yield f"{self.test.__name__}[{case}]", _bound(self.test, case)


def each(cases: Iterable[str]) -> Callable[[Case], Family]:
    """Make one test of each case; the test is given the case's name."""

    def family(test: Case) -> Family:
        return Family(test, tuple(cases))

    return family


def _bound(test: Case, case: str) -> Scenario:
    return lambda world: test(world, case)


def gathered(modules: Iterable[ModuleType]) -> dict[str, Scenario]:
    """Return the tests of these modules by name."""
    found: dict[str, Scenario] = {}
    for module in modules:
        for name, thing in vars(module).items():
            if not name.startswith("test_"):
                continue
            tests = thing.scenarios() if isinstance(thing, Family) else [(name, thing)]
            for full, test in tests:
                assert full not in found, f"two tests are called {full}"
                found[full] = test
    return found
