"""A toy world that runs bodies on the replay machine.

Bodies are made of calls, gathers and first-of-several. A seed decides in which order what is under
way comes to its end, so that one body has many histories.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, TypeAlias

from onward.core.replay import (
    Ask,
    Deliver,
    Diverged,
    Ended,
    Fresh,
    Frontier,
    HeldBack,
    Joined,
    Passed,
    Policy,
    Read,
    Record,
    RecordKind,
    RecordState,
    Replay,
    Resume,
    Wait,
)

if TYPE_CHECKING:
    from collections.abc import Generator

OPENED_FIRST = {RecordKind.TIMER, RecordKind.SIGNAL, RecordKind.CHILD, RecordKind.EFFECT}

# --- bodies ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Call:
    """A durable call; if its result is odd, `then` follows."""

    name: str
    kind: RecordKind = RecordKind.STEP
    key: str | None = None
    args: str = "args"
    then: tuple[Part, ...] = ()


@dataclass(frozen=True)
class Gather:
    """Several bodies at once; with `first` it goes on when one of them is through."""

    bodies: tuple[tuple[Part, ...], ...]
    first: bool = False


Part: TypeAlias = Call | Gather
Body: TypeAlias = tuple[Part, ...]
Task: TypeAlias = "Generator[Part, int | None, None]"


def task(body: Body) -> Task:
    for part in body:
        result = yield part
        if isinstance(part, Call) and result and result % 2:
            yield from task(part.then)


# --- the world ------------------------------------------------------------------------------------


@dataclass
class Join:
    """A task that waits for others to be through."""

    waiting: Task
    branch: str
    missing: int


@dataclass
class World:
    """One owner of a run, from its claim to the end of the body or to a crash."""

    body: Body
    history: dict[tuple[str, int], Record] = field(default_factory=dict)
    policy: Policy = Policy.ADDITIVE
    seed: int = 0
    writes_most: int = 1_000_000
    fails: bool = False

    def __post_init__(self) -> None:
        self.replay = Replay(self.history.values(), policy=self.policy)
        self.randomness = Random(self.seed)
        self.ready: deque[tuple[Task, str, int | None]] = deque()
        self.futures: dict[str, list[tuple[Task, str]]] = {}
        self.joins: dict[Task, Join] = {}
        self.asks: dict[str, Ask] = {}
        self.under_way: list[str] = []
        self.delivered: list[tuple[str, int]] = []
        self.fresh: list[str] = []
        self.passed: list[str] = []
        self.trace: list[str] = []
        self.writes = 0
        self.root = task(self.body)
        self.ended: Ended | Diverged | None = None

    def run(self) -> Ended | Diverged | None:
        """Run to the end, to a divergence, or until `writes_most` records are written: None."""
        self.ready.append((self.root, "", None))
        self.drain()
        while self.ended is None and self.turn():
            self.drain()
        return self.ended

    def drain(self) -> None:
        while self.ready and self.ended is None:
            running, branch, result = self.ready.popleft()
            try:
                part = running.send(result)
            except StopIteration:
                self.through(running)
                continue
            if isinstance(part, Call):
                self.call(part, running, branch)
            else:
                self.gather(part, running, branch)

    def through(self, ended: Task) -> None:
        if ended is self.root:
            self.ended = self.replay.end()
            return
        join = self.joins.pop(ended)
        join.missing -= 1
        if join.missing == 0:
            self.ready.append((join.waiting, join.branch, 0))

    def gather(self, part: Gather, running: Task, branch: str) -> None:
        join = Join(running, branch, 1 if part.first else len(part.bodies))
        for body in part.bodies:
            child = task(body)
            self.joins[child] = join
            self.ready.append((child, self.replay.branch(branch), None))

    def call(self, part: Call, running: Task, branch: str) -> None:
        ask = Ask(branch, part.kind, part.name, part.key, part.args)
        replaying = not self.replay.live
        match self.replay.ask(ask):
            case Diverged() as diverged:
                self.ended = diverged
            case Joined(_, record) if record is not None:
                self.ready.append((running, branch, record.payload))
            case Joined(identity, _):
                self.futures[identity].append((running, branch))
            case Read(identity) | HeldBack(identity):
                self.expect(identity, ask, running, branch)
            case Fresh(identity):
                assert not replaying
                self.expect(identity, ask, running, branch)
                self.begin(identity, again=False)
            case Resume(record):
                self.expect(record.identity, ask, running, branch)
                if not replaying:
                    self.begin(record.identity, again=True)
            case other:
                raise AssertionError(other)

    def expect(self, identity: str, ask: Ask, running: Task, branch: str) -> None:
        self.asks[identity] = ask
        self.trace.append(f"ask {identity}")
        self.futures[identity] = [(running, branch)]

    def begin(self, identity: str, *, again: bool) -> None:
        if not again:
            self.fresh.append(identity)
            self.trace.append(f"do {identity}")
            if self.asks[identity].kind in OPENED_FIRST:
                self.write(identity, RecordState.OPEN, closes=False)
        self.under_way.append(identity)

    def turn(self) -> bool:
        """Take one turn of a quiet body; False if nothing more will ever happen."""
        match self.replay.next():
            case Deliver(record):
                assert record.seq is not None
                self.delivered.append((record.identity, record.seq))
                self.trace.append(f"hand over {record.identity}")
                for running, branch in self.futures.pop(record.identity):
                    self.ready.append((running, branch, record.payload))
            case Passed(record):
                self.passed.append(record.identity)
                self.trace.append(f"pass {record.identity}")
            case Frontier(released):
                for answer in released:
                    if isinstance(answer, Fresh):
                        self.begin(answer.identity, again=False)
                    else:
                        self.begin(answer.record.identity, again=True)
            case Diverged() as diverged:
                self.ended = diverged
            case Wait():
                return self.finish_one()
        return True

    def finish_one(self) -> bool:
        if self.writes >= self.writes_most:
            return False
        assert self.under_way, "the body waits for something that nobody does"
        identity = self.under_way.pop(self.randomness.randrange(len(self.under_way)))
        if self.fails and self.randomness.random() < 0.3:
            self.write(identity, RecordState.FAILED, closes=False)
            self.under_way.append(identity)
        else:
            self.write(identity, RecordState.SUCCEEDED, closes=True)
        return True

    def write(self, identity: str, state: RecordState, *, closes: bool) -> None:
        ask = self.asks[identity]
        attempts = [a for i, a in self.history if i == identity]
        last = self.history.get((identity, max(attempts, default=0)))
        attempt = max(attempts, default=1)
        if last is not None and last.state is not RecordState.OPEN:
            attempt += 1
        record = Record(
            identity,
            attempt,
            self.replay.take_position() if closes else None,
            ask.kind,
            ask.name,
            state,
            ask.args_hash,
            payload=self.randomness.randrange(100) if closes else None,
        )
        self.history[identity, attempt] = record
        self.writes += 1
        self.replay.recorded(record)


def order(history: dict[tuple[str, int], Record]) -> list[tuple[str, int]]:
    closed = [(r.identity, r.seq) for r in history.values() if r.seq is not None]
    return sorted(closed, key=lambda pair: pair[1])


def lived(body: Body, seed: int = 0, *, fails: bool = False) -> World:
    world = World(body, seed=seed, fails=fails)
    assert world.run() == Ended(())
    return world


def trace_of_one_shape() -> str:
    """Return all that happened in one run, to be compared between processes."""
    shape: Body = (
        Gather(
            (
                (Call("a"), Call("b")),
                (Call("e", RecordKind.EFFECT),),
                (Call("a", key="k"), Call("nap", RecordKind.TIMER)),
            ),
            first=True,
        ),
        Call("a", key="k"),
        Gather(tuple((Call("send", key=key),) for key in "abc")),
    )
    return "\n".join(lived(shape, 5, fails=True).trace)
