"""An engine of one worker that keeps runs, records and effects in dicts, on a clock that it moves.

When the worker has nothing to do, the clock jumps to the next due time: so a test takes no time.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onward.codec import decode, decode_error
from onward.core.inbox import MessageKind
from onward.core.lease import Fate
from onward.engine.owned_runs import OwnedRun, end_messages
from onward.engine.payloads import pack, unpack
from onward.errors import Conflict
from onward.model.commits import CommitOutcome
from onward.model.effects import EffectRow
from onward.model.ends import to_children
from onward.model.messages import InboxRow, NewMessage
from onward.model.records import RecordRow
from onward.model.runs import ClaimedRun, NewRun, RunEnd, Started
from onward.model.workers import ClaimAnswer, LoadedRun, News
from onward.runtime.definition import Limits
from onward.runtime.worker.options import Options, Ports
from onward.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from onward.core.instant import Duration, Instant
    from onward.engine.worker_engine import Renewer, WorkerHooks
    from onward.model.claims import Wanted
    from onward.model.commits import Answered, Commit
    from onward.model.effects import EffectWrite
    from onward.model.runs import Move, RunOwner
    from onward.model.workers import Registration
    from onward.runtime.registry import Registry

UID = "01a1de9b-5b4c-728b-97c9-000000000001"
EPOCH = 1_800_000_000_000_000
_ENDED = frozenset({"succeeded", "failed", "cancelled", "timed_out"})


class SteppedClock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self._now = EPOCH

    def step(self, length: Duration) -> None:
        self._now += length

    def wall(self) -> Instant:
        return self._now

    def monotonic(self) -> int:
        return self._now


class Dice:
    """Randomness without surprises."""

    def random(self) -> float:
        return 0.5

    def bits(self, count: int) -> int:
        return 1

    def token(self) -> str:
        return "0" * 32


@dataclass
class FakeRun:
    """One run: its row, its history and its inbox."""

    new: NewRun
    state: str = "ready"
    reason: str | None = None
    due: Instant = 0
    fence: int = 0
    result: bytes | None = None
    error: bytes | None = None
    records: dict[tuple[str, int], RecordRow] = field(default_factory=dict)
    inbox: list[InboxRow] = field(default_factory=list)

    @property
    def is_over(self) -> bool:
        return self.state in _ENDED

    def outcome(self) -> Any:
        """Return the result of the run, or raise its error."""
        if self.error is not None:
            raise decode_error(unpack(self.error))
        assert self.state == "succeeded", (self.state, self.reason)
        return decode(unpack(self.result))


class FakeEngine:
    """The engine of one worker."""

    is_private = True
    has_own_clock = False

    def __init__(self) -> None:
        self.clock = SteppedClock()
        self.runs: dict[str, FakeRun] = {}
        self.effects: dict[str, EffectRow] = {}
        self.calls: list[str] = []
        self.before_commit: Callable[[Commit], Fate | Exception | None] = lambda _: None
        """A test may look at a commit, change something, refuse it, or say that the run is lost."""
        self.states: list[str] = []
        """The states that were written to the ledger."""
        self._woken = asyncio.Event()
        self._changed: list[str] = []
        self._moved = asyncio.Condition()

    # --- for a test ------------------------------------------------------------------------------

    def add(self, name: str, arguments: bytes, uid: str = UID, run_id: str = "run-1") -> FakeRun:
        run = self.runs[uid] = FakeRun(NewRun(uid, run_id, name, arguments, "hash"))
        return run

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until a commit makes it so."""
        async with self._moved:
            await self._moved.wait_for(is_so)

    def send(self, kind: MessageKind, name: str = "", uid: str = UID) -> None:
        """Send a message to a run, and wake it."""
        self._deliver(NewMessage(uid, f"{kind} {name}", kind, name))

    def decide(self, verdict: str, **changes: Any) -> None:
        """Write an operator's decision on the only effect there is, and wake its run."""
        [row] = self.effects.values()
        changes |= {"version": row.version + 1, "verdict": verdict}
        self.effects[row.key] = row._replace(decided_at=self.clock.wall(), **changes)
        self.send(MessageKind.VERDICT, row.key, row.run)

    # --- the worker ------------------------------------------------------------------------------

    def connect(self, worker: str, hooks: WorkerHooks) -> Any:
        self.worker, self._hooks = worker, hooks
        return self

    async def cached_result(self, key: str) -> bytes | None:
        return None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AssertionError(f"the worker called {name}, which this engine does not have")

    async def join(self, registration: Registration, lease: Duration, before: object) -> None:
        self.calls.append("join")
        self._hooks.on_time(self.clock.wall(), self.clock.monotonic())

    @asynccontextmanager
    async def renewer(self) -> AsyncIterator[Renewer]:
        yield self

    async def renew(self, length: Duration) -> bool:
        return True

    async def wait(self, seconds: float) -> News:
        await self._woken.wait()  # also when a run has left the worker, or is over
        self._woken.clear()
        changed, self._changed = self._changed, []
        if not changed:
            self._jump()
        return News(tuple(changed))

    def _jump(self) -> None:
        """Put the clock forward to the next due time, unless a run has something to do."""
        states = {run.state for run in self.runs.values()}
        dues = [run.due for run in self.runs.values() if run.state == "waiting" and run.due]
        if dues and not states & {"ready", "running"}:
            self.clock.step(max(0, min(dues) - self.clock.wall()))
            self._hooks.on_time(self.clock.wall(), self.clock.monotonic())

    def wake(self) -> None:
        self._woken.set()

    async def next_due(self, since: Instant) -> Instant | None:
        return None

    async def maintain(self) -> bool:
        return False

    async def report_draining(self) -> None:
        return

    async def claim(self, wanted: Wanted) -> ClaimAnswer:
        now, claimed = self.clock.wall(), []
        for run in self.runs.values():
            if run.state == "ready" or (run.state == "waiting" and 0 < run.due <= now):
                run.state, run.fence = "running", run.fence + 1
                self.calls.append("claim")
                claimed.append(a_claim(run))
        return ClaimAnswer(claimed)

    async def load(
        self, histories: Collection[str], inboxes: Mapping[str, int | None]
    ) -> dict[str, LoadedRun]:
        self.calls.append("load")
        loaded = {}
        for uid in {*histories, *inboxes}:
            run = self.runs[uid]
            rows = run.records.values() if uid in histories else ()
            history = sorted(rows, key=lambda row: (row.seq is None, row.seq or 0))
            taken = {row.message for row in history}
            seen = inboxes.get(uid) or 0
            inbox = [row for row in run.inbox if row.seq > seen and row.seq not in taken]
            loaded[uid] = LoadedRun(history, inbox)
        return loaded

    async def count_messages(self, run: str) -> int:
        return len(self.runs[run].inbox)

    async def owned(self) -> dict[str, int]:
        return {uid: run.fence for uid, run in self.runs.items() if run.state == "running"}

    async def audit(self, known: Collection[str]) -> list[str]:
        return []

    async def flush(self) -> None:
        self.calls.append("flush")

    async def leave(self, *, releases: bool) -> None:
        self.calls.append("leave")

    def disconnect(self) -> None:
        self.calls.append("disconnect")

    # --- commits ---------------------------------------------------------------------------------

    def submit(self, commit: Commit, then: Answered) -> None:
        met = self.before_commit(commit) or self._commit(commit)
        answer = met if isinstance(met, Exception) else CommitOutcome(met, self.clock.wall())
        asyncio.get_running_loop().call_soon(then, answer)
        asyncio.get_running_loop().create_task(self._notify())

    def _commit(self, commit: Commit) -> Fate:
        run, now = self.runs[commit.run], self.clock.wall()
        if run.fence != commit.fence or run.state != "running":
            return Fate.LOST
        if commit.seen is not None and commit.seen < len(run.inbox):
            return Fate.BUSY
        for row in commit.attached.effects:
            stored = self.effects.get(row.key)
            if row.version != (0 if stored is None else stored.version) + 1:
                return Fate.BUSY
        for row in commit.attached.effects:
            self._write_effect(row, now)
        for new in commit.latest_records():
            due = new.due if new.due_in is None else now + new.due_in
            closed = None if new.state == "open" else now
            run.records[new.identity, new.attempt] = RecordRow(
                new.run, new.identity, new.attempt, new.seq, str(new.kind), new.name,
                str(new.state), new.args_hash, new.version, due, new.message, new.payload,
                new.error, now, closed,
            )  # fmt: skip
        for start in commit.starts:
            self.runs[start.uid] = FakeRun(start)
        assert not commit.messages, "messages are the engine's"
        if commit.move is not None:
            self._move(run, commit.move, now)
        return Fate.DONE

    def _write_effect(self, row: EffectWrite, now: Instant) -> None:
        before = self.effects.get(row.key)
        start_by = None if row.start_by_in is None else now + row.start_by_in
        settle = None if row.settle_in is None else now + row.settle_in
        known = None if row.known_in is None else now + row.known_in
        self.states.append(str(row.state))
        self.effects[row.key] = EffectRow(
            row.key, row.run, row.identity, row.name, row.title, row.args, row.args_hash,
            str(row.state), row.version, row.attempt, row.asks, row.approved, row.reconciler,
            row.tries, row.reach, start_by or (before and before.start_by),
            settle or (before and before.settle_until), known or (before and before.known_until),
            None if row.due_in is None else now + row.due_in, row.result, row.error,
            None, None, None, None, before.created_at if before else now, now, row.returns,
            row.attempts, now,
        )  # fmt: skip

    def _move(self, run: FakeRun, move: Move, now: Instant) -> None:
        run.state = str(move.state)
        run.reason = None if move.reason is None else str(move.reason)
        run.due = move.due or (0 if move.due_in is None else now + move.due_in)
        run.result, run.error = move.result, move.error
        if run.is_over:
            self._woken.set()  # nothing else may happen until the next due time
            of = OwnedRun(run.fence, run.new.parent, run.new.parent_identity)
            for message in end_messages(of, move):
                self._deliver(message)

    async def _notify(self) -> None:
        async with self._moved:
            self._moved.notify_all()

    def _deliver(self, message: NewMessage) -> None:
        run = self.runs[message.target]
        if run.is_over or any(row.message == message.message for row in run.inbox):
            return
        now, seq = self.clock.wall(), len(run.inbox) + 1
        run.inbox.append(
            InboxRow(message.target, seq, message.message, str(message.kind), message.name,
                     message.payload, now)
        )  # fmt: skip
        if run.state in ("waiting", "paused"):
            run.state = "ready"
        elif run.state == "running":
            self._changed.append(message.target)
        self.wake()

    # --- what runs ask for -----------------------------------------------------------------------

    async def effect(self, key: str) -> EffectRow | None:
        row = self.effects.get(key)
        return None if row is None else row._replace(read_at=self.clock.wall())

    async def withdraw_effects(self, by: RunOwner) -> None:
        self.calls.append("withdraw")
        for key, row in self.effects.items():
            if row.run == by.run and row.state == "planned":
                self.states.append("withdrawn")
                self.effects[key] = row._replace(state="withdrawn", version=row.version + 1)

    async def reserve_rate(self, by: RunOwner, key: str, interval: Duration) -> Duration:
        self.calls.append("reserve")
        return interval

    async def start(self, by: RunOwner, run: NewRun, on_conflict: str | None) -> Started | None:
        self.calls.append("start")
        for uid, found in self.runs.items():
            if found.new.id == run.id and uid != run.uid:
                if on_conflict is None and found.new.parent != by.run:
                    raise Conflict(run.id, "another run has it")
                return Started(uid, False, found.new.name, found.new.args_hash, found.state)
        self.runs.setdefault(run.uid, FakeRun(run))
        self.wake()
        return Started(run.uid, True, run.name, run.args_hash, "ready")

    async def end_of(self, run: str, *, exact: bool = False) -> RunEnd | None:
        self.calls.append("end_of")
        found = self.runs[run]
        if not found.is_over:
            return None
        return RunEnd(
            run, found.state, found.reason, found.new.input, "", found.result, found.error,
            found.new.id, None, None, None, None, None,
        )  # fmt: skip

    async def dismiss(
        self, by: RunOwner, children: Collection[str], *, all_bound: bool = False
    ) -> None:
        self.calls.append("dismiss")
        for message in to_children(children):
            self._deliver(message)


