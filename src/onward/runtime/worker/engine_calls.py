"""What a worker does for its runs beyond writing: starting others by id, and following them up."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from onward.codec import decode_error, encode
from onward.core.retry import Again, decide
from onward.core.run import TERMINAL, Reason, RunKind
from onward.engine import children, following
from onward.engine.payloads import pack, unpack
from onward.engine.policies import facts_of, read_policy
from onward.errors import NotFound
from onward.model.runs import RunOwner
from onward.runtime.execution.endings import Overtaken
from onward.runtime.reading import reading
from onward.runtime.worker.outage import AWAY
from onward.store.runs import ledger
from onward.store.runs.owning import dismiss, dismiss_all
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from onward.codec import Arguments
    from onward.core.instant import Duration
    from onward.core.ports import Randomness
    from onward.model.effects import EffectRow
    from onward.model.following import Followed
    from onward.model.messages import InboxRow
    from onward.model.runs import ClaimedRun, Move, NewRun, RunEnd, Started
    from onward.runtime.execution.execution import Execution
    from onward.runtime.worker.outage import Outage
    from onward.store.store import Store

T = TypeVar("T")


class EngineCalls:
    """EngineCalls of the runs of one worker."""

    def __init__(self, store: Store, worker: str, randomness: Randomness, outage: Outage) -> None:
        self._store = store
        self._outage = outage
        self._worker = worker
        self._randomness = randomness
        self._tasks: set[asyncio.Task[Any]] = set()
        self._context = copy_context()  # not that of the run which is asked for
        self._limits: dict[str, int] = {}

    def _owner(self, execution: Execution) -> RunOwner:
        """Return who writes for a run, as long as the run is this worker's."""
        return RunOwner(self._worker, execution.uid, execution.fence)

    def start(
        self, execution: Execution, run: NewRun, on_conflict: str | None
    ) -> asyncio.Future[Started | None]:
        """Start a run under an id that may be taken; without `on_conflict` it must be free."""
        owner = self._owner(execution)
        if on_conflict is None:
            return self._go(lambda: _if_there(children.start_child(self._store, owner, run)))
        return self._go(
            lambda: _if_there(children.start_beside(self._store, owner, run, on_conflict))
        )

    def end_of(self, uid: str) -> asyncio.Future[RunEnd | None]:
        """Return what came of a run, if it is over."""
        return self._go(lambda: _if_there(children.end_of(self._store, uid)))

    def is_over(self, uid: str) -> asyncio.Future[bool]:
        """Say whether this very run is over, whatever follows it."""
        return self._go(lambda: self._is_over(uid))

    async def _is_over(self, uid: str) -> bool:
        return (await self._store.run(uid)).state in TERMINAL

    def dismiss(self, execution: Execution, children: list[str]) -> asyncio.Future[None]:
        """Tell children of a run to stop, or the runs that follow them by now."""
        # Not with a commit: that would reach the very run, which may have gone on as another.
        owner = self._owner(execution)
        return self._go(lambda: dismiss(self._store, owner, children))

    def dismiss_all(self, execution: Execution, children: list[str]) -> asyncio.Future[None]:
        """Tell these children of a run to stop, and all others that are cancelled with it."""
        owner = self._owner(execution)
        return self._go(lambda: dismiss_all(self._store, owner, children))

    def limit(self, execution: Execution, key: str, most: int) -> asyncio.Future[None] | None:
        """Let at most so many runs of a key be running at a time; None: that is so already."""
        if self._limits.get(key) == most:
            return None
        owner = self._owner(execution)
        return self._go(lambda: self._limit(owner, key, most))

    async def _limit(self, owner: RunOwner, key: str, most: int) -> None:
        await self._store.set_limit(key, most, owner)
        self._limits[key] = most

    def retry(self, execution: Execution, move: Move) -> asyncio.Future[bool | None] | None:
        """Retry a run that has failed as a whole, if that was asked for and may help.

        None, at once or as the answer: it is not.
        """
        policy = execution.claimed.retry
        if policy is None or move.reason != Reason.LOGIC or move.error is None:
            return None
        if execution.claimed.kind == RunKind.STEP:
            return None  # then it is the policy of the step, which was tried as often as it says
        error = decode_error(unpack(move.error))
        with reading(f"the retry policy of run {execution.claimed.id}"):
            kept = read_policy(policy)
        decision = decide(
            kept, execution.claimed.attempt, facts_of(error), randomness=self._randomness.random()
        )
        if not isinstance(decision, Again):
            return None
        left = None if kept.within_length is None else kept.within_length - decision.after
        seen = execution.seen  # not what arrives from here on: that must be looked at first
        return self._go(
            lambda: self._retry(execution, move._replace(seen=seen), decision.after, left)
        )

    async def _retry(
        self, execution: Execution, move: Move, after: Duration, left: Duration | None
    ) -> bool | None:
        if left is not None and await self._elapsed(execution.claimed) >= left:
            return None
        followed = await following.retry(
            self._store,
            execution.uid,
            delay=after,
            owner=(self._worker, execution.fence, move),
        )
        if followed.fate == "undone":
            emit("run.unretried", execution.scope, effects=followed.why)
            return None
        return _is_made(followed)

    async def _elapsed(self, run: ClaimedRun) -> Duration:
        """Return the time since the first attempt of a run began."""
        began, before, number = run.started_at, run.follows, run.attempt
        with contextlib.suppress(NotFound):  # it may have been pruned
            while number > 1 and before is not None:
                row = await self._store.run(before)
                began, before, number = row.started_at, row.follows, row.attempt
        return 0 if began is None else await self._store.now() - began

    def go_on(self, execution: Execution, arguments: Arguments, move: Move) -> asyncio.Future[bool]:
        """End a run, and go on as a new one with other arguments."""
        return self._go(lambda: self._go_on(execution, arguments, move))

    async def _go_on(self, execution: Execution, arguments: Arguments, move: Move) -> bool:
        attributes = execution.notes.seen.attributes
        followed = await following.go_on(
            self._store,
            execution.claimed,
            self._worker,
            move,
            (
                pack(arguments.payload()),
                arguments.fingerprint(),
                pack(encode(attributes)) if attributes else None,
            ),
            execution.unheard,
        )
        return _is_made(followed)

    def messages(self, uid: str, seqs: list[int]) -> asyncio.Future[list[InboxRow]]:
        """Read messages of a run, with their payloads."""
        return self._go(lambda: self._store.messages(uid, seqs))

    def effect(self, key: str) -> asyncio.Future[EffectRow | None]:
        """Read a row of the ledger."""
        return self._go(lambda: ledger.effect(self._store, key))

    def withdraw(self, execution: Execution) -> asyncio.Future[None]:
        """Withdraw the effects that a run planned and never sent: it is about to end."""
        owner = self._owner(execution)
        return self._go(lambda: self._store.write(lambda tx: ledger.withdraw_own(tx, owner)))

    def turn(self, execution: Execution, key: str, interval: Duration) -> asyncio.Future[Duration]:
        """Return how long to wait before something of a limited rate may be done."""
        owner = self._owner(execution)
        return self._go(lambda: ledger.take_turn(self._store, owner, key, interval))

    def _go(self, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Begin something; while the store is away it is tried again."""
        going = self._outage.through(work)
        task = asyncio.get_running_loop().create_task(going, context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Let what is under way come to its end."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _if_there(work: Coroutine[Any, Any, T | None]) -> T | None:
    """Return what comes of it; None, for another time, if the database is away."""
    try:
        return await work
    except AWAY:
        return None


def _is_made(followed: Followed) -> bool:
    if followed.fate == "busy":
        raise Overtaken
    return followed.fate == "made"
