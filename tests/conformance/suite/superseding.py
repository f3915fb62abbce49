"""Who may follow whom: owners and others, in the place of the old run or beside it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.core.instant import MINUTE, SECOND
from onward.core.lease import Fate
from onward.errors import Rejected
from onward.model.runs import Move
from onward.store import Followed, Following
from tests.conformance.suite.chains import (
    CONTINUED,
    FAILED,
    RETRY,
    a_failed_run,
    mail,
    owned,
)
from tests.conformance.suite.families import each
from tests.conformance.suite.repeating import all_rows
from tests.conformance.suite.samples import (
    SUCCEEDED,
    a_child,
    a_message,
    a_record,
    a_run,
)

if TYPE_CHECKING:
    from tests.conformance.suite.world import World


async def test_an_owner_ends_its_run_and_goes_on_as_a_new_one(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, a_record(run, 1))
    world.clock.advance(SECOND)

    end = Move("failed", "logic", error=b"jboom", failed_call="step#1", seq=1, phase="prepared")
    followed = await worker.store.follow(owned(run, worker, "retry_of", end))

    assert followed.fate == "made"
    old, kept = await worker.store.run(run.uid), await worker.store.end(run.uid)
    assert (old.state, old.reason, old.worker, old.fence) == ("failed", "logic", None, run.fence)
    assert (old.newest, old.seq, old.phase) == (0, 1, "prepared")
    assert (old.finished_at, old.crashes) == (world.clock.wall(), 0)
    assert (kept.error, kept.failed_call, kept.follower) == (b"jboom", "step#1", "uid-next")
    assert (await worker.commit(run, a_record(run, 2))).fate is Fate.LOST


@each(("fence", "lease", "state", "worker"))
async def test_an_owner_that_is_none_any_more_is_told_so(world: World, what: str) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    wish = owned(run, worker, "continued_from", CONTINUED)
    match what:
        case "fence":
            wish = wish._replace(fence=run.fence - 1)
        case "lease":
            await worker.leave()
        case "state":
            await worker.commit(run, move=Move("waiting", due_in=MINUTE))
        case "worker":
            wish = wish._replace(worker=(await world.worker()).name)
    before = await all_rows(world)

    assert await worker.store.follow(wish) == Followed(None, "lost")
    assert await all_rows(world) == before


async def test_an_owner_that_has_not_seen_all_messages_is_told_to_look(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.send(a_message("a", "m1"))
    before = await all_rows(world)
    wish = owned(run, worker, "continued_from", CONTINUED._replace(seen=0))

    assert (await worker.store.follow(wish)).fate == "busy"
    assert await all_rows(world) == before
    assert wish.end is not None
    looked = wish._replace(end=wish.end._replace(seen=1))
    assert (await worker.store.follow(looked)).fate == "made"


@each(("approval", "divergence", "precondition", "internal"))
async def test_a_paused_run_fails_for_its_reason_when_it_is_followed(
    world: World, reason: str
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=Move("paused", reason, error=b"jwhy"))
    world.clock.advance(SECOND)

    assert (await worker.store.follow(RETRY)).fate == "made"

    row = await worker.store.run(run.uid)
    assert (row.state, row.reason, row.newest) == ("failed", reason, 0)
    assert row.finished_at == world.clock.wall()
    assert (await worker.store.end(run.uid)).error == b"jwhy"


REFUSED: dict[str, tuple[Move | None, Following, str]] = {
    "reconciliation": (Move("paused", "reconciliation"), RETRY, "one of its effects is uncertain"),
    "paused by an operator": (Move("paused", "operator"), RETRY, "has not failed"),
    "succeeded": (SUCCEEDED, RETRY, "it has succeeded"),
    "running": (None, RETRY, "it is running"),
    "waiting": (Move("waiting", due_in=MINUTE), RETRY, "it is waiting"),
    "replaced early": (Move("paused", "operator"), RETRY._replace(link="replaces"), "when it has"),
    "continued by a stranger": (FAILED, RETRY._replace(link="continued_from"), "it has failed"),
    "retried beside": (FAILED, RETRY._replace(id="other"), "only a fork"),
}


@each(REFUSED)
async def test_a_run_that_may_not_be_followed_is_left_alone(world: World, case: str) -> None:
    move, wish, why = REFUSED[case]
    worker = await world.worker()
    [run] = await worker.owning("a")
    if move is not None:
        await worker.commit(run, move=move)
    before = await all_rows(world)

    followed = await worker.store.follow(wish)

    assert (followed.uid, followed.fate) == (None, "refused")
    assert why in followed.why
    assert await all_rows(world) == before


async def test_a_run_is_followed_once(world: World) -> None:
    worker = await world.worker()
    await a_failed_run(worker)
    await worker.store.follow(RETRY)
    before = await all_rows(world)

    again = await worker.store.follow(RETRY._replace(new_uid="uid-other"))

    assert again == Followed("uid-next", "taken", "ready")
    assert await all_rows(world) == before


async def test_a_repeated_follow_finds_its_own_result(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    wish = owned(run, worker, "continued_from", CONTINUED)
    await worker.store.follow(wish)
    await worker.claim()
    await worker.leave()
    before = await all_rows(world)

    assert await worker.store.follow(wish) == Followed("uid-next", "made", "running")
    assert await all_rows(world) == before


async def test_what_is_not_there_cannot_be_followed(world: World) -> None:
    store = await world.store()

    assert await store.follow(RETRY) == Followed(None, "absent")
    with pytest.raises(Rejected, match="id contains a NUL"):
        await store.follow(RETRY._replace(id="a\0"))


# --- beside ---------------------------------------------------------------------------------------


@each(("running", "paused", "over"))
async def test_a_fork_beside_leaves_the_old_run_as_it_is(world: World, standing: str) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    child = a_child(run, "child")._replace(cancel_with_parent=1, delay_in=MINUTE)
    await worker.commit(run, a_record(run, 1), a_record(run, 2), starts=(child,))
    if standing == "paused":
        await worker.commit(run, move=Move("paused", "operator"))
    elif standing == "over":
        await worker.commit(run, move=FAILED)
    before = await worker.store.run(run.uid), await worker.store.end(run.uid)

    followed = await worker.store.follow(Following(run.uid, "uid-b", "forked_from", 2, id="b"))

    assert followed == Followed("uid-b", "made", "ready")
    assert (await worker.store.run(run.uid), await worker.store.end(run.uid)) == before
    assert await mail(worker, child.uid) == []
    row = await worker.store.newest("b")
    assert (row.uid, row.follows, row.link, row.seq) == ("uid-b", run.uid, "forked_from", 1)


async def test_a_run_may_be_forked_beside_more_than_once_and_still_be_followed(
    world: World,
) -> None:
    worker = await world.worker()
    run = await a_failed_run(worker)
    for name in ("b", "c"):
        wish = Following(run.uid, f"uid-{name}", "forked_from", 2, id=name)
        assert (await worker.store.follow(wish)).fate == "made"

    assert (await worker.store.follow(RETRY)).fate == "made"
    assert (await worker.store.end(run.uid)).follower == "uid-next"


async def test_a_fork_beside_needs_an_id_that_is_free(world: World) -> None:
    worker = await world.worker()
    await a_failed_run(worker)
    await worker.store.start(a_run("b")._replace(uid="uid-first"))
    before = await all_rows(world)

    followed = await worker.store.follow(Following("uid-a", "uid-b", "forked_from", 2, id="b"))

    assert followed == Followed("uid-first", "taken", "ready")
    assert await all_rows(world) == before


async def test_a_fork_beside_a_child_is_nobodys_child(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")
    await worker.commit(parent, starts=(a_child(parent, "a")._replace(cancel_with_parent=1),))
    [run] = await worker.claim()
    await worker.commit(run, a_record(run, 1))

    await worker.store.follow(Following(run.uid, "uid-b", "forked_from", 2, id="b"))

    fork = await worker.store.run("uid-b")
    assert (fork.parent, fork.parent_identity, fork.root, fork.cancel_with_parent) == (
        None,
        None,
        None,
        0,
    )
