"""Starting runs: once per id, at the time asked for, with everything that was given."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward.core.instant import MINUTE
from onward.errors import NotFound
from onward.model.runs import NewRun, Started
from tests.conformance.suite.samples import SUCCEEDED, a_run

if TYPE_CHECKING:
    from tests.conformance.suite.world import World

FULL = NewRun(
    uid="uid-full",
    id="full",
    name="charge",
    input=bytes(range(256)),
    args_hash="hash-of-all",
    kind="step",
    queue="slow",
    version="v7",
    priority=-3,
    flow_key="customer 5",
    tags="gpu eu",
    deadline=1_900_000_000_000_000,
    parent="uid-parent",
    parent_identity="charge#2",
    root="uid-parent",
    cancel_with_parent=1,
    follows="uid-before",
    link="retry_of",
    attempt=2,
    origin="uid-first",
    handler="mail/add",
    trace="00-abc-def-01",
    retry='{"attempts": 2}',
    attributes=b"{}",
)


async def test_a_start_makes_a_run_that_is_ready_at_once(world: World) -> None:
    store = await world.store()

    started = await store.start(a_run("a"))

    assert started == Started("uid-a", True, "greet", "hash-of-1", "ready")
    run = await store.run("uid-a")
    assert (run.state, run.due, run.worker, run.fence) == ("ready", world.clock.wall(), None, 0)
    assert (run.seq, run.inbox, run.crashes, run.newest) == (0, 0, 0, 1)
    assert (run.created_at, run.started_at, run.finished_at) == (run.due, None, None)


async def test_a_second_start_of_an_id_makes_nothing(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))

    again = await store.start(a_run("a")._replace(uid="uid-other"))

    assert again == Started("uid-a", False, "greet", "hash-of-1", "ready")
    assert await store.counts() == {"ready": 1}


async def test_a_start_with_other_arguments_is_told_the_ones_that_stand(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    other = a_run("a")._replace(uid="uid-other", name="charge", args_hash="hash-of-2")

    answer = await store.start(other)

    assert (answer.created, answer.name, answer.start_hash) == (False, "greet", "hash-of-1")


async def test_a_repeated_start_is_told_that_it_made_the_run(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=SUCCEEDED)

    again = await worker.store.start(a_run("a"))

    assert again == Started("uid-a", True, "greet", "hash-of-1", "succeeded")


async def test_two_starts_of_one_id_in_one_batch_make_one_run(world: World) -> None:
    store = await world.store()
    one, other = a_run("a"), a_run("a")._replace(uid="uid-other", args_hash="hash-of-2")

    first, second = await asyncio.gather(store.start(one), store.start(other))

    assert (first.created, second.created) in ((True, False), (False, True))
    assert first[0::2] == second[0::2]  # the same run's uid, name and state
    assert first.start_hash == second.start_hash == ("hash-of-1" if first.created else "hash-of-2")
    assert await store.counts() == {"ready": 1}


async def test_one_start_twice_in_one_batch_made_the_run_both_times(world: World) -> None:
    store = await world.store()

    answers = await asyncio.gather(store.start(a_run("a")), store.start(a_run("a")))

    assert [(answer.uid, answer.created) for answer in answers] == [("uid-a", True)] * 2
    assert await store.counts() == {"ready": 1}


async def test_every_start_of_a_batch_gets_its_own_answer(world: World) -> None:
    store = await world.store()
    await store.start(a_run("7"))
    runs = [a_run(str(number)) for number in range(200)]
    runs[7] = runs[7]._replace(uid="uid-other")

    answers = await asyncio.gather(*map(store.start, runs))

    assert [answer.uid for answer in answers] == [f"uid-{number}" for number in range(200)]
    assert [number for number, answer in enumerate(answers) if not answer.created] == [7]


async def test_a_delayed_start_waits_until_it_is_due(world: World) -> None:
    worker = await world.worker()

    started = await worker.store.start(a_run("a")._replace(delay_in=MINUTE))

    due = world.clock.wall() + MINUTE
    assert (started.created, started.state) == (True, "waiting")
    assert (await worker.store.run("uid-a"))[10:14] == ("waiting", None, None, due)
    world.clock.advance(MINUTE - 1)
    assert await worker.claim() == []
    world.clock.advance(1)
    assert [run.uid for run in await worker.claim()] == ["uid-a"]


async def test_a_start_for_a_time_of_day_waits_for_it(world: World) -> None:
    worker = await world.worker()
    due = world.clock.wall() + MINUTE

    await worker.store.start(a_run("a")._replace(due=due))
    await worker.store.start(a_run("late")._replace(due=due, delay_in=1))

    assert await worker.store.next_due() == due
    world.clock.advance(MINUTE)
    assert [run.uid for run in await worker.claim()] == ["uid-a"]


async def test_a_start_for_a_time_that_has_passed_is_ready_at_once(world: World) -> None:
    store = await world.store()

    await store.start(a_run("a")._replace(due=world.clock.wall() - MINUTE))

    assert (await store.run("uid-a")).state == "ready"


async def test_everything_given_at_the_start_is_read_back(world: World) -> None:
    worker = await world.worker()
    await worker.owning("parent")

    await worker.store.start(FULL)

    run, end = await worker.store.run("uid-full"), await worker.store.end("uid-full")
    given = {field: getattr(FULL, field) for field in set(NewRun._fields) & set(run._fields)}
    assert {field: getattr(run, field) for field in given} | {"due": None} == given
    assert (end.input, end.args_hash, end.result, end.error) == (
        FULL.input, FULL.args_hash, None, None,
    )  # fmt: skip
    [claimed] = await worker.claim(
        queues=("slow",), names=("charge",), version="v7", tags=("eu",), limited=True
    )
    for field in set(NewRun._fields) & set(claimed._fields):
        assert getattr(claimed, field) == getattr(FULL, field), field


async def test_the_newest_run_of_an_id_is_found_by_it(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))

    assert await store.newest("a") == await store.run("uid-a")


async def test_what_is_not_there_is_not_found(world: World) -> None:
    store = await world.store()

    for asked in (store.run("nobody"), store.newest("nobody"), store.end("nobody")):
        with pytest.raises(NotFound, match="nobody"):
            await asked
    assert await store.history(["nobody"]) == {"nobody": []}
    assert await store.look(["nobody"]) == {"nobody": []}
    assert await store.counts() == {}
    assert await store.next_due() is None


async def test_an_id_that_no_database_could_hold_is_not_found(world: World) -> None:
    store = await world.store()

    for name in ("a\0b", "a\ud800b", "x" * 100_000):
        for asked in (store.run(name), store.newest(name), store.end(name)):
            with pytest.raises(NotFound):
                await asked


async def test_runs_are_counted_by_state(world: World) -> None:
    worker = await world.worker()
    [run, _] = await worker.owning("a", "b")
    await worker.commit(run, move=SUCCEEDED)
    await worker.store.start(a_run("c"))

    assert await worker.store.counts() == {"ready": 1, "running": 1, "succeeded": 1}
