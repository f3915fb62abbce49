"""The world of one test: a database of its own, its clock, and hands that reach in from outside."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self

from onward.core.instant import HOUR
from onward.core.lease import RENEW_EVERY
from onward.store.invariants import check
from onward.testing.clock import VirtualClock
from tests.conformance.suite.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

    from onward.core.instant import Duration
    from onward.store import Store

DEFAULT = "default"
A_YEAR = 365 * 24 * HOUR

Scenario = Callable[["World"], Awaitable[None]]


class World(ABC):
    """A fresh database that one test has to itself; entered and left by `live`.

    A subclass says how to open a store there and how to reach in from outside. Where a database
    cannot be opened twice, `open` may return the same store again: the suite never relies on two
    stores being two objects, it gives their workers different names.

    Leaving checks that no invariant is broken, in every namespace that was used.
    """

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.spoiled = False
        """A test that breaks an invariant on purpose says so here."""
        self._stores: list[Store] = []
        self._workers = 0

    @abstractmethod
    async def open(self, namespace: str) -> Store:
        """Return a store on the database that is open and reads `self.clock`."""

    @abstractmethod
    async def close(self, store: Store) -> None:
        """Close a store that `open` returned."""

    @abstractmethod
    async def sql(self, statement: str) -> Sequence[Sequence[Any]]:
        """Run a statement past the store, as an operator at a console would."""

    @abstractmethod
    def caller(self, *, commit: bool) -> AbstractAsyncContextManager[Any]:
        """Return a user's own connection in a transaction, which ends with the block.

        It ends by a commit or by a rollback, as `commit` says. No store is used meanwhile.
        """

    async def leave(self) -> None:  # noqa: B027 - most have nothing to let go of
        """Let go of what else was opened; all stores are closed by now."""

    async def store(self, namespace: str = DEFAULT) -> Store:
        """Return a store on this world's database; each call may stand for another process."""
        store = await self.open(namespace)
        self._stores.append(store)
        return store

    def forget(self, store: Store) -> None:
        """Leave a store alone that the test has closed by itself."""
        self._stores.remove(store)

    async def worker(self, store: Store | None = None, *, lease: Duration = A_YEAR) -> Worker:
        """Return a worker that has a lease, in the given store or in one of its own."""
        self._workers += 1
        worker = Worker(store or await self.store(), f"worker-{self._workers}")
        assert await worker.store.take_lease(worker.name, lease) is not None
        return worker

    async def pass_time(self, length: Duration, *alive: Worker) -> None:
        """Let time pass in which these workers renew their leases as real ones do."""
        for _ in range(length // RENEW_EVERY):
            self.clock.advance(RENEW_EVERY)
            for worker in alive:
                assert await worker.renew() is not None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if error is None and not self.spoiled:
                by_namespace = {store.namespace: store for store in self._stores}
                for store in by_namespace.values():
                    assert [str(violation) for violation in await check(store)] == []
        finally:
            for store in self._stores:
                await self.close(store)
            await self.leave()


def live(world: World, scenario: Scenario) -> None:
    """Run one test of the suite in its world, from beginning to end."""
    asyncio.run(_live(world, scenario))


async def _live(world: World, scenario: Scenario) -> None:
    async with world:
        await scenario(world)
    left = asyncio.all_tasks() - {asyncio.current_task()}
    assert not left, f"tasks were left behind: {left}"
