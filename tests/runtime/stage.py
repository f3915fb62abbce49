"""A stage for one run: a host that decides, from a seed, what happens when.

It plays the worker and the store for a real `Execution`: steps end in a random order, commits are
answered late, the run is evicted and replayed from its history at random. Workers may crash at any
moment, and another may take over much later. Everything that is committed is kept as rows, so a
history can be cut anywhere and gone on with.
"""

from __future__ import annotations

import asyncio
import random
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from onward.codec import decode, encode, encode_error, signature_of
from onward.core.lease import Fate
from onward.engine.payloads import pack, unpack
from onward.model.commits import CommitOutcome
from onward.model.records import RecordRow
from onward.model.runs import ClaimedRun
from onward.runtime.attempts.attempt import Attempt
from onward.runtime.context import body_now
from onward.runtime.definition import Program
from onward.runtime.execution.execution import Execution
from onward.runtime.execution.host import End
from onward.runtime.execution.loop_monitor import LoopMonitor
from onward.runtime.registry import Registry
from onward.telemetry.observer import SILENT
from onward.telemetry.scope import StepScope

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.model.commits import Answered, Commit
    from onward.model.messages import InboxRow
    from onward.model.runs import Move
    from onward.runtime.attempts.perform import StepOwner
    from onward.runtime.attempts.sender import Sender
    from onward.runtime.body.calls import StepCall
    from onward.runtime.execution.host import HostedRun
    from onward.runtime.worker.engine_calls import EngineCalls

EPOCH = 1_800_000_000_000_000
UID = "01a1de9b-5b4c-728b-97c9-000000000001"


@dataclass
class Story:
    """What a run left behind."""

    rows: list[RecordRow] = field(default_factory=list)
    performed: list[str] = field(default_factory=list)
    state: str = "running"
    result: Any = None
    error: Any = None

    def closed(self) -> list[RecordRow]:
        return sorted((row for row in self.rows if row.seq is not None), key=lambda r: r.seq or 0)

    def identities(self) -> dict[str, tuple[str, str | None, bytes | None]]:
        return {row.identity: (row.name, row.args_hash, row.payload) for row in self.closed()}


class NoEngineCalls:
    """Nobody here starts other runs, or retries this one."""

    def retry(self, run: ClaimedRun, move: Move) -> None:
        return None


class StageAttempt(Attempt):
    """An attempt of a step whose end the stage decides."""

    def __init__(self, owner: StepOwner, call: StepCall) -> None:
        scope = StepScope(owner.scope, call.name, call.identity, call.attempt)
        super().__init__(owner.run, scope, owner)
        self._owner = owner
        self._call = call

    def on_left(self) -> None:
        self.is_left = True

    def on_end(self, error: BaseException | None) -> None:
        self._owner.step_ended(self._call, self, error)


