"""Pausing runs: the whole tree that works for one, whatever is started meanwhile, and no other."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from onward.core.decision import Moved
from onward.core.inbox import MessageKind
from onward.core.instant import HOUR, MINUTE, SECOND
from onward.core.run import Freed, Held, Reason, RunState, RunStatus, advance
from onward.errors import StoreUnusable
from onward.model.ends import to_children, to_overdue
from onward.model.runs import Move
from onward.model.stopping import PauseAnswer
from onward.store import Following
from onward.store.hints import queue_subject, run_subject
from onward.store.runs.replacing import replace
from tests.conformance.suite.families import each
from tests.conformance.suite.hinting import hears
from tests.conformance.suite.repeating import all_rows
from tests.conformance.suite.samples import SUCCEEDED, a_child, a_message, a_run, an_open_record

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.model.messages import NewMessage
    from onward.model.runs import ClaimedRun, NewRun
    from onward.store import Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

STANDINGS: dict[str, Move | None] = {
    "delayed": None,
    "ready": Move("ready"),
    "running": None,
    "due": Move("waiting", due_in=MINUTE),
    "waiting": Move("waiting"),
    "approval": Move("paused", "approval"),
    "reconciliation": Move("paused", "reconciliation"),
    "divergence": Move("paused", "divergence"),
}
ENDS = {"cancelled": Move("cancelled"), "failed": Move("failed", "logic"), "succeeded": SUCCEEDED}
ROUNDS = 10
"""How often two that happen at once are tried."""


async def brought(world: World, worker: Worker, standing: str) -> str:
    """Bring a run into a state and return its uid."""
    if standing == "delayed":
        await worker.store.start(a_run("a")._replace(delay_in=MINUTE))
        return "uid-a"
    [run] = await worker.owning("a")
    move = (STANDINGS | ENDS)[standing]
    if move is not None:
        await worker.commit(run, an_open_record(run, "w#1"), move=move)
    world.clock.advance(SECOND)
    return run.uid


async def machine(store: Store, uid: str) -> RunStatus:
    row = await store.run(uid)
    reason = None if row.reason is None else Reason(row.reason)
    return RunStatus(RunState(row.state), reason, row.due, row.fence, row.crashes)


def bound(parent: ClaimedRun, id: str) -> NewRun:  # noqa: A002 - it is the user's word
    return a_child(parent, id)._replace(cancel_with_parent=1)


async def begun(worker: Worker, parent: ClaimedRun, *starts: NewRun) -> list[ClaimedRun]:
    """Start runs with a commit of their parent, and claim them."""
    await worker.commit(parent, starts=starts)
    claimed = {run.uid: run for run in await worker.claim(len(starts))}
    return [claimed[start.uid] for start in starts]


async def holders(store: Store, *uids: str) -> dict[str, str]:
    return {uid.removeprefix("uid-"): (await store.run(uid)).held_by for uid in uids}


async def orders(store: Store, uid: str) -> list[tuple[str, str]]:
    return [(row.kind, row.name) for row in (await store.look([uid]))[uid]]


# --- one run --------------------------------------------------------------------------------------


@each(STANDINGS)
async def test_a_pause_and_a_resume_do_to_a_run_what_the_rules_say(
    world: World, standing: str
) -> None:
    worker = await world.worker()
    uid = await brought(world, worker, standing)
    before, now = await machine(worker.store, uid), world.clock.wall()
    held = advance(before, Held(), now=now)
    expected = held.to if isinstance(held, Moved) else before

    assert await worker.store.pause("a") == PauseAnswer(uid, "done")

    assert await machine(worker.store, uid) == expected
    assert await holders(worker.store, uid) == {"a": uid}
    told = [("pause", uid)] if standing == "running" else []
    assert await orders(worker.store, uid) == told

    row = await worker.store.run(uid)
    freed = advance(expected, Freed(row.scheduled_at), now=now)
    after = freed.to if isinstance(freed, Moved) else expected
    if standing in ("approval", "divergence"):  # a resume ends these pauses, too
        after = RunStatus(RunState.READY, due=now, fence=before.fence)

    assert await worker.store.resume("a") == PauseAnswer(uid, "done")

    assert await machine(worker.store, uid) == after
    assert await holders(worker.store, uid) == {"a": ""}


@each(ENDS)
async def test_what_is_over_is_neither_paused_nor_resumed(world: World, standing: str) -> None:
    worker = await world.worker()
    uid = await brought(world, worker, standing)
    before = await all_rows(world)

    answers = [await worker.store.pause(uid), await worker.store.resume("a")]

    assert answers == [PauseAnswer(uid, "over"), PauseAnswer(uid, "over")]
    assert await all_rows(world) == before


async def test_what_is_not_there_is_neither_paused_nor_resumed(world: World) -> None:
    store = await world.store()

    for target in ("nobody", "with\0nul", ""):
        assert await store.pause(target) == PauseAnswer(None, "absent")
        assert await store.resume(target) == PauseAnswer(None, "absent")


async def test_a_second_pause_by_the_same_run_counts_once(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.pause("a")
    await worker.store.pause("a")
    assert await holders(worker.store, run.uid) == {"a": run.uid}

    await worker.store.resume("a")

    assert await holders(worker.store, run.uid) == {"a": ""}


async def test_an_owner_that_has_not_seen_the_pause_cannot_park(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.pause("a")

    outcome = await worker.commit(run, move=Move("waiting", due_in=MINUTE, seen=0))

    assert outcome.fate == "busy"
    await worker.commit(run, move=Move("paused", "operator", seen=1))
    await worker.store.resume("a")
    [again] = await worker.claim()
    assert (again.uid, again.held_by) == (run.uid, "")


async def test_whoever_adopts_a_paused_run_is_told_what_holds_it(world: World) -> None:
    worker, other = await world.worker(), await world.worker()
    [run] = await worker.owning("a")
    await worker.store.pause("a")
    await worker.leave()

    [adopted] = await other.adopt()

    assert (adopted.uid, adopted.held_by, adopted.inbox) == (run.uid, run.uid, 1)
    await other.commit(adopted, move=Move("paused", "operator", seen=1))


async def test_an_ear_hears_of_a_pause_and_of_its_end(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    with worker.store.subscribe([run_subject(run.uid)]) as subscription:
        await worker.store.pause("a")
        assert await hears(subscription, run_subject(run.uid))
    await worker.commit(run, move=Move("paused", "operator", seen=1))
    with worker.store.subscribe([queue_subject("default")]) as subscription:
        await worker.store.resume("a")
        assert await hears(subscription, queue_subject("default"))


# --- the tree below it ----------------------------------------------------------------------------


async def a_tree(worker: Worker) -> tuple[ClaimedRun, ClaimedRun, ClaimedRun]:
    """Return three running generations, each cancelled with its parent."""
    [top] = await worker.owning("top")
    [middle] = await begun(worker, top, bound(top, "middle"))
    [leaf] = await begun(worker, middle, bound(middle, "leaf"))
    return top, middle, leaf


async def test_a_pause_holds_all_that_are_cancelled_with_the_run_and_no_others(
    world: World,
) -> None:
    worker = await world.worker()
    top, middle, leaf = await a_tree(worker)
    free, other = a_child(middle, "free"), a_run("other")
    late = bound(leaf, "late")._replace(delay_in=MINUTE)
    await worker.commit(middle, starts=(free,))
    await worker.commit(leaf, starts=(late,))
    await worker.store.start(other)

    await worker.store.pause("top")

    runs = (top.uid, middle.uid, leaf.uid, late.uid, free.uid, other.uid)
    below = dict.fromkeys(("top", "middle", "leaf", "late"), top.uid)
    assert await holders(worker.store, *runs) == below | {"free": "", "other": ""}
    for run in (top, middle, leaf):
        assert await orders(worker.store, run.uid) == [("pause", top.uid)]
    assert await orders(worker.store, late.uid) == []
    assert (await worker.store.run(late.uid)).state == "paused"
    assert sorted(run.id for run in await worker.claim()) == ["free", "other"]


async def test_a_resume_frees_what_its_own_pause_held_and_no_more(world: World) -> None:
    worker = await world.worker()
    top, middle, leaf = await a_tree(worker)
    for run in (top, middle, leaf):
        await worker.commit(run, an_open_record(run, "w#1"), move=Move("waiting"))
    await worker.store.pause("leaf")
    await worker.store.pause("top")
    assert await holders(worker.store, leaf.uid) == {"leaf": f"{leaf.uid} {top.uid}"}

    await worker.store.resume("top")

    runs = (top.uid, middle.uid, leaf.uid)
    assert await holders(worker.store, *runs) == {"top": "", "middle": "", "leaf": leaf.uid}
    assert sorted(run.id for run in await worker.claim()) == ["middle", "top"]
    await worker.store.resume("leaf")
    assert [run.id for run in await worker.claim()] == ["leaf"]


async def test_a_resume_of_a_run_that_another_holds_leaves_it_held(world: World) -> None:
    worker = await world.worker()
    top, middle, _ = await a_tree(worker)
    await worker.commit(middle, an_open_record(middle, "w#1"), move=Move("waiting"))
    await worker.store.pause("top")

    assert await worker.store.resume("middle") == PauseAnswer(middle.uid, "done")

    row = await worker.store.run(middle.uid)
    assert (row.state, row.reason, row.held_by) == ("paused", "operator", top.uid)


def by_commit(worker: Worker, parent: ClaimedRun) -> Callable[[NewRun], object]:
    return lambda run: worker.commit(parent, starts=(run,))


STARTED: dict[str, Callable[[Worker, ClaimedRun], Callable[[NewRun], object]]] = {
    "with a commit": by_commit,
    "under an id": lambda worker, _: worker.store.start,
}


@each(STARTED)
async def test_a_child_that_is_started_while_its_parent_is_held_is_held(
    world: World, how: str
) -> None:
    worker = await world.worker()
    top, middle, _ = await a_tree(worker)
    start = STARTED[how](worker, middle)
    await worker.store.pause("middle")
    await worker.store.pause("top")

    for run in (
        bound(middle, "held"),
        bound(middle, "held later")._replace(delay_in=MINUTE),
        a_child(middle, "free"),
    ):
        await start(run)  # type: ignore[misc] # whatever it is, it is awaited

    both = f"{middle.uid} {top.uid}"
    for id in ("held", "held later"):  # noqa: A001
        row = await worker.store.run(f"uid-{id}")
        assert (row.state, row.reason, row.due, row.held_by) == ("paused", "operator", None, both)
    assert [run.id for run in await worker.claim()] == ["free"]
    await worker.store.resume("top")
    assert await worker.claim() == []
    await worker.store.resume("middle")
    assert [run.id for run in await worker.claim()] == ["held"]
    row = await worker.store.run("uid-held later")
    assert (row.state, row.due) == ("waiting", row.scheduled_at)


@each(("retry_of", "continued_from", "forked_from"))
async def test_a_child_that_follows_another_is_held_if_its_parent_is(
    world: World, link: str
) -> None:
    worker = await world.worker()
    top, middle, _ = await a_tree(worker)
    end: dict[str, object] = {}
    if link == "continued_from":
        move = Move("succeeded", "continued")
        end = {"worker": worker.name, "fence": middle.fence, "end": move}
    else:
        await worker.commit(middle, move=Move("failed", "logic"))
    await worker.store.pause("top")

    wish = Following(middle.uid, "uid-next", link, 0, delay_in=MINUTE)._replace(**end)  # type: ignore[arg-type] # each has its own type
    followed = await worker.store.follow(wish)

    assert (followed.fate, followed.state) == ("made", "paused")
    row = await worker.store.run("uid-next")
    assert (row.reason, row.due, row.held_by) == ("operator", None, top.uid)
    await worker.store.resume("top")
    row = await worker.store.run("uid-next")
    assert (row.state, row.due) == ("waiting", row.scheduled_at)


async def test_a_child_in_the_place_of_another_is_held_if_its_parent_is(world: World) -> None:
    worker = await world.worker()
    top, middle, _ = await a_tree(worker)
    await worker.commit(middle, move=Move("failed", "logic"))
    await worker.store.pause("top")

    started = await replace(
        worker.store, middle.uid, bound(top, "middle")._replace(uid="uid-second")
    )

    assert (started.created, started.state) == (True, "paused")
    assert await holders(worker.store, "uid-second") == {"second": top.uid}


async def test_a_fork_of_the_paused_run_itself_is_not_held(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.pause("a")
    await worker.commit(run, move=Move("paused", "operator", seen=1))

    followed = await worker.store.follow(Following(run.uid, "uid-next", "forked_from", 0))

    assert (followed.fate, followed.state) == ("made", "ready")
    assert await holders(worker.store, run.uid, "uid-next") == {"a": "", "next": ""}


# --- runs that are told to stop -------------------------------------------------------------------

STOPS: dict[str, Callable[[str], NewMessage]] = {
    "a cancel": lambda uid: a_message(uid, "cancel", MessageKind.CANCEL),
    "its parent's end": lambda uid: to_children([uid])[0],
    "its deadline": to_overdue,
}


@each(STOPS)
async def test_a_run_that_is_told_to_stop_is_held_no_more(world: World, stop: str) -> None:
    worker = await world.worker()
    _, middle, leaf = await a_tree(worker)
    await worker.commit(middle, an_open_record(middle, "w#1"), move=Move("waiting"))
    await worker.store.pause("top")

    await worker.store.send(STOPS[stop](middle.uid))

    row = await worker.store.run(middle.uid)
    assert (row.state, row.held_by) == ("ready", "")
    assert await worker.store.pause("middle") == PauseAnswer(middle.uid, "stopping")
    await worker.store.pause("top")
    row = await worker.store.run(middle.uid)
    assert (row.state, row.held_by) == ("ready", "")
    [cleaning] = await worker.claim()
    assert cleaning.uid == middle.uid
    await worker.commit(cleaning, starts=(bound(cleaning, "cleanup"),))
    assert [run.id for run in await worker.claim()] == ["cleanup"]
    await worker.commit(leaf, messages=tuple(to_children([cleaning.uid])))  # it is there already


async def test_a_run_that_ends_is_held_by_nothing(world: World) -> None:
    worker = await world.worker()
    top, middle, leaf = await a_tree(worker)
    await worker.store.pause("top")

    await worker.commit(leaf, move=Move("cancelled", "operator"))
    await worker.store.stop(middle.uid, state="cancelled", reason="forced")
    await worker.store.resume("top")

    runs = (top.uid, middle.uid, leaf.uid)
    assert await holders(worker.store, *runs) == {"top": "", "middle": "", "leaf": ""}


# --- at the same time -----------------------------------------------------------------------------


async def test_no_child_slips_through_a_pause_that_meets_its_start(world: World) -> None:
    worker, other = await world.worker(), await world.store()
    [top] = await worker.owning("top")
    for n in range(ROUNDS):
        run = bound(top, f"{n}")
        await asyncio.gather(worker.commit(top, starts=(run,)), other.pause("top"))
        assert await holders(worker.store, run.uid) == {f"{n}": top.uid}
        await other.resume("top")
        assert [each.uid for each in await worker.claim()] == [run.uid]


async def test_no_child_slips_through_a_pause_that_meets_its_start_under_an_id(
    world: World,
) -> None:
    worker, other = await world.worker(), await world.store()
    [top] = await worker.owning("top")
    for n in range(ROUNDS):
        run = bound(top, f"{n}")
        await asyncio.gather(worker.store.start(run), other.pause("top"))
        assert await holders(worker.store, run.uid) == {f"{n}": top.uid}
        await other.resume("top")
        assert [each.uid for each in await worker.claim()] == [run.uid]


async def test_no_child_slips_through_a_pause_that_meets_its_retry(world: World) -> None:
    worker, other = await world.worker(), await world.store()
    [top] = await worker.owning("top")
    [child] = await begun(worker, top, bound(top, "child"))
    for n in range(ROUNDS):
        await worker.commit(child, move=Move("failed", "logic"))
        wish = Following(child.uid, f"uid-{n}", "retry_of", 0)
        await asyncio.gather(worker.store.follow(wish), other.pause("top"))
        assert await holders(worker.store, f"uid-{n}") == {f"{n}": top.uid}
        await other.resume("top")
        [child] = await worker.claim()


async def test_no_claim_slips_through_a_pause(world: World) -> None:
    worker, other = await world.worker(), await world.store()
    for n in range(ROUNDS):
        await worker.store.start(a_run(f"{n}"))
        claimed, _ = await asyncio.gather(worker.claim(), other.pause(f"{n}"))
        row = await worker.store.run(f"uid-{n}")
        assert row.held_by == row.uid
        assert row.state == ("running" if claimed else "paused")
        # Whoever claimed it before the pause is told by a message.
        seen = bool(claimed and claimed[0].held_by)
        assert row.inbox == (1 if claimed and not seen else 0)


async def test_a_pause_that_is_made_twice_at_once_is_one(world: World) -> None:
    worker, other = await world.worker(), await world.store()
    top, middle, leaf = await a_tree(worker)

    await asyncio.gather(
        worker.store.pause("top"), other.pause("top"), other.pause("leaf"), other.pause("top")
    )

    held = await holders(worker.store, top.uid, middle.uid, leaf.uid)
    assert (held["top"], held["middle"]) == (top.uid, top.uid)
    assert sorted(held["leaf"].split()) == sorted([top.uid, leaf.uid])


async def test_the_end_of_a_pause_does_not_date_a_ready_run_to_before_it_was_due(
    world: World,
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.pause("a")
    await worker.store.audit(worker.name, ())  # it is released, and still held
    world.clock.set_back(HOUR)
    with suppress(StoreUnusable):  # a database with a clock of its own has it right now
        await worker.store.reset_clock()
    await worker.store.resume("a")

    row = await worker.store.run(run.uid)
    assert row.state == "ready"
    assert row.due is not None
    assert row.due <= row.updated_at
