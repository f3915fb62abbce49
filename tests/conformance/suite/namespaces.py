"""Namespaces: with the uid of another tenant's run nothing can be read and nothing written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.core.flow import FlowId, FlowKind
from onward.core.inbox import MessageKind
from onward.core.instant import MINUTE
from onward.core.lease import LEASE, Fate
from onward.errors import NotFound
from onward.model.flow import DeclaredLimits
from onward.model.pipelines import Completion, PipelineWrite, Preparation, Reservation
from onward.model.runs import Move
from onward.store import Attachments, Following
from onward.store.invariants import check
from onward.store.pipelines.launching import launch
from onward.store.pipelines.reading import handler_row
from tests.conformance.suite.effects import ledger
from tests.conformance.suite.pipeline import (
    ADD,
    HANDLERS,
    TOPIC,
    completion,
    declare,
    peeked,
    prepared,
    publish,
)
from tests.conformance.suite.repeating import all_rows
from tests.conformance.suite.samples import (
    QUEUE,
    SUCCEEDED,
    a_message,
    a_record,
    a_run,
    an_effect,
)

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World


async def two_tenants(world: World) -> tuple[Worker, ClaimedRun, Worker]:
    """Return a worker that has made everything there can be, its run, and a stranger."""
    ours = await world.worker(await world.store("ours"))
    await declare(ours.store, ADD)
    await publish(ours.store, "m1", "m2")
    run = await prepared(ours, "m1")
    effect = an_effect(run, 1, "in_flight")._replace(key="key-consumer")
    await ours.commit(run, a_record(run, 2), attached=Attachments(effects=(effect,)))
    await ours.store.send(a_message(run.uid, "m1"))
    await ours.store.start(a_run("ready"))
    await ours.store.start(a_run("waiting")._replace(delay_in=MINUTE))
    return ours, run, await world.worker(await world.store("theirs"))


async def test_nothing_of_another_namespace_can_be_read(world: World) -> None:
    ours, run, theirs = await two_tenants(world)
    store = theirs.store

    for asked in (store.run(run.uid), store.newest(run.id), store.end(run.uid)):
        with pytest.raises(NotFound, match="theirs"):
            await asked
    assert await store.history([run.uid]) == {run.uid: []}
    assert await store.look([run.uid]) == {run.uid: []}
    assert await store.owned(ours.name) == {}
    assert await store.counts() == {}
    assert await store.list_runs() == []
    assert await store.ends([run.uid]) == []
    assert await store.next_due() is None
    assert await ledger(store, "key-consumer") is None
    assert await peeked(store) == []
    with pytest.raises(NotFound, match="theirs"):
        await store.read(lambda tx: handler_row(tx, ADD, ""))


async def test_nothing_of_another_namespace_can_be_claimed(world: World) -> None:
    _, _, theirs = await two_tenants(world)
    before = await all_rows(world)
    world.clock.advance(MINUTE)

    assert await theirs.claim(suspects=10) == []
    assert await all_rows(world) == before


async def test_nothing_of_another_namespace_can_be_sent_to(world: World) -> None:
    _, run, theirs = await two_tenants(world)
    before = await all_rows(world)

    for target in (run.uid, run.id):
        for kind in MessageKind:
            assert (await theirs.store.send(a_message(target, kind, kind))).fate == "absent"

    assert await all_rows(world) == before


async def test_nothing_of_another_namespace_can_be_committed_to(world: World) -> None:
    _, run, theirs = await two_tenants(world)
    before = await all_rows(world)

    for outcome in (
        await theirs.commit(run, a_record(run, 3)),
        await theirs.commit(run, move=SUCCEEDED),
        await theirs.commit(run, move=SUCCEEDED, attached=completion(run)),
    ):
        assert outcome.fate is Fate.LOST

    assert await all_rows(world) == before


async def test_an_owner_reaches_nothing_of_another_namespace(world: World) -> None:
    _, run, theirs = await two_tenants(world)
    [own] = await theirs.owning("own")
    ours_before = [list(filter(is_ours, rows)) for rows in await all_rows(world)]

    sent = await theirs.commit(own, messages=(a_message(run.uid, "m9"),))
    effect = an_effect(own, 2, "applied")._replace(key="key-consumer")
    reserve = PipelineWrite(
        ADD, "", prepared=Preparation((Reservation("event-m2", 1),), 0, None, "origin")
    )
    save = PipelineWrite(ADD, "", completed=Completion(saves_state=True, state=b"j"))
    refused = [
        await theirs.commit(own, attached=Attachments(effects=(effect,))),
        await theirs.commit(own, attached=Attachments(pipeline=reserve)),
        await theirs.commit(own, attached=Attachments(pipeline=save)),
    ]

    assert sent.fate is Fate.DONE
    assert [outcome.fate for outcome in refused] == [Fate.BUSY] * 3
    assert [list(filter(is_ours, rows)) for rows in await all_rows(world)] == ours_before


def is_ours(row: tuple[object, ...]) -> bool:
    return row[0] == "ours"


async def test_an_event_reaches_no_subscriber_of_another_namespace(world: World) -> None:
    ours, _, theirs = await two_tenants(world)

    with pytest.raises(NotFound, match=TOPIC):
        await publish(theirs.store, "m3")
    await declare(theirs.store, "mail.Other")
    await publish(theirs.store, "m3")

    assert [event.message for event in await peeked(ours.store)] == ["m2"]
    assert await peeked(theirs.store) == []


async def test_no_run_is_started_for_a_handler_of_another_namespace(world: World) -> None:
    _, run, theirs = await two_tenants(world)
    await world.sql(f"UPDATE onward_run SET lane = NULL WHERE uid = '{run.uid}'")
    before = await all_rows(world)

    assert await launch(theirs.store, HANDLERS, [QUEUE], 10) == 0

    assert await all_rows(world) == before


async def test_nothing_of_another_namespace_can_be_stopped_or_followed(world: World) -> None:
    ours, run, theirs = await two_tenants(world)
    [diverged] = await ours.given(a_run("diverged")._replace(deadline=1))
    await ours.commit(diverged, move=Move("paused", "divergence", parked_by="old"))
    before = await all_rows(world)
    store = theirs.store

    for target in (run.uid, run.id):
        assert (await store.stop(target, state="cancelled", reason="forced")).fate == "absent"
    assert (await store.follow(Following(diverged.uid, "uid-n", "retry_of", 0))).fate == "absent"
    assert await store.overdue() == 0
    assert await store.unpark({"greet": "new"}) == 0
    assert await store.children(run.uid) == []
    assert await store.unserved() == []
    assert not any((await store.maintenance_due())[1:])
    assert not await store.keep_progress(ours.name, run.uid, run.fence, b"1")
    assert await all_rows(world) == before


async def test_a_limit_counts_in_its_namespace(world: World) -> None:
    one = await world.worker(await world.store("one"))
    two = await world.worker(await world.store("two"))
    await one.store.declare(FlowId(FlowKind.KEY, "k", QUEUE), DeclaredLimits(1))
    for worker in (one, two):
        for name in ("a", "b"):
            await worker.store.start(a_run(name)._replace(flow_key="k"))

    assert len(await two.claim(limited=True)) == 2
    assert len(await one.claim(limited=True)) == 1


async def test_two_namespaces_may_use_the_same_ids(world: World) -> None:
    one = await world.worker(await world.store("one"))
    two = await world.worker(await world.store("two"))

    [mine], [yours] = await one.owning("a"), await two.owning("a")
    await one.commit(mine, a_record(mine, 1), move=SUCCEEDED)

    assert (await one.store.run("uid-a")).state == "succeeded"
    assert (await two.store.run("uid-a")).state == "running"
    assert await two.store.history(["uid-a"]) == {"uid-a": []}
    assert (await two.commit(yours, a_record(yours, 1))).fate is Fate.DONE


async def test_a_lease_is_one_in_its_namespace(world: World) -> None:
    one, two = await world.store("one"), await world.store("two")

    assert await one.take_lease("w") is not None
    assert await two.renew_lease("w") is None
    assert await two.take_lease("w") is not None
    await two.drop_lease("w")
    assert await one.renew_lease("w") is not None


async def test_a_claim_ends_no_lease_of_another_namespace(world: World) -> None:
    one, two = await world.store("one"), await world.worker(await world.store("two"))
    await one.take_lease("w", LEASE)
    world.clock.advance(2 * LEASE)

    await two.claim()

    assert await one.renew_lease("w") is not None


async def test_an_audit_releases_nothing_of_another_namespace(world: World) -> None:
    ours, run, theirs = await two_tenants(world)
    await theirs.store.take_lease(ours.name)

    assert await theirs.store.audit(ours.name, ()) == []
    assert (await ours.store.run(run.uid)).state == "running"


async def test_a_sweep_delivers_nothing_of_another_namespace(world: World) -> None:
    ours, run, theirs = await two_tenants(world)
    async with world.caller(commit=True) as connection:
        await ours.store.within(connection).send(a_message(run.uid, "m2"))
        await theirs.store.within(connection).send(a_message(run.uid, "m3"))

    assert await theirs.store.sweep() == 1
    assert (await ours.store.run(run.uid)).inbox == 1
    assert await ours.store.sweep() == 1
    assert (await ours.store.run(run.uid)).inbox == 2


async def test_a_broken_invariant_is_not_told_to_another_namespace(world: World) -> None:
    ours, _, theirs = await two_tenants(world)
    await world.sql("UPDATE onward_run SET newest = 0")
    world.spoiled = True

    assert "check_newest" in {violation.name for violation in await check(ours.store)}
    assert await check(theirs.store) == []
