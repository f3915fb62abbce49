"""Calls of the engine that executions make and do not wait for in place: each is a future."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from onward.codec import decode_error
from onward.core.retry import Again, decide
from onward.core.run import Reason, RunKind
from onward.engine.payloads import unpack
from onward.engine.policies import facts_of, read_policy
from onward.model.runs import RunOwner
from onward.model.workers import LoadedRun
from onward.runtime.execution.replies import Overtaken
from onward.runtime.execution.reporting import scope_of
from onward.runtime.reading import reading
from onward.runtime.worker.outage import AWAY
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from onward.core.flow import FlowId
    from onward.core.instant import Duration
    from onward.core.ports import Randomness
    from onward.engine.worker_engine import WorkerEngine
    from onward.model.effects import EffectRow
    from onward.model.flow import DeclaredLimits
    from onward.model.following import Continuation, Followed
    from onward.model.messages import InboxRow
    from onward.model.records import RecordRow
    from onward.model.runs import ClaimedRun, Move, NewRun, RunEnd, Started
    from onward.runtime.worker.outage import Outage

T = TypeVar("T")

MAX_DECLARED = 1000
"""Of how many workflows and keys a worker remembers that it has declared their limits."""


class EngineCalls:
    """Calls of the engine for the runs of one worker; while it is unavailable they are repeated."""

    def __init__(
        self, engine: WorkerEngine, worker: str, randomness: Randomness, outage: Outage
    ) -> None:
        self._engine = engine
        self._outage = outage
        self._worker = worker
        self._randomness = randomness
        self._tasks: set[asyncio.Task[Any]] = set()
        self._context = copy_context()  # not that of the run that calls
        self._declared: dict[FlowId, DeclaredLimits] = {}

    def _owner(self, run: ClaimedRun) -> RunOwner:
        """Return the right of this worker to write for a run."""
        return RunOwner(self._worker, run.uid, run.fence)

    def start(
        self, by: ClaimedRun, run: NewRun, on_conflict: str | None
    ) -> asyncio.Future[Started | None]:
        """Start a run under an id that may be taken; without `on_conflict` it must be free."""
        owner = self._owner(by)
        return self._go(lambda: _if_there(self._engine.start(owner, run, on_conflict)))

    def end_of(self, uid: str) -> asyncio.Future[RunEnd | None]:
        """Return how a run ended; None if it is open."""
        return self._go(lambda: _if_there(self._engine.end_of(uid)))

    def is_over(self, uid: str) -> asyncio.Future[bool]:
        """Return whether exactly this run has ended, even if another follows it."""
        return self._go(lambda: self._is_over(uid))

    async def _is_over(self, uid: str) -> bool:
        return await self._engine.end_of(uid, exact=True) is not None

    def dismiss(self, by: ClaimedRun, children: list[str]) -> asyncio.Future[None]:
        """Cancel children of a run, or the runs that follow them by now."""
        # Not with a commit: that would reach exactly this run, which may have continued as another.
        owner = self._owner(by)
        return self._go(lambda: self._engine.dismiss(owner, children))

    def dismiss_all(self, by: ClaimedRun, children: list[str]) -> asyncio.Future[None]:
        """Cancel these children of a run, and all others that are cancelled with it."""
        owner = self._owner(by)
        return self._go(lambda: self._engine.dismiss(owner, children, all_bound=True))

    def declare(
        self, by: ClaimedRun, flow: FlowId, limits: DeclaredLimits
    ) -> asyncio.Future[None] | None:
        """Declare the limits of a workflow or a key; None: this worker has done so before."""
        if self._declared.get(flow) == limits:
            return None
        owner = self._owner(by)
        return self._go(lambda: self._declare(owner, flow, limits))

    async def _declare(self, owner: RunOwner, flow: FlowId, limits: DeclaredLimits) -> None:
        await self._engine.declare(owner, flow, limits)
        if len(self._declared) >= MAX_DECLARED:
            self._declared.clear()
        self._declared[flow] = limits

    def retry(self, run: ClaimedRun, move: Move) -> asyncio.Future[bool | None] | None:
        """Retry a run that ends like this as a whole, if its policy says so.

        None, at once or as the answer: it is not retried.
        """
        if run.retry is None or move.reason != Reason.LOGIC or move.error is None:
            return None
        if run.kind == RunKind.STEP:
            return None  # then it is the policy of the step, which was tried as often as it says
        error = decode_error(unpack(move.error))
        with reading(f"the retry policy of run {run.id}"):
            policy = read_policy(run.retry)
        decision = decide(
            policy, run.attempt, facts_of(error), randomness=self._randomness.random()
        )
        if not isinstance(decision, Again):
            return None
        left = None if policy.within_length is None else policy.within_length - decision.after
        return self._go(lambda: self._retry(run, move, decision.after, left))

    async def _retry(
        self, run: ClaimedRun, move: Move, after: Duration, left: Duration | None
    ) -> bool | None:
        followed = await self._engine.retry(self._owner(run), move, after, left)
        if followed.fate in ("undone", "forked"):
            scope = scope_of(run, self._worker)
            emit("run.unretried", scope, reason=followed.fate, effects=followed.why)
        return None if followed.fate in ("late", "undone", "forked") else _is_made(followed)

    def continue_run(
        self, run: ClaimedRun, move: Move, given: Continuation
    ) -> asyncio.Future[bool]:
        """End a run, and continue it as a new one with other arguments."""
        return self._go(lambda: self._continue_run(run, move, given))

    async def _continue_run(self, run: ClaimedRun, move: Move, given: Continuation) -> bool:
        return _is_made(await self._engine.continue_run(self._owner(run), move, given))

    def end_handler(
        self, run: ClaimedRun, end: Move, code: str, retry_in: Duration | None
    ) -> asyncio.Future[bool]:
        """End a handler's run that did not succeed, with what follows from that."""
        return self._go(lambda: self._end_handler(run, end, code, retry_in))

    async def _end_handler(
        self, run: ClaimedRun, end: Move, code: str, retry_in: Duration | None
    ) -> bool:
        ended = await self._engine.end_handler(self._owner(run), end, code, retry_in)
        return ended.fate == "ended" or _is_made(ended)

    def messages(self, uid: str, seqs: list[int]) -> asyncio.Future[list[InboxRow]]:
        """Read messages of a run, with their payloads."""
        return self._go(lambda: self._engine.messages(uid, seqs))

    def history(self, uid: str) -> asyncio.Future[Sequence[RecordRow]]:
        """Read the history of another run."""
        return self._go(lambda: self._history(uid))

    async def _history(self, uid: str) -> Sequence[RecordRow]:
        loaded = (await self._engine.load([uid], {})).get(uid, LoadedRun())
        if loaded.failure is not None:
            raise loaded.failure
        return loaded.history

    def effect(self, key: str) -> asyncio.Future[EffectRow | None]:
        """Read a row of the ledger."""
        return self._go(lambda: self._engine.effect(key))

    def withdraw(self, by: ClaimedRun) -> asyncio.Future[None]:
        """Withdraw the effects that a run planned and never sent: it is about to end."""
        owner = self._owner(by)
        return self._go(lambda: self._engine.withdraw_effects(owner))

    def reserve_rate(
        self, by: ClaimedRun, name: str, interval: Duration
    ) -> asyncio.Future[Duration]:
        """Reserve the next send of an effect with a limited rate; return how long to wait."""
        owner = self._owner(by)
        return self._go(lambda: self._engine.reserve_rate(owner, name, interval))

    def _go(self, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        """Begin something; it is repeated while the engine is unavailable."""
        going = self._outage.through(work)
        task = asyncio.get_running_loop().create_task(going, context=self._context)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Wait for the calls under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)


async def _if_there(work: Coroutine[Any, Any, T | None]) -> T | None:
    """Return the answer; None, to ask again later, if the engine is unavailable."""
    try:
        return await work
    except AWAY:
        return None


def _is_made(followed: Followed) -> bool:
    if followed.fate == "busy":
        raise Overtaken
    return followed.fate == "made"
