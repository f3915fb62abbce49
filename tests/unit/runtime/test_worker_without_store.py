"""A worker needs nothing but a `WorkerEngine`: here one that keeps everything in two dicts."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import onward
from onward import step, workflow
from onward.codec import decode
from onward.core.instant import SECOND
from onward.core.lease import Fate
from onward.engine.payloads import pack, unpack
from onward.model.commits import CommitOutcome
from onward.model.records import RecordRow
from onward.model.runs import ClaimedRun
from onward.model.workers import ClaimAnswer, LoadedRun, News
from onward.runtime.definition import Limits
from onward.runtime.registry import Registry
from onward.runtime.worker.options import Options, Ports
from onward.runtime.worker.worker import Worker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Mapping

    from onward.core.instant import Duration, Instant
    from onward.engine.worker_engine import Renewer, WorkerHooks
    from onward.model.claims import Wanted
    from onward.model.commits import Commit
    from onward.model.runs import Move
    from onward.model.workers import Registration

UID = "01a1de9b-5b4c-728b-97c9-000000000001"
EPOCH = 1_800_000_000_000_000
HOUR = 3600 * SECOND

greeted: list[str] = []


@step
async def greet(name: str) -> str:
    greeted.append(name)
    return f"Hello, {name}!"


@workflow
async def welcome(name: str) -> str:
    text = await greet(name)
    await onward.sleep("1h")
    return text


class FakeEngine:
    """The engine of one worker, with one run."""

    is_private = True
    has_own_clock = False

    def __init__(self, clock: SteppedClock, arguments: bytes) -> None:
        self.clock = clock
        self.state = "ready"
        self.due: Instant = 0
        self.result: Any = None
        self.records: dict[tuple[str, int], RecordRow] = {}
        self.calls: list[str] = []
        self._arguments = arguments
        self._fence = 0
        self._woken = asyncio.Event()
        self.has_ended = asyncio.Event()

    def connect(self, worker: str, hooks: WorkerHooks) -> Any:
        self.worker, self._hooks = worker, hooks
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        raise AssertionError(f"the worker called {name}, which this test has no need of")

    async def join(self, registration: Registration, lease: Duration, before: object) -> None:
        self.calls.append("join")
        assert "welcome" in registration.names
        self._hooks.on_time(self.clock.wall(), self.clock.monotonic())

    @asynccontextmanager
    async def renewer(self) -> AsyncIterator[Renewer]:
        yield self

    async def renew(self, length: Duration) -> bool:
        return True

    async def wait(self, seconds: float) -> News:
        await self._woken.wait()
        self._woken.clear()
        if self.state == "waiting":
            self.clock.step(HOUR)
            self._hooks.on_time(self.clock.wall(), self.clock.monotonic())
        return News()

    def wake(self) -> None:
        self._woken.set()

    async def next_due(self, since: Instant) -> Instant | None:
        return self.due if self.state == "waiting" else None

    async def maintain(self) -> bool:
        return False

    async def claim(self, wanted: Wanted) -> ClaimAnswer:
        if self.state not in ("ready", "waiting") or self.due > self.clock.wall():
            return ClaimAnswer(())
        self.calls.append("claim")
        self.state, self._fence = "running", self._fence + 1
        return ClaimAnswer([a_claim(self._fence, self._arguments)])

    async def load(
        self, histories: Collection[str], inboxes: Mapping[str, int | None]
    ) -> dict[str, LoadedRun]:
        self.calls.append("load")
        rows = sorted(self.records.values(), key=lambda row: (row.seq is None, row.seq or 0))
        return {uid: LoadedRun(rows) for uid in histories}

    def submit(self, commit: Commit) -> asyncio.Future[CommitOutcome]:
        now = self.clock.wall()
        for new in commit.latest_records():
            due = new.due if new.due_in is None else now + new.due_in
            closed = None if new.state == "open" else now
            self.records[new.identity, new.attempt] = RecordRow(
                new.run, new.identity, new.attempt, new.seq, str(new.kind), new.name,
                str(new.state), new.args_hash, new.version, due, new.message, new.payload,
                new.error, now, closed,
            )  # fmt: skip
        if commit.move is not None:
            self._move(commit.move, now)
        written: asyncio.Future[CommitOutcome] = asyncio.get_running_loop().create_future()
        written.set_result(CommitOutcome(Fate.DONE, now))
        return written

    def _move(self, move: Move, now: Instant) -> None:
        self.state = str(move.state)
        self.due = move.due or now + (move.due_in or 0)
        self.result = None if move.result is None else decode(unpack(move.result))
        if self.state == "succeeded":
            self.has_ended.set()

    async def audit(self, known: Collection[str]) -> list[str]:
        return []

    async def flush(self) -> None:
        self.calls.append("flush")

    async def leave(self, *, releases: bool) -> None:
        self.calls.append("leave")

    def disconnect(self) -> None:
        self.calls.append("disconnect")


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


def a_claim(fence: int, arguments: bytes) -> ClaimedRun:
    return ClaimedRun(
        UID, "welcome-1", "workflow", "welcome", None, "default", fence, 0, 0, 0, None, None, None,
        None, 0, None, None, 1, None, None, None, EPOCH, EPOCH, EPOCH, 0, "", "",
        arguments, "hash", None, None, None, None,
    )  # fmt: skip


async def worked(warm: int) -> FakeEngine:
    """Let a worker run the workflow to its end, and return the engine."""
    greeted.clear()
    bound = welcome.definition.shape.bind(("Ada",), {})
    engine = FakeEngine(clock := SteppedClock(), pack(bound.payload()))
    ports = Ports(clock, Dice(), None, engine.connect, "here", 1)
    registry = Registry([welcome.definition], [greet.definition])
    worker = Worker(registry, Options(warm=warm, is_alone=True), Limits(), ports)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        group.create_task(worker.run())
        await engine.has_ended.wait()
        worker.stop()
    return engine


async def test_a_worker_executes_a_step_and_a_sleep_by_a_fake_engine() -> None:
    engine = await worked(warm=100)

    assert engine.result == "Hello, Ada!"
    assert greeted == ["Ada"]
    assert engine.clock.wall() - EPOCH == HOUR
    assert engine.calls == ["join", "claim", "claim", "flush", "leave", "disconnect"]


async def test_a_worker_replays_what_a_fake_engine_has_kept() -> None:
    engine = await worked(warm=0)

    assert engine.result == "Hello, Ada!"
    assert greeted == ["Ada"]
    assert engine.calls == ["join", "claim", "claim", "load", "flush", "leave", "disconnect"]
