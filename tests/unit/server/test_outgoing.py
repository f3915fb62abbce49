"""What waits to be sent on a stream: frames, outcomes and news."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onward.core.access import Principal
from onward.core.lease import Fate
from onward.errors import Rejected
from onward.model.commits import CommitOutcome
from onward.server.keepalive import Keepalive
from onward.server.limits import StreamLimits
from onward.server.news import NewsSender
from onward.server.outbox import Outbox
from onward.server.outcomes import Outcomes
from onward.store.hints import ANYTHING
from onward.wire.messages import messages

PING = messages.Response(ping=messages.Ping())


async def turns(count: int = 4) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def collecting() -> tuple[Outbox, list[Any]]:
    """Return an outbox, and the list of the frames that are put into it."""
    outbox, frames = Outbox(StreamLimits()), list[Any]()
    outbox.put = frames.append  # type: ignore[assignment,method-assign]
    return outbox, frames


async def test_frames_are_sent_in_order_and_those_that_wait_at_the_end_too() -> None:
    outbox, sent = Outbox(StreamLimits()), []

    async def write(data: bytes) -> None:
        await asyncio.sleep(0)
        sent.append(messages.Response.FromString(data).id)

    for number in range(5):
        outbox.put(messages.Response(id=number))
    outbox.end()
    outbox.put(messages.Response(id=9))
    await outbox.send(write)
    assert sent == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("limits", [StreamLimits(unsent_frames=2), StreamLimits(unsent_bytes=8)])
async def test_large_replies_wait_while_the_queue_is_full(limits: StreamLimits) -> None:
    outbox = Outbox(limits)
    sent: list[bytes] = []

    async def write(data: bytes) -> None:
        sent.append(data)

    for _ in range(4):
        outbox.put(messages.Response(id=1, ping=messages.Ping()))
    assert outbox.is_full
    waiting = asyncio.create_task(outbox.has_room())
    await turns()
    assert not waiting.done()
    sending = asyncio.create_task(outbox.send(write))
    await waiting
    outbox.end()
    await sending
    assert len(sent) == 4


async def always(_: str) -> bool:
    return True


class Connected:
    """A stream that does nothing but send."""

    principal = Principal("", "", "default", frozenset())

    def __init__(self, outbox: Outbox) -> None:
        self.outbox = outbox
        self.heard_at = self.pinged_at = asyncio.get_running_loop().time()
        self.why = ""

    def ping(self) -> None:
        self.outbox.put(PING)

    def end(self, why: str) -> None:
        self.why = why


@pytest.mark.usefixtures("onward_clock")
async def test_a_client_that_takes_no_frame_for_some_seconds_is_disconnected() -> None:
    stream = Connected(Outbox(StreamLimits(unread_seconds=5)))
    keepalive = Keepalive(lambda: [stream], always)
    delays = [4.0, 4.0, 60.0]

    async def write(_: bytes) -> None:
        await asyncio.sleep(delays.pop(0))

    for _ in range(3):
        stream.ping()
    sending = asyncio.create_task(stream.outbox.send(write))
    begun = asyncio.get_running_loop().time()
    while not stream.why:
        await asyncio.sleep(1)
        keepalive.look(asyncio.get_running_loop().time())
    assert stream.why == "the client stopped reading responses"
    assert asyncio.get_running_loop().time() - begun == pytest.approx(14, abs=1)
    sending.cancel()
    await asyncio.wait([sending])
    await stream.outbox.has_room()


@pytest.mark.usefixtures("onward_clock")
async def test_a_client_that_has_taken_all_frames_may_be_silent() -> None:
    stream = Connected(Outbox(StreamLimits(unread_seconds=5)))
    keepalive = Keepalive(lambda: [stream], always)

    async def write(_: bytes) -> None:
        await asyncio.sleep(4)

    stream.ping()
    sending = asyncio.create_task(stream.outbox.send(write))
    await asyncio.sleep(9)
    keepalive.look(asyncio.get_running_loop().time())
    assert stream.why == ""
    stream.outbox.end()
    await sending


async def test_frames_that_were_not_sent_are_dropped_with_the_connection() -> None:
    outbox = Outbox(StreamLimits(unsent_frames=2))

    async def write(_: bytes) -> None:
        raise ConnectionError

    for _ in range(4):
        outbox.put(PING)
    with pytest.raises(ConnectionError):
        await outbox.send(write)
    assert outbox.unsent == 0


@pytest.mark.usefixtures("onward_clock")
async def test_pings_do_not_wait_for_a_slow_database() -> None:
    stream = Connected(Outbox(StreamLimits()))
    asked: list[str] = []

    async def never(key: str) -> bool:
        asked.append(key)
        await asyncio.Event().wait()
        return True

    running = asyncio.create_task(Keepalive(lambda: [stream], never).run())
    await asyncio.sleep(12)
    assert len(asked) == 1
    assert stream.outbox.unsent == 1
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.usefixtures("onward_clock")
async def test_keys_are_checked_again_after_an_unexpected_error() -> None:
    stream = Connected(Outbox(StreamLimits()))
    outcomes: list[bool | Exception] = [RuntimeError("a bug"), False]

    async def is_valid(_: str) -> bool:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    running = asyncio.create_task(Keepalive(lambda: [stream], is_valid).run())
    await asyncio.sleep(2.5)
    assert stream.why
    running.cancel()
    await asyncio.wait([running])


@pytest.mark.usefixtures("onward_clock")
async def test_news_wait_while_the_queue_is_full() -> None:
    outbox = Outbox(StreamLimits(unsent_frames=1))
    news = NewsSender(outbox, lambda _: True)
    news.open()
    outbox.put(PING)
    for run in "abc":
        news.hear(f"run:{run}")
        await turns()
    frames: list[Any] = []

    async def write(data: bytes) -> None:
        frames.append(messages.Response.FromString(data))

    sending = asyncio.create_task(outbox.send(write))
    await asyncio.sleep(1)
    [_, frame] = frames
    assert list(frame.news.runs) == ["a", "b", "c"]
    outbox.end()
    await sending


async def test_the_outcomes_of_one_turn_and_one_time_are_one_frame() -> None:
    frames: list[Any] = []
    outcomes = Outcomes(frames.append)
    for no in (1, 2, 3):
        outcomes.add(no, CommitOutcome(Fate.DONE, 7))
    outcomes.add(4, CommitOutcome(Fate.BUSY, 7))
    await turns()
    outcomes.add(5, CommitOutcome(Fate.DONE, 8))
    await turns()
    first, second = frames
    assert (first.at, list(first.commits.done)) == (7, [1, 2, 3])
    assert [(each.no, each.fate) for each in first.commits.others] == [(4, "busy")]
    assert (second.at, list(second.commits.done)) == (8, [5])


async def test_the_outcome_of_a_commit_that_was_written_before_keeps_its_time() -> None:
    frames: list[Any] = []
    outcomes = Outcomes(frames.append)
    outcomes.add(1, CommitOutcome(Fate.DONE, 3, is_earlier=True))
    outcomes.add(2, CommitOutcome(Fate.DONE, 7))
    await turns()
    [frame] = frames
    assert (frame.at, list(frame.commits.done)) == (7, [2])
    [other] = frame.commits.others
    assert (other.no, other.fate, other.at) == (1, "done", 3)


async def test_an_error_is_the_outcome_of_its_commit() -> None:
    frames: list[Any] = []
    outcomes = Outcomes(frames.append)
    outcomes.add(1, Rejected("the text has a zero in it"))
    await turns()
    [other] = frames[0].commits.others
    assert (other.no, other.fate, other.problem.code) == (1, "", "rejected")


async def test_news_are_gathered_and_wait_for_the_welcome() -> None:
    outbox, frames = collecting()
    news = NewsSender(outbox, lambda _: True)
    news.hear("run:b")
    news.hear("run:a")
    await turns()
    assert not frames
    news.open()
    news.drain()
    await turns()
    [frame] = frames
    assert (list(frame.news.runs), frame.news.drain) == (["a", "b"], True)


async def test_a_run_that_left_its_worker_meanwhile_is_no_news() -> None:
    outbox, frames = collecting()
    owned = {"run:a"}
    news = NewsSender(outbox, owned.__contains__)
    news.open()
    await turns()
    news.hear("run:a")
    asyncio.get_running_loop().call_soon(owned.clear)
    await turns()
    assert not frames


async def test_news_of_everything_name_no_runs() -> None:
    outbox, frames = collecting()
    news = NewsSender(outbox, lambda _: True)
    news.open()
    news.hear("run:a")
    news.hear(ANYTHING)
    await turns()
    [frame] = frames
    assert (list(frame.news.runs), frame.news.everything) == ([], True)
