"""Lost replies: a commit that is sent again finds its own result and changes nothing more."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.core.instant import MINUTE
from onward.core.lease import Fate
from onward.model.deliveries import HandlerState
from onward.model.runs import Move
from onward.store import Attachments
from tests.conformance.suite.families import each
from tests.conformance.suite.pipeline import (
    ADD,
    LOG,
    an_event,
    consumer,
    moving,
    publish,
    subscribe,
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


KINDS: dict[str, Callable[[ClaimedRun], Written]] = {
    "record": lambda run: records(a_record(run, 1)),
    "open record": lambda run: records(an_open_record(run, "w#1")._replace(due_in=MINUTE)),
    "close record": lambda run: records(a_record(run, 1, "opened before")),
    "park": lambda _: others(move=Move("waiting", due_in=MINUTE, seen=0)),
    "finish": lambda _: others(
        move=SUCCEEDED,
        messages=(a_message("uid-target", "m1"),),
        attached=moving(ADD, "reserved", "consumed", "m1"),
    ),
    "release": lambda _: others(move=RELEASED),
    "pause": lambda _: others(move=Move("paused", "approval")),
    "keep": lambda _: others(move=Move("running", phase="prepared")),
    "child start": lambda run: others(starts=(a_child(run, "child"),)),
    "message": lambda _: others(messages=(a_message("uid-target", "m1"),)),
    "effect": lambda run: others(attached=Attachments(effects=(an_effect(run, 1, "in_flight"),))),
    "reserve": lambda _: others(attached=moving(ADD, "pending", "reserved", "m2")),
    "consume": lambda _: others(attached=moving(ADD, "reserved", "consumed", "m1")),
    "skip": lambda _: others(attached=moving(ADD, "reserved", "skipped", "m1")),
    "fail": lambda _: others(
        move=Move("failed", "logic", error=b"e"), attached=moving(ADD, "reserved", "pending", "m1")
    ),
    "publish": lambda _: others(attached=Attachments(published=(an_event("m9"),))),
    "state": lambda _: others(attached=Attachments(states=(HandlerState(ADD, "", 1, b"j1"),))),
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
)


async def all_rows(world: World) -> list[list[tuple[Any, ...]]]:
    return [[tuple(row) for row in await world.sql(table)] for table in TABLES]


@each(KINDS)
async def test_a_repeated_commit_finds_its_own_result(world: World, kind: str) -> None:
    worker = await world.worker()
    await worker.owning("target")
    await subscribe(worker.store, ADD, LOG)
    await publish(worker, "m1", "m2")
    run = await consumer(worker, "m1")
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


async def test_a_repeated_record_of_a_run_that_has_ended_is_answered_with_its_own_time(
    world: World,
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    before = await worker.commit(run, a_record(run, 1), move=SUCCEEDED)
    world.clock.advance(MINUTE)

    again = await worker.commit(run, a_record(run, 1), move=SUCCEEDED)

    assert again == before


async def test_a_repeated_move_is_recognised_after_others_have_gone_on(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD)
    await publish(worker, "m1")
    run = await consumer(worker, "m1")
    move, attached = Move("failed", "logic"), moving(ADD, "reserved", "pending", "m1")
    await worker.commit(run, move=move, attached=attached)
    await consumer(worker, "m1", id="next")
    after = await all_rows(world)

    again = await worker.commit(run, move=move, attached=attached)

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
