"""What a worker does for its runs beyond writing: starting others by id, and following them up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

from onward.codec import decode_error, encode
from onward.core.retry import Again, decide
from onward.core.run import Reason, RunState
from onward.engine import following, starting
from onward.engine.payloads import pack, unpack
from onward.engine.policies import facts_of, read_policy
from onward.errors import Conflict
from onward.store.rows import Move

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from onward.codec import Arguments
    from onward.core.instant import Duration
    from onward.core.ports import Chance
    from onward.runtime.execution import Execution
    from onward.store.rows import NewRun, Started
    from onward.store.store import Store

T = TypeVar("T")


class Errands:
    """Errands of the runs of one worker."""

    def __init__(self, store: Store, worker: str, chance: Chance) -> None:
        self._store = store
        self._worker = worker
        self._chance = chance
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, run: NewRun, on_conflict: str | None) -> asyncio.Future[Started]:
        """Start a run under an id that may be taken; None: it must become this very run."""
        return self._go(self._start(run, on_conflict))

    async def _start(self, run: NewRun, on_conflict: str | None) -> Started:
        started = await starting.start(self._store, run, on_conflict or "return")
        if started.uid != run.uid and on_conflict is None:
            raise Conflict(run.id, "it belongs to a run that is no child of this one")
        return started

    def retry(self, execution: Execution, move: Move) -> asyncio.Future[bool] | None:
        """Retry a run that has failed as a whole, if that was asked for and may help."""
        policy = execution.claimed.retry
        if policy is None or move.reason != Reason.LOGIC or move.error is None:
            return None
        error = decode_error(unpack(move.error))
        decision = decide(
            read_policy(policy),
            execution.claimed.attempt,
            facts_of(error),
            chance=self._chance.random(),
        )
        if not isinstance(decision, Again):
            return None
        return self._go(self._retry(execution, move, decision.after))

    async def _retry(self, execution: Execution, move: Move, after: Duration) -> bool:
        followed = await following.retry(
            self._store,
            execution.uid,
            delay=after,
            owner=(self._worker, execution.fence, move),
        )
        return followed.fate == "made"

    def go_on(self, execution: Execution, arguments: Arguments) -> asyncio.Future[bool]:
        """End a run, and go on as a new one with other arguments."""
        return self._go(self._go_on(execution, arguments))

    async def _go_on(self, execution: Execution, arguments: Arguments) -> bool:
        attributes = execution.notes.seen.attributes
        followed = await following.go_on(
            self._store,
            execution.claimed,
            self._worker,
            Move(RunState.SUCCEEDED, Reason.CONTINUED),
            (
                pack(arguments.payload()),
                arguments.fingerprint(),
                pack(encode(attributes)) if attributes else None,
            ),
        )
        return followed.fate == "made"

    def _go(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Let what is under way come to its end."""
        if self._tasks:
            await asyncio.wait(self._tasks)
