"""Ending: results and errors, whom an end wakes, whom a commit starts, and that over is over."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.inbox import MessageKind
from onward.core.instant import MINUTE, SECOND
from onward.core.lease import Fate
from onward.core.run import TERMINAL
from onward.model.ends import read_child_end
from onward.model.runs import Move
from onward.store.writing.text_limits import MAX_KEY_BYTES
from tests.conformance.suite.samples import (
    SUCCEEDED,
    a_child,
    a_child_end,
    a_message,
    a_record,
    a_run,
    an_open_record,
)

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World


async def a_family(
    worker: Worker, *ids: str, parked: bool = True
) -> tuple[ClaimedRun, list[ClaimedRun]]:
    """Return a parent that waits for its children, and the children, claimed."""
    [parent] = await worker.owning("parent")
    starts = tuple(a_child(parent, child) for child in ids)
    move = Move("waiting", seen=0) if parked else None
    await worker.commit(parent, an_open_record(parent, "child#1"), move=move, starts=starts)
    claimed = {run.id: run for run in await worker.claim(len(ids))}
    return parent, [claimed[child] for child in ids]


async def test_an_end_keeps_its_result(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    world.clock.advance(SECOND)

    await worker.commit(run, move=SUCCEEDED)

    row, end = await worker.store.run(run.uid), await worker.store.end(run.uid)
    assert (row.state, row.worker, row.due) == ("succeeded", None, None)
    assert row.finished_at == world.clock.wall()
    assert end[:7] == (run.uid, "succeeded", None, b"j[1]", "hash-of-1", b"j42", None)
    assert end[7:] == ("a", None, None, None, None, None)


async def test_an_end_keeps_its_error_and_the_reason(world: World) -> None:
    worker = await world.worker()
    failed, stopped, late = await worker.owning("failed", "stopped", "late")

    await worker.commit(failed, move=Move("failed", "logic", error=b"jboom"))
    await worker.commit(stopped, move=Move("cancelled", "operator"))
    await worker.commit(late, move=Move("timed_out", "deadline", result=b"", error=b""))

    ends = [(await worker.store.end(run.uid)) for run in (failed, stopped, late)]
    assert [(end.state, end.reason, end.result, end.error) for end in ends] == [
        ("failed", "logic", None, b"jboom"),
        ("cancelled", "operator", None, None),
        ("timed_out", "deadline", b"", b""),
    ]


async def test_an_end_names_the_call_that_was_its_cause(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    await worker.commit(run, move=Move("failed", "logic", error=b"jboom", failed_call=":charge#1"))

    assert (await worker.store.end(run.uid)).failed_call == ":charge#1"
    assert [end.failed_call for end in await worker.store.ends([run.uid])] == [":charge#1"]


async def test_an_empty_result_is_a_result(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    await worker.commit(run, move=Move("succeeded", result=b""))

    assert (await worker.store.end(run.uid)).result == b""


async def test_a_run_that_has_ended_never_changes(world: World) -> None:
    worker = await world.worker()
    runs = await worker.owning(*sorted(TERMINAL))
    for run in runs:
        await worker.commit(run, move=Move(run.id, result=b"first"))
    before = [await worker.store.run(run.uid) for run in runs]
    world.clock.advance(MINUTE)

    for run in runs:
        await worker.commit(run, a_record(run, 1), move=Move("failed", "logic", error=b"later"))
        await worker.commit(run, a_record(run, 1), move=Move("running"))
        for kind in MessageKind:
            await worker.store.send(a_message(run.uid, f"m-{kind}", kind))
    await worker.claim()

    assert [await worker.store.run(run.uid) for run in runs] == before
    assert {(await worker.store.end(run.uid)).result for run in runs} == {b"first"}
    assert not any((await worker.store.history(run.uid for run in runs)).values())
    assert not any((await worker.store.look(run.uid for run in runs)).values())


# --- parents and children -------------------------------------------------------------------------


async def test_a_commit_starts_runs(world: World) -> None:
    worker = await world.worker()
    parent, [child, late] = await worker.owning("parent"), [a_run("child"), a_run("late")]

    outcome = await worker.commit(parent[0], starts=(child, late._replace(delay_in=MINUTE)))

    assert outcome.fate is Fate.DONE
    assert (await worker.store.run(child.uid)).state == "ready"
    assert (await worker.store.run(late.uid)).state == "waiting"
    assert (await worker.store.end(child.uid)).input == child.input


async def test_a_commit_may_start_a_run_and_send_to_it(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")

    await worker.commit(
        parent,
        starts=(a_run("child")._replace(delay_in=MINUTE),),
        messages=(a_message("uid-child", "m1"), a_message("uid-child", "m2")),
    )

    row = await worker.store.run("uid-child")
    assert (row.state, row.inbox) == ("waiting", 2)
    messages = (await worker.store.look(["uid-child"]))["uid-child"]
    assert [(message.seq, message.message) for message in messages] == [(1, "m1"), (2, "m2")]


async def test_a_commit_may_start_a_delayed_run_and_cancel_it(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")

    await worker.commit(
        parent,
        starts=(a_run("child")._replace(delay_in=MINUTE),),
        messages=(a_message("uid-child", "cancel", MessageKind.CANCEL),),
    )

    row = await worker.store.run("uid-child")
    assert (row.state, row.due, row.inbox) == ("ready", world.clock.wall(), 1)
    assert row.scheduled_at == world.clock.wall() + MINUTE


async def test_a_commit_leaves_a_run_alone_whose_id_is_taken(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")
    await worker.store.start(a_run("child")._replace(uid="uid-first"))

    await worker.commit(parent, starts=(a_run("child"), a_run("other")))

    assert (await worker.store.newest("child")).uid == "uid-first"
    assert (await worker.store.newest("other")).uid == "uid-other"
    assert await worker.store.counts() == {"ready": 2, "running": 1}


async def test_the_end_of_a_child_wakes_its_parent_in_the_same_commit(world: World) -> None:
    worker = await world.worker()
    parent, [child] = await a_family(worker, "child")

    await worker.commit(child, move=SUCCEEDED, messages=(a_child_end(child),))

    row = await worker.store.run(parent.uid)
    assert (row.state, row.inbox, row.due) == ("ready", 1, world.clock.wall())
    [message] = (await worker.store.look([parent.uid]))[parent.uid]
    assert (message.seq, message.message, message.kind) == (1, "child child#1", "child")
    assert message.name == child.parent_identity == "child#1"
    assert read_child_end(message.payload or b"") == ("succeeded", None, b"j42")


async def test_a_child_of_a_call_with_the_longest_identity_tells_its_end(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")
    identity = "i" * MAX_KEY_BYTES
    start = a_child(parent, "child")._replace(parent_identity=identity)
    await worker.commit(parent, an_open_record(parent, identity), starts=(start,))
    [child] = await worker.claim()

    outcome = await worker.commit(child, move=SUCCEEDED, messages=(a_child_end(child),))

    assert outcome.fate is Fate.DONE
    [message] = (await worker.store.look([parent.uid]))[parent.uid]
    assert (message.message, message.name) == (f"child {identity}", identity)


async def test_an_end_that_is_refused_wakes_nobody(world: World) -> None:
    worker = await world.worker()
    parent, [child, other] = await a_family(worker, "child", "other")
    await worker.store.send(a_message(other.uid, "m1"))

    lost = child._replace(fence=child.fence + 1)
    fates = [
        (await worker.commit(lost, move=SUCCEEDED, messages=(a_child_end(child),))).fate,
        (
            await worker.commit(
                other, move=SUCCEEDED._replace(seen=0), messages=(a_child_end(other),)
            )
        ).fate,
    ]

    assert fates == [Fate.LOST, Fate.BUSY]
    row = await worker.store.run(parent.uid)
    assert (row.state, row.inbox) == ("waiting", 0)


async def test_children_that_end_together_are_numbered_in_order(world: World) -> None:
    worker = await world.worker()
    ids = [f"child-{number}" for number in range(12)]
    parent, children = await a_family(worker, *ids)

    await asyncio.gather(
        *(
            worker.commit(child, move=SUCCEEDED, messages=(a_child_end(child),))
            for child in children
        )
    )

    row = await worker.store.run(parent.uid)
    messages = (await worker.store.look([parent.uid]))[parent.uid]
    assert (row.state, row.inbox) == ("ready", 12)
    assert [message.seq for message in messages] == list(range(1, 13))
    assert {message.name for message in messages} == {child.parent_identity for child in children}


async def test_the_messages_of_one_commit_arrive_in_its_order(world: World) -> None:
    worker = await world.worker()
    parent, [child] = await a_family(worker, "child")

    await worker.commit(
        child, messages=tuple(a_message(parent.uid, name) for name in ("z", "a", "m"))
    )

    messages = (await worker.store.look([parent.uid]))[parent.uid]
    assert [(message.seq, message.message) for message in messages] == [
        (1, "z"),
        (2, "a"),
        (3, "m"),
    ]


async def test_a_parent_that_runs_finds_the_message_when_it_wants_to_park(world: World) -> None:
    worker = await world.worker()
    parent, [child] = await a_family(worker, "child", parked=False)
    await worker.commit(child, move=SUCCEEDED, messages=(a_child_end(child),))

    refused = await worker.commit(parent, move=Move("waiting", seen=0))

    assert refused.fate is Fate.BUSY
    assert (await worker.store.run(parent.uid)).state == "running"


async def test_a_message_to_a_parent_that_is_over_is_dropped(world: World) -> None:
    worker = await world.worker()
    parent, [child] = await a_family(worker, "child", parked=False)
    await worker.commit(parent, a_record(parent, 1, "child#1"), move=SUCCEEDED)

    outcome = await worker.commit(
        child, move=SUCCEEDED, messages=(a_child_end(child), a_message("nobody", "m1"))
    )

    assert outcome.fate is Fate.DONE
    row = await worker.store.run(parent.uid)
    assert (row.state, row.inbox) == ("succeeded", 0)
