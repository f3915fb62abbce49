"""What a server reads before it checks what a remote worker wants to write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.model.runs import Move
from onward.store import Attachments, Following
from onward.store.frame_facts import children_among, effect_approvals, event_deliveries
from tests.conformance.suite.pipeline import ADD, declare, peeked, prepared, publish
from tests.conformance.suite.samples import a_child, a_run, an_effect

if TYPE_CHECKING:
    from tests.conformance.suite.world import World


async def test_the_approval_of_an_effect_is_read_with_its_version(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("one")
    effect = an_effect(run, 1, "planned")._replace(approved=0)
    await worker.commit(run, attached=Attachments(effects=(effect,)))
    assert await effect_approvals(worker.store, [effect.key, "other"]) == {effect.key: (1, 0, None)}
    assert await effect_approvals(await world.store("theirs"), [effect.key]) == {}


async def test_the_deliveries_of_an_event_are_read_even_when_it_is_reserved(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1", "m2")
    events = [event.uid for event in await peeked(worker.store)]
    await prepared(worker, "m1")
    found = await event_deliveries(worker.store, ADD, "", [*events, "other"])
    assert found == dict.fromkeys(events, (1, 0))
    assert await event_deliveries(worker.store, "other", "", events) == {}
    assert await event_deliveries(worker.store, ADD, "key", events) == {}


async def test_the_children_of_a_run_are_told_from_other_runs(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")
    child, other = a_child(parent, "child"), a_run("other")
    await worker.store.start(child)
    await worker.store.start(other)
    asked = [child.uid, other.uid, parent.uid]
    assert await children_among(worker.store, parent.uid, asked) == {child.uid}
    assert await children_among(worker.store, other.uid, asked) == frozenset()
    assert await children_among(await world.store("theirs"), parent.uid, asked) == frozenset()


async def test_a_retry_has_the_children_of_the_run_that_it_repeats(world: World) -> None:
    worker = await world.worker()
    [parent] = await worker.owning("parent")
    child = a_child(parent, "child")
    await worker.store.start(child)
    await worker.commit(parent, move=Move("failed", "logic"))
    followed = await worker.store.follow(Following(parent.uid, "uid-retry", "retry_of", cut=0))
    assert followed.uid == "uid-retry"
    assert await children_among(worker.store, "uid-retry", [child.uid]) == {child.uid}
