"""A statement that waited for a lock goes by what is there now, not by what it saw when it began.

Each test stops a statement of the store behind a row that a stranger has changed and not committed.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from onward.core.lease import Fate
from onward.model.effects import EffectWrite
from onward.model.pipelines import Completion, PipelineWrite
from onward.model.runs import Move
from onward.store import Attachments, Commit, CommitOutcome, Store, open_store
from onward.store.invariants import check
from onward.store.pipelines.declaring import declare
from tests.postgres.builders import LONG, WORKER, a_message, a_record, claimed
from tests.postgres.hand import Hand, hand, until
from tests.postgres.writes import PIPELINE, an_event, reserving

RAISE_INBOX = "UPDATE onward.onward_run SET inbox = inbox + 1 WHERE uid = $1"
END = """UPDATE onward.onward_run SET state = 'cancelled', reason = 'forced', worker = NULL,
         fence = fence + 1, finished_at = 0 WHERE uid = $1"""


class Meeting:
    """A stranger's open change, and what a task of ours makes of it once it is committed."""

    def __init__(self, stranger: Hand, eyes: Hand) -> None:
        self.stranger = stranger
        self.eyes = eyes

    async def after(self, change: str, *values: object, ours: Any) -> Any:
        await self.stranger.begin()
        await self.stranger.run(change, *values)
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(ours)
            await until(self.eyes.somebody_waits)
            await self.stranger.commit()
        return task.result()


@pytest.fixture
def url(postgres_url: str) -> str:
    return postgres_url


async def test_a_message_to_a_run_that_ends_just_now_is_told_so(url: str) -> None:
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        await claimed(store, "r")
        sent = await Meeting(stranger, eyes).after(END, "r", ours=store.send(a_message("r")))
        assert (sent.fate, sent.seq) == ("ended", None)
        assert await store.look(["r"]) == {"r": []}


async def test_a_message_that_another_connection_delivers_just_now_is_found(url: str) -> None:
    """As when the reply is lost while the server still works on the first statement."""
    async with open_store(url) as store, hand(url) as first, hand(url) as eyes:
        await claimed(store, "r")
        await first.begin()
        [row] = await first.tx.fetch(
            "send", target=["r"], message=["m1"], kind=["signal"], name=["go"], payload=[None],
            wakes=[""], by_uid=[0], in_turn=0,
        )  # fmt: skip
        async with asyncio.TaskGroup() as tasks:
            again = tasks.create_task(store.send(a_message("r")))
            await until(eyes.somebody_waits)
            await first.commit()
        assert (again.result().fate, again.result().seq) == ("duplicate", 1)
        assert [m.seq for m in (await store.look(["r"]))["r"]] == [1]
        assert row is not None


async def test_messages_are_numbered_after_one_that_came_in_between(url: str) -> None:
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        await claimed(store, "r")
        ours = store.send(a_message("r"))
        sent = await Meeting(stranger, eyes).after(RAISE_INBOX, "r", ours=ours)
        assert (sent.fate, sent.seq) == ("delivered", 2)
        assert (await store.run("r")).inbox == 2


async def test_a_parent_told_by_two_at_once_gets_both(url: str) -> None:
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        owned = await claimed(store, "parent", "child")
        end = Commit(
            "child",
            owned["child"].fence,
            (a_record("child"),),
            Move("succeeded", result=b"1"),
            (a_message("parent", "child", kind="child"),),
        )
        ours = store.writer(WORKER).commit(end)
        outcome = await Meeting(stranger, eyes).after(RAISE_INBOX, "parent", ours=ours)
        assert outcome.fate is Fate.DONE
        assert [m.seq for m in (await store.look(["parent"]))["parent"]] == [2]
        assert (await store.end("child")).result == b"1"


@pytest.mark.parametrize("seen", [None, 0])
async def test_a_move_goes_by_the_inbox_as_it_is_now(url: str, seen: int | None) -> None:
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        fence = (await claimed(store, "r"))["r"].fence
        move = Commit("r", fence, (a_record("r"),), Move("paused", "operator", seen=seen))
        ours = store.writer(WORKER).commit(move)
        outcome = await Meeting(stranger, eyes).after(RAISE_INBOX, "r", ours=ours)
        run, history = await store.run("r"), (await store.history(["r"]))["r"]
        assert run.inbox == 1
        if seen is None:
            assert (outcome.fate, run.state, len(history)) == (Fate.DONE, "paused", 1)
        else:
            assert (outcome.fate, run.state, len(history)) == (Fate.BUSY, "running", 0)


