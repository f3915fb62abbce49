"""Ending runs from outside: at once, with word to the family, and once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.instant import MINUTE, SECOND
from onward.core.lease import Fate
from onward.core.run import TERMINAL
from onward.model.ends import read_child_end
from onward.model.runs import Move
from onward.store import Following, Stopped
from onward.store.hints import queue_subject, run_subject
from tests.conformance.suite.families import each
from tests.conformance.suite.hinting import hears
from tests.conformance.suite.repeating import all_rows
from tests.conformance.suite.samples import (
    SUCCEEDED,
    a_child,
    a_record,
    a_run,
    an_open_record,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.model.messages import InboxRow
    from onward.model.runs import ClaimedRun, NewRun
    from onward.store import Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

FORCED: dict[str, Any] = {"state": "cancelled", "reason": "forced"}

STANDINGS: dict[str, Callable[[ClaimedRun], Move | None]] = {
    "running": lambda _: None,
    "ready": lambda _: Move("ready"),
    "waiting": lambda _: Move("waiting", due_in=MINUTE),
    "paused": lambda _: Move("paused", "reconciliation"),
}


async def inbox(store: Store, uid: str) -> list[InboxRow]:
    return (await store.look([uid]))[uid]


async def a_family(worker: Worker, *, cancel_with_parent: bool = True) -> tuple[ClaimedRun, NewRun]:
    """Return a parent and a child that waits for its time, cancelled with it or not."""
    [parent] = await worker.owning("parent")
    child = a_child(parent, "child")._replace(
        delay_in=MINUTE, cancel_with_parent=int(cancel_with_parent)
    )
    await worker.commit(parent, an_open_record(parent, "child#1"), starts=(child,))
    return parent, child


async def test_an_id_that_is_a_uid_too_stops_the_run_of_that_id(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    await store.start(a_run("uid-a"))

    assert (await store.stop("uid-a", **FORCED)).uid == "uid-uid-a"
    assert (await store.stop("uid-a", **FORCED, by_uid=True)).uid == "uid-a"


@each(STANDINGS)
async def test_an_open_run_is_ended_at_once(world: World, standing: str) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    move = STANDINGS[standing](run)
    if move is not None:
        await worker.commit(run, move=move)
    world.clock.advance(SECOND)

    stopped = await worker.store.stop(run.uid, **FORCED, error=b"jwhy")

    assert stopped == Stopped(run.uid, "stopped", "default")
    row, end = await worker.store.run(run.uid), await worker.store.end(run.uid)
    assert (row.state, row.reason, row.worker, row.due) == ("cancelled", "forced", None, None)
    assert (row.fence, row.finished_at) == (run.fence + 1, world.clock.wall())
    assert (end.error, end.result) == (b"jwhy", None)
    assert await worker.claim() == []


async def test_its_owner_finds_itself_lost(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.stop("a", **FORCED)

    for late in (
        await worker.commit(run, a_record(run, 1)),
        await worker.commit(run, move=SUCCEEDED),
        await worker.commit(run, starts=(a_run("child"),)),
    ):
        assert late.fate is Fate.LOST
    assert (await worker.store.history([run.uid]))[run.uid] == []
    assert await worker.store.counts() == {"cancelled": 1}


async def test_a_run_that_never_began_is_ended(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a")._replace(delay_in=MINUTE))

    stopped = await store.stop("a", **FORCED, unstarted_only=True)

    assert (stopped.uid, stopped.fate) == ("uid-a", "stopped")
    assert (await store.run("uid-a")).state == "cancelled"


async def test_a_run_that_began_is_left_alone_if_that_is_wanted(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    before = await all_rows(world)

    stopped = await worker.store.stop("a", **FORCED, unstarted_only=True)

    assert (stopped.uid, stopped.fate) == (run.uid, "started")
    assert await all_rows(world) == before


async def test_a_run_that_is_over_stays_as_it_is(world: World) -> None:
    worker = await world.worker()
    runs = await worker.owning(*sorted(TERMINAL))
    for run in runs:
        await worker.commit(run, move=Move(run.id, result=b"first"))
    before = await all_rows(world)

    answers = [await worker.store.stop(run.uid, **FORCED, error=b"e") for run in runs]

    assert [(answer.uid, answer.fate) for answer in answers] == [(run.uid, "over") for run in runs]
    assert await all_rows(world) == before


async def test_what_is_not_there_is_absent(world: World) -> None:
    store = await world.store()

    for target in ("nobody", "with\0nul", ""):
        assert await store.stop(target, **FORCED) == Stopped(None, "absent")


async def test_a_repeated_stop_changes_nothing(world: World) -> None:
    worker = await world.worker()
    parent, child = await a_family(worker)
    await worker.store.stop(parent.uid, **FORCED)
    await worker.store.stop(child.uid, **FORCED)
    before = await all_rows(world)

    again = [await worker.store.stop(uid, **FORCED) for uid in (parent.uid, child.uid)]

    assert [answer.fate for answer in again] == ["over", "over"]
    assert await all_rows(world) == before


async def test_the_parent_is_told_how_its_child_ended(world: World) -> None:
    worker = await world.worker()
    parent, child = await a_family(worker)
    await worker.commit(parent, move=Move("waiting", seen=0))

    await worker.store.stop(child.uid, **FORCED, error=b"jwhy")

    [message] = await inbox(worker.store, parent.uid)
    assert (message.message, message.kind, message.name) == ("child child#1", "child", "child#1")
    assert read_child_end(message.payload or b"") == ("cancelled", "forced", b"jwhy")
    assert (await worker.store.run(parent.uid)).state == "ready"


async def test_bound_children_are_told_to_end(world: World) -> None:
    worker = await world.worker()
    parent, child = await a_family(worker)

    await worker.store.stop("parent", **FORCED)

    [message] = await inbox(worker.store, child.uid)
    assert (message.message, message.kind, message.name) == ("cancel", "cancel", "parent")
    row = await worker.store.run(child.uid)
    assert (row.state, row.due) == ("ready", world.clock.wall())
    assert (await worker.store.run(parent.uid)).inbox == 0


async def test_children_that_are_over_or_on_their_own_are_told_nothing(world: World) -> None:
    worker = await world.worker()
    parent, free = await a_family(worker, cancel_with_parent=False)
    over = a_child(parent, "over")._replace(cancel_with_parent=1)
    await worker.commit(parent, starts=(over,))
    [running] = await worker.claim()
    await worker.commit(running, move=SUCCEEDED)

    await worker.store.stop("parent", **FORCED)

    assert await inbox(worker.store, free.uid) == []
    assert await inbox(worker.store, over.uid) == []
    assert (await worker.store.run(free.uid)).state == "waiting"


async def test_a_stop_reaches_the_run_that_follows(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=Move("failed", "logic"))
    await worker.store.follow(Following(run.uid, "uid-again", "retry_of", 0))

    stopped = await worker.store.stop(run.uid, **FORCED)

    assert stopped == Stopped("uid-again", "stopped", "default")
    assert (await worker.store.run(run.uid)).state == "failed"
    assert (await worker.store.stop("a", **FORCED)).fate == "over"


async def test_an_ear_hears_whom_a_stop_concerns(world: World) -> None:
    worker = await world.worker()
    parent, child = await a_family(worker)
    subjects = [queue_subject("default"), run_subject(parent.uid), run_subject(child.uid)]

    with worker.store.subscribe(subjects) as subscription:
        await worker.store.stop(parent.uid, **FORCED)
        assert await hears(subscription, *subjects)


async def test_the_children_of_a_run_are_listed(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")
    starts = tuple(a_child(parent, id) for id in ("c", "a", "b"))  # noqa: A001
    await worker.commit(parent, starts=starts)

    assert [run.id for run in await worker.store.children(parent.uid)] == ["a", "b", "c"]
    assert await worker.store.children("uid-a") == []
    assert await worker.store.children("with\0nul") == []
