"""Waiting for runs to end: one query for all waiting callers, not one loop each."""

from __future__ import annotations

import asyncio
import math
import os
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from onward.core.run import TERMINAL
from onward.engine.loading import read_each
from onward.errors import NotOpen, StoreUnusable, Unavailable
from onward.errors.stores import CLOSED_MEANWHILE
from onward.store.hints import ANYTHING, run_subject
from onward.system.process import check_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping

    from onward.model.runs import RunEnd
    from onward.store.hints import Subscription
    from onward.store.store import Store

POLL_SECONDS = 1.0

MAX_READ = 500
"""How many runs are read at once."""

_RUN = run_subject("")


class EndedRun(Protocol):
    """A run that has ended, or is paused."""

    @property
    def uid(self) -> str: ...

    @property
    def state(self) -> str: ...


E = TypeVar("E", bound=EndedRun)


class Results(Generic[E]):
    """Tells callers how the runs ended that they wait for.

    Args:
        store: Where the runs are.
        read: Returns those of some runs that have ended or are paused.
        polls: Whether to look once a second without a hint, as hints may be lost.
    """

    def __init__(
        self,
        store: Store,
        read: Callable[[Collection[str]], Awaitable[Collection[E]]],
        *,
        polls: bool = True,
    ) -> None:
        self._store = store
        self._read = read
        self._poll_seconds = POLL_SECONDS if polls else math.inf
        self._next_poll = 0.0
        self._context = copy_context()  # not that of the first caller
        # The waiting callers of each run, and whether a pause ends their wait too.
        self._waiting: dict[str, dict[asyncio.Future[E], bool]] = {}
        self._new: set[str] = set()
        """Runs that are waited for and have not been looked at."""
        self._subscription: Subscription | None = None
        self._task: asyncio.Task[None] | None = None
        self._pid = os.getpid()
        self._next_check = -math.inf

    async def end_of(self, uid: str, *, also_paused: bool = False) -> E:
        """Wait until a run has ended (or is paused, if asked), and return how.

        Raises:
            StoreUnusable: this process was forked from the one that has opened the store.
        """
        return await self.expect(uid, also_paused=also_paused)

    def expect(self, uid: str, *, also_paused: bool = False) -> asyncio.Future[E]:
        """Return a future of how a run ends (or of its pause, if asked); cancel it to give up.

        Raises:
            StoreUnusable: this process was forked from the one that has opened the store.
        """
        check_process(self._pid, self._store.database.where)
        loop = asyncio.get_running_loop()
        if self._task is None:
            self._task = loop.create_task(
                self._watch(), name="onward results", context=self._context
            )
        answer: asyncio.Future[E] = loop.create_future()
        self._waiting.setdefault(uid, {})[answer] = also_paused
        self._new.add(uid)
        if self._subscription is not None:
            self._subscription.subjects.add(run_subject(uid))
            self._subscription.wake()
        answer.add_done_callback(partial(self._forget, uid))
        return answer

    async def close(self) -> None:
        """Stop watching; callers that still wait get `NotOpen`."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        closed = NotOpen(self._store.database.where, CLOSED_MEANWHILE)
        self._fail(dict.fromkeys(self._waiting, closed))

    async def end_now(self, uid: str, *, also_paused: bool = False) -> RunEnd:
        """Return how a run has ended (or that it is paused, if asked).

        Raises:
            NotFound: it was deleted.
            TimeoutError: it has not.
        """
        for end in await self._store.ends([uid]):
            if also_paused or end.state in TERMINAL:
                return end
        if await self._store.gone([uid]):
            raise await self._store.not_found(uid)
        raise TimeoutError

    async def _look(self, uids: Collection[str]) -> None:
        """Look at runs that are waited for."""
        for part in _parts(uids):
            found, failed = await read_each(self._read_ends, part)
            for end in found.values():
                for answer, also_paused in self._waiting.get(end.uid, {}).items():
                    if not answer.done() and (also_paused or end.state in TERMINAL):
                        answer.set_result(end)
            self._fail(failed)
        await self._fail_deleted()

    async def _read_ends(self, uids: list[str]) -> dict[str, E]:
        return {end.uid: end for end in await self._read(uids)}

    async def _read_deleted(self, uids: list[str]) -> dict[str, Exception]:
        return {uid: await self._store.not_found(uid) for uid in await self._store.gone(uids)}

    async def _fail_deleted(self) -> None:
        """Tell callers, about once a second, that the run that they wait for was deleted."""
        now = asyncio.get_running_loop().time()
        if now < self._next_check and not math.isinf(self._poll_seconds):
            return
        open_uids = [
            uid for uid, answers in self._waiting.items() if not all(map(_is_done, answers))
        ]
        if open_uids:
            self._next_check = now + POLL_SECONDS
            for part in _parts(open_uids):
                deleted, failed = await read_each(self._read_deleted, part)
                self._fail(deleted | failed)

    async def _watch(self) -> None:
        with self._store.subscribe(run_subject(uid) for uid in self._waiting) as self._subscription:
            hints = {ANYTHING}
            while True:
                changed = self._changed(hints)
                try:
                    if changed:
                        await self._look(changed)
                except (Unavailable, StoreUnusable):
                    self._next_poll = 0.0  # it was open before, and comes back
                except Exception as error:  # noqa: BLE001 - every waiting caller gets it
                    self._fail(dict.fromkeys(self._waiting, error))
                hints = await self._subscription.wait(
                    self._poll_seconds if self._waiting else math.inf
                )

    def _changed(self, hints: set[str]) -> Collection[str]:
        """Return the runs to look at: those of hints and new ones, and all when it is time."""
        now = asyncio.get_running_loop().time()
        new, self._new = self._new, set()
        if ANYTHING in hints or now >= self._next_poll:
            self._next_poll = now + self._poll_seconds
            return self._waiting
        hinted = {hint.removeprefix(_RUN) for hint in hints}
        return (new | hinted) & self._waiting.keys()

    def _fail(self, errors: Mapping[str, Exception]) -> None:
        """Give callers the error of the run that they wait for."""
        for uid, error in errors.items():
            for answer in self._waiting.get(uid, {}):
                if not answer.done():
                    answer.set_exception(error)

    def _forget(self, uid: str, answer: asyncio.Future[E]) -> None:
        answers = self._waiting.get(uid, {})
        answers.pop(answer, None)
        if not answers:
            self._waiting.pop(uid, None)
            if self._subscription is not None:
                self._subscription.subjects.discard(run_subject(uid))


def _is_done(answer: asyncio.Future[E]) -> bool:
    return answer.done()


def _parts(uids: Collection[str]) -> Iterator[list[str]]:
    all_uids = list(uids)
    for first in range(0, len(all_uids), MAX_READ):
        yield all_uids[first : first + MAX_READ]
