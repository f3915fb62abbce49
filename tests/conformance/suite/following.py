"""One run follows another: what it has of the old one, and who else hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import HOUR, MINUTE, SECOND
from onward.store import Followed, Following
from onward.store.hints import queue_subject, run_subject
from tests.conformance.suite.chains import (
    CONTINUED,
    FAILED,
    LINKS,
    RETRY,
    a_failed_run,
    mail,
    owned,
)
from tests.conformance.suite.families import each
from tests.conformance.suite.hinting import hears
from tests.conformance.suite.samples import (
    a_child,
    a_message,
    a_run,
    an_open_record,
)

if TYPE_CHECKING:
    from onward.model.runs import RunRow
    from tests.conformance.suite.world import World

# What the new run has of the old one's row, whatever the link.
KEPT = (
    "id", "kind", "name", "version", "queue", "priority", "flow_key", "tags", "parent",
    "parent_identity", "root", "cancel_with_parent", "handler", "inbox",
)  # fmt: skip


async def test_a_retry_is_the_old_run_again(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")
    full = a_child(parent, "a")._replace(
        cancel_with_parent=1, queue="slow", priority=7, flow_key="k", tags="eu", version="v7",
        handler="h", trace="t", retry="r", attributes=b"j{}",
    )  # fmt: skip
    await worker.commit(parent, starts=(full,))
    [run] = await worker.claim(queues=("slow",), version="v7", tags=("eu",), limited=True)
    await worker.store.send(a_message("a", "m1"))
    await worker.commit(run, move=FAILED)
    world.clock.advance(SECOND)

    followed = await worker.store.follow(RETRY)

    assert followed == Followed("uid-next", "made", "ready")
    old, new = await worker.store.run("uid-a"), await worker.store.run("uid-next")
    assert {name: getattr(new, name) for name in KEPT} == {
        name: getattr(old, name) for name in KEPT
    }
    assert (new.state, new.due, new.created_at) == ("ready", *2 * (world.clock.wall(),))
    assert (new.newest, new.follows, new.link) == (1, old.uid, "retry_of")
    assert (new.fence, new.crashes, new.worker, new.parked_by) == (0, 0, None, "")
    [again] = await worker.claim(queues=("slow",), version="v7", tags=("eu",), limited=True)
    assert (again.uid, again.input, again.args_hash) == ("uid-next", run.input, run.args_hash)
    assert (again.trace, again.retry, again.attributes) == ("t", "r", b"j{}")


STARTED_BY_FIRST = {"retry_of": True, "forked_from": True, "replaces": False}


@each(STARTED_BY_FIRST)
async def test_a_start_is_recognised_when_other_runs_follow_its_own(
    world: World, link: str
) -> None:
    worker = await world.worker()
    await a_failed_run(worker)
    wish = Following("uid-a", "uid-next", link, 0, input=b"j[2]", args_hash="hash-of-2")
    await worker.store.follow(wish)
    await worker.store.stop("uid-next", state="failed", reason="logic")
    await worker.store.follow(Following("uid-next", "uid-last", "retry_of"))

    same = await worker.store.start(a_run("a"))
    again = await worker.store.start(a_run("a")._replace(uid="uid-again"))

    assert (same.uid, same.created, same.start_hash) == ("uid-a", True, "hash-of-1")
    assert (again.uid, again.created) == ("uid-last", False)
    assert again.start_hash == ("hash-of-1" if STARTED_BY_FIRST[link] else "hash-of-2")


async def test_a_continued_run_is_recognised_by_the_start_of_the_first(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    wish = owned(run, worker, "continued_from", CONTINUED)
    await worker.store.follow(wish._replace(input=b"j[2]", args_hash="hash-of-2"))

    again = await worker.store.start(a_run("a")._replace(uid="uid-again"))

    assert (again.uid, again.created, again.start_hash) == ("uid-next", False, "hash-of-1")
    assert (await worker.store.end("uid-next")).args_hash == "hash-of-2"


async def test_a_fork_beside_a_run_is_a_start_of_its_own(world: World) -> None:
    worker = await world.worker()
    await a_failed_run(worker)
    await worker.store.follow(Following("uid-a", "uid-next", "forked_from", id="b"))
    await worker.store.stop("uid-next", state="failed", reason="logic")
    wish = Following("uid-next", "uid-last", "retry_of", 0, input=b"j[2]", args_hash="hash-of-2")
    await worker.store.follow(wish)

    again = await worker.store.start(a_run("b"))

    assert (again.uid, again.start_hash) == ("uid-last", "hash-of-1")


async def test_the_old_run_stays_as_it_is_but_is_not_the_newest(world: World) -> None:
    worker = await world.worker()
    run = await a_failed_run(worker)
    old, end = await worker.store.run(run.uid), await worker.store.end(run.uid)
    records = (await worker.store.history([run.uid]))[run.uid]
    world.clock.advance(SECOND)

    await worker.store.follow(RETRY)

    assert await worker.store.run(run.uid) == old._replace(newest=0)
    assert await worker.store.end(run.uid) == end._replace(
        follower="uid-next", follower_link="retry_of"
    )
    assert (await worker.store.history([run.uid]))[run.uid] == records
    assert (await worker.store.newest("a")).uid == "uid-next"


async def test_retries_are_counted_from_the_first(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    found: list[RunRow] = []
    for number in range(3):
        await worker.commit(run, move=FAILED)
        await worker.store.follow(Following(run.uid, f"uid-{number}", "retry_of", None))
        [run] = await worker.claim()
        found.append(await worker.store.run(run.uid))

    assert [(row.attempt, row.origin) for row in found] == [
        (2, "uid-a"), (3, "uid-a"), (4, "uid-a"),
    ]  # fmt: skip
    assert [row.follows for row in found] == ["uid-a", "uid-0", "uid-1"]


@each(("forked_from", "replaces"))
async def test_what_is_no_retry_is_a_first_attempt(world: World, link: str) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=FAILED)
    await worker.store.follow(RETRY)
    [again] = await worker.claim()
    await worker.commit(again, move=FAILED)

    await worker.store.follow(Following("uid-next", "uid-other", link, 0))

    row = await worker.store.run("uid-other")
    assert (row.attempt, row.origin) == (1, None)


async def test_a_delayed_follower_waits_for_its_time(world: World) -> None:
    worker = await world.worker()
    await a_failed_run(worker)

    followed = await worker.store.follow(RETRY._replace(delay_in=MINUTE))

    row = await worker.store.run("uid-next")
    assert followed.state == row.state == "waiting"
    assert row.due == row.scheduled_at == world.clock.wall() + MINUTE
    assert await worker.claim() == []


@each(LINKS)
async def test_a_deadline_is_kept_by_a_continuation_and_counts_anew_for_others(
    world: World, link: str
) -> None:
    worker = await world.worker()
    [run] = await worker.given(a_run("a")._replace(deadline_in=HOUR))
    began = world.clock.wall()
    world.clock.advance(MINUTE)
    if link == "continued_from":
        wish = owned(run, worker, link, CONTINUED, delay_in=SECOND)
    else:
        await worker.commit(run, move=FAILED)
        wish = Following(run.uid, "uid-next", link, 0, delay_in=SECOND)

    await worker.store.follow(wish)

    deadline = (await worker.store.run("uid-next")).deadline
    kept = began + HOUR
    assert deadline == (kept if link == "continued_from" else kept + MINUTE + SECOND)


@each(LINKS)
async def test_attributes_and_arguments_are_the_old_ones_unless_given(
    world: World, link: str
) -> None:
    worker = await world.worker()
    [run] = await worker.given(a_run("a")._replace(attributes=b"old"))
    if link == "continued_from":
        wish = owned(run, worker, link, CONTINUED)
    else:
        await worker.commit(run, move=FAILED)
        wish = Following(run.uid, "uid-next", link, 0)
    await worker.store.follow(wish)
    kept = await worker.store.end("uid-next")
    assert (kept.input, kept.args_hash) == (b"j[1]", "hash-of-1")
    assert kept.attributes == (None if link == "replaces" else b"old")

    await worker.store.stop("uid-next", state="failed", reason="logic")
    wish = Following("uid-next", "uid-last", "replaces", 0, input=b"j[2]", args_hash="hash-of-2")
    await worker.store.follow(wish._replace(attributes=b"new"))

    last = await worker.store.end("uid-last")
    assert (last.input, last.args_hash, last.attributes) == (b"j[2]", "hash-of-2", b"new")


# --- the others -----------------------------------------------------------------------------------


@each(LINKS)
async def test_bound_children_end_with_the_old_run_unless_it_continues(
    world: World, link: str
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    bound = a_child(run, "bound")._replace(cancel_with_parent=1, delay_in=MINUTE)
    free = a_child(run, "free")._replace(delay_in=MINUTE)
    await worker.commit(run, starts=(bound, free))
    end = CONTINUED if link == "continued_from" else FAILED

    await worker.store.follow(owned(run, worker, link, end))

    told = [] if link == "continued_from" else [(1, "cancel")]
    assert await mail(worker, bound.uid) == told
    assert await mail(worker, free.uid) == []
    parents = [(await worker.store.run(child.uid)).parent for child in (bound, free)]
    assert parents == ["uid-next" if link == "continued_from" else run.uid, run.uid]


async def test_the_parent_is_told_by_the_last_of_a_chain_alone(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")
    await worker.commit(parent, an_open_record(parent, "a#1"), starts=(a_child(parent, "a"),))
    [run] = await worker.claim()

    await worker.store.follow(owned(run, worker, "retry_of", FAILED))

    assert await mail(worker, parent.uid) == []
    await worker.store.stop("uid-next", state="cancelled", reason="forced")
    assert await mail(worker, parent.uid) == [(1, "child a#1")]


async def test_an_ear_hears_that_a_run_is_followed(world: World) -> None:
    worker = await world.worker()
    await a_failed_run(worker)
    subjects = [queue_subject("default"), run_subject("uid-a")]

    with worker.store.subscribe(subjects) as subscription:
        await worker.store.follow(RETRY)
        assert await hears(subscription, *subjects)