class Stage:
    """Plays one run to its end."""

    engine_calls = cast("EngineCalls", NoEngineCalls())
    sender = cast("Sender", None)

    def __init__(
        self,
        body: Callable[..., Any],
        seed: int,
        history: list[RecordRow] | None = None,
        *,
        evict: float = 0.3,
        crash: float = 0.0,
        away: Duration = 0,
        beginning: str | None = None,
    ) -> None:
        self.story = Story(rows=list(history or ()))
        self._program = Program(body, signature_of(body))
        self._randomness = random.Random(seed)
        self._evict = evict
        self._crash = crash
        self._away = away
        self._beginning = beginning
        self._execution: Execution | None = None
        times = [row.closed_at or row.opened_at for row in self.story.rows]
        self._now = max([EPOCH, *times]) + 1000
        self._fence = 0
        self._unanswered: list[tuple[Commit, Answered]] = []
        self._gates: list[asyncio.Future[None]] = []
        self._parked: Execution | None = None
        self._due: Instant | None = None
        self._inbox: list[InboxRow] = []

    # --- the host --------------------------------------------------------------------------------

    id = "stage"
    observer = SILENT
    context = copy_context()
    loop_monitor = LoopMonitor()
    names = Registry(())

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def now(self) -> Instant:
        return self._now

    latest = now

    def commit(self, commit: Commit, then: Answered) -> None:
        self._unanswered.append((commit, then))

    def perform(self, owner: StepOwner, call: StepCall) -> Attempt:
        context = copy_context()
        context.run(body_now.set, None)
        attempt = StageAttempt(owner, call)
        attempt.start(self._perform(owner, call), self._loop, context, self.context)
        return attempt

    async def _perform(self, owner: StepOwner, call: StepCall) -> None:
        gate: asyncio.Future[None] = self._loop.create_future()
        self._gates.append(gate)
        await gate
        self.story.performed.append(call.identity)
        args, kwargs = call.arguments
        try:
            result = await call.definition.fn(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - whatever it raises is its outcome
            owner.close_step(call, error=pack(encode_error(error)))
        else:
            owner.close_step(call, payload=pack(call.definition.shape.encode_result(result)))

    def progress(self, execution: HostedRun, value: bytes) -> None:
        raise NotImplementedError

    def pending_progress(self, uid: str) -> bytes | None:
        return None

    @property
    def clock(self) -> Clock:
        raise NotImplementedError

    def randomness(self) -> float:
        raise NotImplementedError

    def look(self, execution: Execution) -> None:
        self._loop.call_soon(execution.receive, list(self._inbox))

    def ended(self, execution: Execution, end: End) -> None:
        if end is End.PARKED:
            self._parked = execution

    # --- the play --------------------------------------------------------------------------------

    def play(self) -> Story:
        """Play the run to its end and return what it left behind."""
        with asyncio.Runner() as runner:
            runner.run(self._play())
        return self.story

    async def _play(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._claim()
        while self.story.state == "running":
            await self._turn()
        await asyncio.sleep(0)

    async def _turn(self) -> None:
        for _ in range(self._randomness.randrange(1, 4)):
            await asyncio.sleep(0)
        if self._crash and self._randomness.random() < self._crash:
            self._take_over()
            return
        self._gates = [gate for gate in self._gates if not gate.done()]
        moves: list[Callable[[], None]] = [self._end_a_step for _ in self._gates]
        if self._unanswered:
            moves.append(self._answer)
        if moves:
            self._randomness.choice(moves)()
        elif self._parked is not None:
            self._now = max(self._now, self._due or self._now)
            self._claim()

    def _take_over(self) -> None:
        """Let the worker crash, with some of its commits written, and another come later."""
        written = self._randomness.randrange(len(self._unanswered) + 1)
        unanswered, self._unanswered = self._unanswered, []
        for commit, _ in unanswered[:written]:
            self._write(commit)
        assert self._execution is not None
        self._execution.forget()
        self._parked = None
        self._gates.clear()
        self._now += self._randomness.randrange(self._away + 1)
        if self.story.state == "running":
            self._claim()

    def _end_a_step(self) -> None:
        self._randomness.choice(self._gates).set_result(None)

    def _answer(self) -> None:
        commit, then = self._unanswered.pop(0)
        self._write(commit)
        self._loop.call_soon(then, CommitOutcome(Fate.DONE, self._now))

    def _write(self, commit: Commit) -> None:
        self._now += self._randomness.randrange(1, 1000)
        self._keep(commit)
        move = commit.move
        if move is not None and move.state == "waiting":
            self._due = move.due
        elif move is not None and move.state != "running":
            self.story.state = str(move.state)
            self.story.result = None if move.result is None else decode(unpack(move.result))
            self.story.error = move.error

    def _keep(self, commit: Commit) -> None:
        kept = {(row.identity, row.attempt): row for row in self.story.rows}
        for new in commit.latest_records():
            due = new.due if new.due_in is None else self._now + new.due_in
            closed = None if new.state == "open" else self._now
            old = kept.get((new.identity, new.attempt))
            assert old is None or old.state == "open", f"{new.identity} was recorded twice"
            kept[new.identity, new.attempt] = RecordRow(
                new.run, new.identity, new.attempt, new.seq, str(new.kind), new.name,
                str(new.state), new.args_hash, new.version, due, new.message, new.payload,
                new.error, self._now, closed,
            )  # fmt: skip
        self.story.rows = list(kept.values())

    def _claim(self) -> None:
        self._fence += 1
        claimed = ClaimedRun(
            UID, "play", "workflow", "body", None, "default", self._fence, 0, 0, 0, None, None,
            None, None, 0, None, None, 1, None, None, "", None, EPOCH, EPOCH, EPOCH, 0,
            "", "", pack(encode({})), "hash", None, None, None, self._beginning,
        )  # fmt: skip
        warm, self._parked = self._parked, None
        if warm is not None and self._randomness.random() >= self._evict:
            warm.resume(claimed)
            return
        if warm is not None:
            warm.forget()
        # In the order in which the store reads them.
        rows = sorted(self.story.rows, key=lambda row: (row.seq is None, row.seq or 0))
        self._execution = Execution(claimed, self._program, self, rows, list(self._inbox))
        self._execution.begin()


def as_json(row: RecordRow) -> list[Any]:
    """Return a row as JSON can hold it."""
    return [cell.hex() if isinstance(cell, bytes) else cell for cell in row]


def from_json(cells: list[Any]) -> RecordRow:
    """Return the row that `as_json` was given."""
    row = RecordRow._make(cells)
    return row._replace(
        payload=None if row.payload is None else bytes.fromhex(str(row.payload)),
        error=None if row.error is None else bytes.fromhex(str(row.error)),
    )
