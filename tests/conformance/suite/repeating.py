"""Lost replies: a commit that is sent again finds its own result and changes nothing more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.core.instant import MINUTE
from onward.core.lease import Fate
from onward.model.pipelines import Completion, NewInput, PipelineWrite, Preparation, Reservation
from onward.model.runs import Move
from onward.store import Attachments
from tests.conformance.suite.families import each
from tests.conformance.suite.pipeline import (
    ADD,
    LOG,
    a_step,
    an_event,
    complete,
    completion,
    declare,
    prepared,
    publish,
)
from tests.conformance.suite.samples import (
    RELEASED,
    SUCCEEDED,
    a_child,
    a_message,
    a_record,
    an_effect,
    an_open_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.world import World


@dataclass(frozen=True)
class Written:
    """What one commit writes, in words of `Worker.commit`."""

    records: tuple[Any, ...] = ()
    rest: dict[str, Any] | None = None


def records(*given: Any) -> Written:
    return Written(given)


def others(**given: Any) -> Written:
    return Written((), given)


MAIL = NewInput("input-1", "mail", "gmail", "email", "1", "Mail 1")
CAUSED = an_event("m9")._replace(input=MAIL.uid)


def reserving(*events: str) -> Attachments:
    prepared = Preparation(tuple(Reservation(each, 1) for each in events), 0, MINUTE, "origin")
    return Attachments(pipeline=PipelineWrite(ADD, "", prepared=prepared))


KINDS: dict[str, Callable[[ClaimedRun], Written]] = {
    "record": lambda run: records(a_record(run, 2)),
    "open record": lambda run: records(an_open_record(run, "w#1")._replace(due_in=MINUTE)),
    "close record": lambda run: records(a_record(run, 2, "opened before")),
    "park": lambda _: others(move=Move("waiting", due_in=MINUTE, seen=0)),
    "finish": lambda run: others(
        move=SUCCEEDED,
        messages=(a_message("uid-target", "m1"),),
        attached=completion(run, effects=(an_effect(run, 1, "applied"),)),
    ),
    "release": lambda _: others(move=RELEASED),
    "pause": lambda _: others(move=Move("paused", "approval")),
    "keep": lambda _: others(move=Move("running", phase="prepared")),
    "child start": lambda run: others(starts=(a_child(run, "child"),)),
    "message": lambda _: others(messages=(a_message("uid-target", "m1"),)),
    "effect": lambda run: others(attached=Attachments(effects=(an_effect(run, 1, "in_flight"),))),
    "reserve": lambda run: Written(
        (a_step(run, "prepare again", 2),),
        {"attached": reserving("event-m2")},
    ),
    "consume": lambda run: others(move=SUCCEEDED, attached=completion(run, an_event("m9"))),
    "skip": lambda run: others(
        move=SUCCEEDED, attached=completion(run, done=Completion(skips=True))
    ),
    "publish": lambda run: Written(
        (a_record(run, 2),),
        {"attached": Attachments(pipeline=PipelineWrite(inputs=(MAIL,), published=(CAUSED,)))},
    ),
    "state": lambda run: others(
        move=SUCCEEDED,
        attached=completion(run, done=Completion(saves_state=True, state=b"j1")),
    ),
}

TABLES = (
    "SELECT * FROM onward_run ORDER BY uid",
    "SELECT * FROM onward_run_data ORDER BY uid",
    "SELECT * FROM onward_record ORDER BY run, identity, attempt",
    "SELECT * FROM onward_inbox ORDER BY run, seq",
    "SELECT * FROM onward_effect ORDER BY key",
    "SELECT * FROM onward_handler ORDER BY handler, key",
    "SELECT * FROM onward_event ORDER BY uid",
    "SELECT * FROM onward_delivery ORDER BY handler, event",
    "SELECT * FROM onward_subscription ORDER BY handler, topic",
    "SELECT * FROM onward_topic ORDER BY name",
    "SELECT * FROM onward_input ORDER BY uid",
    "SELECT * FROM onward_cause ORDER BY kind, target, input",
)


async def all_rows(world: World) -> list[list[tuple[Any, ...]]]:
    return [[tuple(row) for row in await world.sql(table)] for table in TABLES]


@each(KINDS)
async def test_a_repeated_commit_finds_its_own_result(world: World, kind: str) -> None:
    worker = await world.worker()
    await worker.owning("target")
    await declare(worker.store, ADD, LOG)
    await publish(worker.store, "m1", "m2")
    run = await prepared(worker, "m1")
    await worker.commit(run, an_open_record(run, "opened before"))
    before = await all_rows(world)
    written = KINDS[kind](run)

    first = await worker.commit(run, *written.records, **written.rest or {})
    after = await all_rows(world)
    again = await worker.commit(run, *written.records, **written.rest or {})

    assert (first.fate, again.fate) == (Fate.DONE, Fate.DONE)
    assert after != before
    assert await all_rows(world) == after


async def test_a_repeated_record_is_answered_with_the_time_it_has_in_the_database(
    world: World,
) -> None:
    worker = await world.worker()
    first, second = await worker.owning("first", "second")
    before = await worker.commit(first, a_record(first, 1))
    world.clock.advance(MINUTE)

    again, new, beside = await asyncio.gather(
        worker.commit(first, a_record(first, 1)),
        worker.commit(first, a_record(first, 2)),
        worker.commit(second, a_record(second, 1)),
    )

    assert [again.at, new.at, beside.at] == [before.at, before.at + MINUTE, before.at + MINUTE]
    assert [again.is_earlier, new.is_earlier, beside.is_earlier] == [True, False, False]


async def test_a_repeated_record_of_a_run_that_has_ended_is_answered_with_its_own_time(
    world: World,
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    before = await worker.commit(run, a_record(run, 1), move=SUCCEEDED)
    world.clock.advance(MINUTE)

    again = await worker.commit(run, a_record(run, 1), move=SUCCEEDED)

    assert again == before._replace(is_earlier=True)


async def test_a_repeated_move_is_recognised_after_others_have_gone_on(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1", "m2")
    run = await prepared(worker, "m1")
    await complete(worker, run, an_event("m9"))
    await prepared(worker, "m2")
    after = await all_rows(world)

    again = await complete(worker, run, an_event("m9"))

    assert again.fate is Fate.DONE
    assert await all_rows(world) == after


async def test_a_repeated_park_is_recognised_although_the_run_was_woken(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    park = Move("waiting", due_in=MINUTE, seen=0)
    await worker.commit(run, move=park)
    await worker.store.send(a_message("a", "m1"))

    again = await worker.commit(run, move=park)

    assert again.fate is Fate.DONE
    assert (await worker.store.run(run.uid)).state == "ready"


async def test_a_repeated_move_is_lost_once_somebody_claimed_the_run(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=RELEASED)
    [again] = await worker.claim()

    late = await worker.commit(run, move=RELEASED)

    assert late.fate is Fate.LOST
    assert (await worker.store.run(run.uid)).fence == again.fence