def a_claim(run: FakeRun) -> ClaimedRun:
    new = run.new
    return ClaimedRun(
        new.uid, new.id, new.kind, new.name, None, "default", run.fence, len(run.inbox), 0, 0,
        None, new.parent, new.parent_identity, new.root, new.cancel_with_parent, None, None,
        new.attempt, new.origin, None, "", None, EPOCH, EPOCH, EPOCH, 0, "", "", new.input,
        "hash", None, None, None, None,
    )  # fmt: skip


@asynccontextmanager
async def working(
    engine: FakeEngine, registry: Registry, *, warm: int = 100
) -> AsyncIterator[Worker]:
    """Have a worker for this engine."""
    ports = Ports(engine.clock, Dice(), None, engine.connect, "here", 1)
    worker = Worker(registry, Options(warm=warm, is_alone=True), Limits(), ports)
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        yield worker
        worker.stop()


async def worked(engine: FakeEngine, registry: Registry, *, warm: int = 100) -> Any:
    """Let a worker run the first run of an engine to its end, and return its result."""
    run = next(iter(engine.runs.values()))
    async with working(engine, registry, warm=warm):
        await engine.until(lambda: run.is_over)
    return run.outcome()


def arguments(workflow: Any, *args: Any) -> bytes:
    """Return the input of a run of a workflow."""
    return pack(workflow.definition.shape.bind(args, {}).payload())
