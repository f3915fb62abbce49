"""Hints for all workers of a namespace: one subscription, not one per worker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from onward.store.hints import ANYTHING, SCHEDULES, Subscription

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from onward.store.hints import HintBus


class WorkerNews:
    """The hints on the runs of one worker.

    Args:
        hints: The subscription of the namespace.
        hear: Called with the subject of a run that may have changed, or with `ANYTHING`.
    """

    def __init__(self, hints: NamespaceHints, hear: Callable[[str], None]) -> None:
        self.hear = hear
        self._hints = hints
        self._runs: set[str] = set()
        self._others: set[str] | None = None

    @property
    def others(self) -> set[str] | None:
        """Hints on all subjects, while this is a set: the worker may soon have one of the runs."""
        return self._others

    @others.setter
    def others(self, others: set[str] | None) -> None:
        self._others = others
        if others is None:
            self._hints.claiming.pop(self, None)
        else:
            self._hints.claiming[self] = None

    def __enter__(self) -> Self:
        self._hints.workers[self] = None
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._hints.workers.pop(self, None)
        self._hints.claiming.pop(self, None)
        for subject in list(self._runs):
            self.discard(subject)

    def add(self, subject: str) -> None:
        """Subscribe to hints on a run."""
        before = self._hints.owners.get(subject)
        if before is not None and before is not self:
            before.hear(subject)  # it may have lost the run
        self._hints.owners[subject] = self
        self._runs.add(subject)

    def discard(self, subject: str) -> None:
        """Subscribe to hints on a run no longer."""
        self._runs.discard(subject)
        if self._hints.owners.get(subject) is self:
            del self._hints.owners[subject]

    def has(self, subject: str) -> bool:
        """Return whether the worker has not given up the run of a subject."""
        return subject in self._runs

    def wake(self) -> None:
        """Let waiting claims look again: runs that are due may be claimed now."""
        self._hints.on_hints((ANYTHING,))

    async def wait(self, seconds: float) -> set[str]:
        """Hints are delivered by calls."""
        raise NotImplementedError


class NamespaceHints(Subscription):
    """Delivers hints to the workers that have the runs, and the rest to the hub.

    Args:
        bus: Where hints are published.
        on_hints: Called with all subjects of a hint.
        on_schedules: Called when a schedule may be due sooner.
    """

    def __init__(
        self,
        bus: HintBus,
        on_hints: Callable[[Iterable[str]], None],
        on_schedules: Callable[[], None],
    ) -> None:
        super().__init__(bus, ())
        self.on_hints = on_hints
        self._on_schedules = on_schedules
        self.workers: dict[WorkerNews, None] = {}
        """In the order in which they connected: a simulation can be repeated."""
        self.owners: dict[str, WorkerNews] = {}
        """The worker that has the run of a subject."""
        self.claiming: dict[WorkerNews, None] = {}

    def deliver(self, subjects: frozenset[str]) -> None:
        """Pass hints on; called in the loop of this subscription."""
        for worker in self.claiming:
            if worker.others is not None:
                worker.others.update(subjects)
        if ANYTHING in subjects:
            for worker in list(self.workers):
                worker.hear(ANYTHING)
        else:
            owners = self.owners
            for subject in sorted(subjects):
                owner = owners.get(subject)
                if owner is not None:
                    owner.hear(subject)
        if SCHEDULES in subjects or ANYTHING in subjects:
            self._on_schedules()
        self.on_hints(subjects)
