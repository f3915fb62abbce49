"""Lists of runs: what narrows them, families, and what runs say of themselves."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import TYPE_CHECKING, Any

from onward.model.run_filter import Family, RunQuery
from tests.conformance.suite.chains import FAILED, RETRY
from tests.conformance.suite.samples import SUCCEEDED, a_child, a_record, a_run

if TYPE_CHECKING:
    from onward.store.store import Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World


async def listed(store: Store, *, limit: int = 100, **narrowed: Any) -> list[str]:
    return [run.id for run in await store.list_runs(RunQuery(**narrowed), limit=limit)]


async def a_family(worker: Worker) -> None:
    """Leave a run behind with two children, one of which has a child, and a stranger."""
    [top] = await worker.owning("a")
    await worker.commit(top, starts=(a_child(top, "b"), a_child(top, "c")))
    [_, mother] = sorted(await worker.claim(), key=lambda run: run.uid)
    await worker.commit(mother, starts=(a_child(mother, "d")._replace(root=top.uid),))
    await worker.store.start(a_run("e"))


async def test_a_list_is_narrowed_by_name_state_and_queue(world: World) -> None:
    worker = await world.worker()
    [done] = await worker.owning("done")
    await worker.commit(done, move=SUCCEEDED)
    await worker.store.start(a_run("named")._replace(name="charge"))
    await worker.store.start(a_run("queued")._replace(queue="slow"))

    assert await listed(worker.store) == ["queued", "named", "done"]
    assert await listed(worker.store, name="charge") == ["named"]
    assert await listed(worker.store, state="succeeded") == ["done"]
    assert await listed(worker.store, queue="slow") == ["queued"]
    assert await listed(worker.store, queue="slow", state="succeeded") == []


async def test_runs_that_change_their_state_while_a_list_is_read_are_in_it_once(
    world: World,
) -> None:
    worker = await world.worker()
    ids = [f"run-{n:02}" for n in range(20)]
    runs = await worker.owning(*ids)

    async def end_all() -> None:
        for run in runs:
            await worker.commit(run, move=SUCCEEDED)

    async with asyncio.TaskGroup() as group:
        ending = group.create_task(end_all())
        while not ending.done():
            assert sorted(await listed(worker.store, name=runs[0].name)) == ids


async def test_a_list_is_narrowed_by_kind(world: World) -> None:
    store = await world.store()
    await store.start(a_run("plain"))
    await store.start(a_run("routed")._replace(kind="step"))

    assert await listed(store, kind="step") == ["routed"]


async def test_a_list_is_narrowed_by_a_whole_tag(world: World) -> None:
    store = await world.store()
    for number, tags in enumerate(("", "eu", "gpu eu big", "europe", "e% u_")):
        await store.start(a_run(str(number))._replace(tags=tags))

    assert await listed(store, tag="eu") == ["2", "1"]
    assert await listed(store, tag="e%") == ["4"]
    assert await listed(store, tag="e") == []


async def test_each_combination_of_filters_finds_what_a_look_at_all_runs_would(
    world: World,
) -> None:
    worker = await world.worker()
    store = worker.store
    [done] = await worker.owning("done")
    await worker.commit(done, move=SUCCEEDED)
    await a_family(worker)
    await store.start(a_run("charged")._replace(name="charge", queue="slow", tags="eu"))
    await store.start(a_run("routed")._replace(kind="step", tags="gpu eu"))
    every = await store.list_runs()

    for name, state, queue, kind, tag, children in product(
        (None, "charge"), (None, "ready", "succeeded"), (None, "slow"), (None, "step"),
        (None, "eu"), (True, False),
    ):  # fmt: skip
        query = RunQuery(name, state, queue, kind, tag, children)
        expected = [
            run
            for run in every
            if name in (None, run.name) and state in (None, run.state)
            if queue in (None, run.queue) and kind in (None, run.kind)
            if (tag is None or tag in run.tags.split(" ")) and (children or run.parent is None)
        ]
        assert await store.list_runs(query) == expected, query
        assert await store.list_runs(query, before=every[2].uid) == [
            run for run in expected if run.uid < every[2].uid
        ]
        assert await store.count_runs(query, 100) == len(expected), query


async def test_ids_that_begin_alike_are_found(world: World) -> None:
    store = await world.store()
    for id_ in ("order-1", "order-10", "order-2", "Order-1", "order_1", "é-1", "é\U0010ffff"):
        await store.start(a_run(id_))

    assert [run.id for run in await store.find_ids("order-1")] == ["order-1", "order-10"]
    assert [run.id for run in await store.find_ids("é")] == ["é-1", "é\U0010ffff"]
    assert await store.find_ids("order-3") == []
    assert len(await store.find_ids("")) == 7


async def test_a_list_leaves_out_what_runs_have_started(world: World) -> None:
    worker = await world.worker()
    await a_family(worker)

    assert await listed(worker.store, children=False) == ["e", "a"]
    assert await listed(worker.store) == ["e", "d", "c", "b", "a"]


async def test_what_runs_have_started_is_counted_as_far_as_it_matters(world: World) -> None:
    worker = await world.worker()
    await a_family(worker)
    store = worker.store

    assert await store.count_started_by_runs(RunQuery(), 100) == 3
    assert await store.count_started_by_runs(RunQuery(), 2) == 2
    assert await store.count_started_by_runs(RunQuery(state="ready"), 100) == 1
    assert await store.count_started_by_runs(RunQuery(name="charge"), 100) == 0


async def test_a_family_is_listed_from_any_of_its_runs_downwards(world: World) -> None:
    worker = await world.worker()
    await a_family(worker)

    assert await listed(worker.store, family=Family("uid-a")) == ["d", "c", "b", "a"]
    assert await listed(worker.store, family=Family("uid-a"), limit=2) == ["d", "c"]
    assert await listed(worker.store, family=Family("uid-c")) == ["d", "c"]
    assert await listed(worker.store, family=Family("uid-a"), state="ready") == ["d"]
    assert await listed(worker.store, family=Family("nobody")) == []


async def test_the_children_of_a_run_are_listed_without_theirs(world: World) -> None:
    worker = await world.worker()
    await a_family(worker)

    assert await listed(worker.store, family=Family("uid-a", children_only=True)) == ["c", "b"]


async def test_a_family_has_what_was_started_before_a_retry(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, starts=(a_child(run, "b"),))
    await worker.commit(run, move=FAILED)
    await worker.store.follow(RETRY)

    assert await listed(worker.store, family=Family("uid-next")) == ["a", "b", "a"]
    assert await listed(worker.store, family=Family("uid-next", line=False)) == ["a"]


async def test_what_many_runs_say_of_themselves_is_read_at_once(world: World) -> None:
    worker = await world.worker()
    begun = a_run("b")._replace(attributes=b"j{}")
    [silent, loud] = await worker.given(a_run("a"), begun)
    note = a_record(loud, 1, "=note.x#1")._replace(seq=None, kind="note", name="note")
    await worker.commit(loud, note, a_record(loud, 1))

    found = await worker.store.all_notes([silent.uid, loud.uid, "nobody"])

    assert found == {silent.uid: (None, []), loud.uid: (b"j{}", [b"j1"]), "nobody": (None, [])}