async def test_a_record_is_answered_with_its_own_time_though_its_batch_was_sent_again(
    url: str,
) -> None:
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        owned = await claimed(store, "r1", "r3")  # both are written by one lane
        move = Move("waiting", due_in=LONG, seen=0)
        park = Commit("r3", owned["r3"].fence, (a_record("r3", None),), move)
        record = Commit("r1", owned["r1"].fence, (a_record("r1"),))
        writer = store.writer(WORKER)
        ours = _both(writer.commit(park), writer.commit(record))
        parked, recorded = await Meeting(stranger, eyes).after(RAISE_INBOX, "r3", ours=ours)

        [row] = (await store.history(["r1"]))["r1"]
        assert (parked.fate, recorded.fate) == (Fate.BUSY, Fate.DONE)
        assert recorded.at == row.closed_at


async def _both(*commits: Coroutine[Any, Any, CommitOutcome]) -> list[CommitOutcome]:
    """Make commits at once, but not before this is awaited."""
    return await asyncio.gather(*commits)


async def test_a_run_ended_by_force_just_now_is_lost_to_its_owner(url: str) -> None:
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        fence = (await claimed(store, "r"))["r"].fence
        move = Commit("r", fence, (a_record("r"),), Move("succeeded", result=b"1"))
        ours = store.writer(WORKER).commit(move)
        outcome = await Meeting(stranger, eyes).after(END, "r", ours=ours)
        assert outcome.fate is Fate.LOST
        assert (await store.run("r")).state == "cancelled"
        assert await store.history(["r"]) == {"r": []}
        assert (await store.end("r")).result is None


# --- attachments ----------------------------------------------------------------------------------


def an_effect(version: int, state: str = "in_flight") -> EffectWrite:
    return EffectWrite(
        "key", "r", "charge#1", "charge", "Charge", b"[]", "h", state, version, attempt=1
    )


def attached(fence: int, **what: Any) -> Commit:
    return Commit("r", fence, (a_record("r"),), attached=Attachments(**what))


async def subscribed(store: Store, stranger: Hand) -> int:
    """Claim a run that has an effect, a reserved event and a saved state; return its fence."""
    fence = (await claimed(store, "r"))["r"].fence
    await declare(store, PIPELINE)
    events = PipelineWrite(published=(an_event(1), an_event(2)))
    first = Attachments(effects=(an_effect(1),), pipeline=events)
    await store.writer(WORKER).commit(Commit("r", fence, attached=first))
    second = Attachments(pipeline=reserving("e1"))
    outcome = await store.writer(WORKER).commit(Commit("r", fence, attached=second))
    assert outcome.fate is Fate.DONE
    return fence


ATTACHMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "an effect that was decided": (
        {"effects": (an_effect(2, "applied"),)},
        "UPDATE onward.onward_effect SET version = version + 1, state = 'skipped'",
    ),
    "an event that was taken away": (
        {"pipeline": reserving("e2")},
        "UPDATE onward.onward_delivery SET attempt = attempt + 1",
    ),
    "a state that another run saved": (
        {"pipeline": PipelineWrite("rows", completed=Completion(saves_state=True))},
        "UPDATE onward.onward_handler SET state_version = state_version + 1, saved_by = 'other'",
    ),
}


@pytest.mark.parametrize("what", ATTACHMENTS)
async def test_a_commit_is_refused_whole_if_it_relies_on(url: str, what: str) -> None:
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        fence = await subscribed(store, stranger)
        given, change = ATTACHMENTS[what]
        ours = store.writer(WORKER).commit(attached(fence, **given))
        outcome = await Meeting(stranger, eyes).after(change, ours=ours)
        assert outcome.fate is Fate.BUSY
        assert await store.history(["r"]) == {"r": []}
        assert await check(store) == []


@pytest.mark.parametrize("what", ATTACHMENTS)
async def test_a_commit_goes_on_if_a_stranger_touched_and_left(url: str, what: str) -> None:
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        fence = await subscribed(store, stranger)
        given, _ = ATTACHMENTS[what]
        ours = store.writer(WORKER).commit(attached(fence, **given))
        touch = """WITH a AS (UPDATE onward.onward_effect SET updated_at = 0),
                        b AS (UPDATE onward.onward_delivery SET updated_at = 0)
                   UPDATE onward.onward_handler SET updated_at = 0"""
        outcome = await Meeting(stranger, eyes).after(touch, ours=ours)
        assert outcome.fate is Fate.DONE
        assert len((await store.history(["r"]))["r"]) == 1
        assert await check(store) == []


async def test_events_published_while_the_handler_is_stirred_are_all_counted(url: str) -> None:
    async with open_store(url) as store, hand(url) as stranger, hand(url) as eyes:
        fence = await subscribed(store, stranger)
        publish = attached(fence, pipeline=PipelineWrite(published=(an_event(3),)))
        stir = "UPDATE onward.onward_handler SET published = published + 1"
        ours = store.writer(WORKER).commit(publish)
        outcome = await Meeting(stranger, eyes).after(stir, ours=ours)
        assert outcome.fate is Fate.DONE
        assert await eyes.value("SELECT published FROM onward.onward_handler") == 3
