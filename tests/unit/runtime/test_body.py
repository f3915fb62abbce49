"""The body of a run without a worker or a database: what it asks, and what it is given."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from onward import Signal, sleep, step
from onward.codec import encode
from onward.core.instant import SECOND
from onward.core.replay import Record, RecordKind, RecordState, Replay
from onward.engine.payloads import pack
from onward.model.runs import ClaimedRun
from onward.runtime.body.body import Body, Evicted
from onward.runtime.body.calls import StepCall, TimerCall
from onward.runtime.body.clock import ClockCall
from onward.runtime.body.notes import Notes
from onward.runtime.execution.journal import Kept
from onward.runtime.registry import Registry
from onward.telemetry.scope import RunScope

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from onward.core.instant import Instant
    from onward.model.records import RecordRow
    from onward.runtime.body.calls import Call

NOW = 1_800_000_000_000_000


@step
async def double(n: int) -> int:
    return 2 * n


go = Signal("go", int)


class Sink:
    """Keeps what the body asks for, and does none of it."""

    def __init__(self) -> None:
        self.uncertain = 0
        """By how much the time of the database may be later."""
        self.names = Registry(())
        self.begun: list[Call] = []
        self.left: list[Call] = []

    def now(self) -> Instant:
        return NOW

    def latest(self) -> Instant:
        return NOW + self.uncertain

    def do(self, call: Call) -> None:
        self.begun.append(call)

    def abandoned(self, call: Call) -> None:
        self.left.append(call)

    def report_progress(self, value: bytes) -> None:
        raise NotImplementedError

    async def read_history(self, run: str) -> Sequence[RecordRow]:
        raise NotImplementedError


def a_run() -> ClaimedRun:
    return ClaimedRun(
        "01a1de9b-5b4c-728b-97c9-000000000001", "one", "workflow", "body", None, "default", 1, 0,
        0, 0, None, None, None, None, 0, None, None, 1, None, None, "", None, NOW, NOW, NOW, 0, "",
        "", pack(encode({})), "hash", None, None, None, None,
    )  # fmt: skip


class Played:
    """A body with a history that the test writes."""

    def __init__(self, code: Callable[[], Coroutine[Any, Any, Any]], *history: Record) -> None:
        self.replay = Replay(history)
        self.sink = Sink()
        notes = Notes({}, None, lambda *_: None)
        run = a_run()
        scope = RunScope(run.id, run.uid, run.name)
        self.body = Body(run, self.replay, notes, self.sink, scope)
        self.body.start(code())
        self.body.advance()

    def record(self, call: Call, value: object) -> None:
        self.replay.recorded(closed(call.identity, self.replay.take_position(), call, value))
        self.body.advance()


def closed(identity: str, seq: int, call: Call, value: object) -> Record:
    return Record(
        identity,
        1,
        seq,
        call.kind,
        call.name,
        RecordState.SUCCEEDED,
        call.args_hash,
        payload=Kept(pack(encode(value)), None, NOW + seq),
    )


@pytest.mark.parametrize(("uncertain", "first"), [(SECOND, TimerCall), (2 * SECOND, ClockCall)])
def test_a_wait_after_a_late_answer_counts_from_a_clock_record(
    uncertain: int, first: type[Call]
) -> None:
    async def code() -> None:
        await double(21)
        await sleep("12s")

    played = Played(code)
    [call] = played.sink.begun
    played.sink.uncertain = uncertain
    played.record(call, 42)

    assert type(played.sink.begun[1]) is first


def test_a_call_that_is_not_in_history_is_begun_once() -> None:
    async def code() -> int:
        return await double(21)

    played = Played(code)

    [call] = played.sink.begun
    assert isinstance(call, StepCall)
    assert (call.identity, call.arguments) == (":double#1", ((21,), {}))
    assert not played.body.is_over


def test_a_body_goes_on_once_the_outcome_of_its_call_is_recorded() -> None:
    async def code() -> int:
        return await double(21) + 1

    played = Played(code)
    played.record(played.sink.begun[0], 42)

    assert played.body.is_over
    assert played.body.main.result() == 43


def test_outcomes_are_handed_over_in_the_order_of_history_not_of_the_calls() -> None:
    heard: list[int] = []

    async def one(n: int) -> None:
        heard.append(await double(n))

    async def code() -> None:
        await asyncio.gather(one(1), one(2))

    played = Played(code)
    first, second = played.sink.begun
    played.record(second, 4)
    played.record(first, 2)

    assert heard == [4, 2]


def test_a_call_that_is_in_history_is_read_and_not_begun() -> None:
    async def code() -> int:
        return await double(21)

    asked = Played(code).sink.begun[0]
    played = Played(code, closed(asked.identity, 1, asked, 42))

    assert played.sink.begun == []
    assert played.body.main.result() == 42


def test_a_call_that_the_code_cancels_is_abandoned() -> None:
    async def code() -> str:
        task = asyncio.ensure_future(double(1))
        await double(2)
        task.cancel()
        return "done"

    played = Played(code)
    cancelled, awaited = sorted(played.sink.begun, key=lambda call: call.identity)
    played.record(awaited, 4)

    assert played.sink.left == [cancelled]
    assert played.body.main.result() == "done"


def test_history_of_another_call_makes_the_body_diverge_and_nothing_is_begun() -> None:
    async def code() -> int:
        return await double(21)

    asked = Played(code).sink.begun[0]
    other = Record(asked.identity, 1, 1, RecordKind.CHILD, "double", RecordState.SUCCEEDED)
    played = Played(code, other)

    assert played.body.diverged is not None
    assert played.sink.begun == []


def test_a_body_that_is_evicted_is_unwound_and_begins_nothing_more() -> None:
    raised: list[BaseException] = []

    async def code() -> None:
        try:
            await double(1)
        except BaseException as error:
            raised.append(error)
            raise
        finally:
            with pytest.raises(Evicted):
                await double(2)

    played = Played(code)
    played.body.evict()

    assert isinstance(raised[0], Evicted)
    assert len(played.sink.begun) == 1


def test_a_wait_is_begun_when_the_body_is_quiet() -> None:
    async def code() -> int:
        return await go.wait() + await double(1)

    played = Played(code)

    assert [call.name for call in played.sink.begun] == ["go"]
