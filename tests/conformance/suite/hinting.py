"""Hints: a subscription hears what may have changed, and whoever hears nothing loses only time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import MINUTE
from onward.model.pipelines import Completion, PipelineWrite
from onward.model.runs import Move
from onward.store import Attachments
from onward.store.hints import ANYTHING, PIPELINES, queue_subject, run_subject
from tests.conformance.suite.pipeline import (
    ADD,
    a_step,
    declare,
    launched,
    peeked,
    preparation,
    publish,
)
from tests.conformance.suite.samples import (
    RELEASED,
    SUCCEEDED,
    a_message,
    a_run,
    an_open_record,
)

if TYPE_CHECKING:
    from onward.store.hints import Subscription
    from tests.conformance.suite.world import World

QUEUE = queue_subject("default")
LONG = 20.0  # seconds: only a failing test waits that long
MAX_TRIES = 100


async def hears(subscription: Subscription, *subjects: str) -> bool:
    """Wait until all subjects were heard; one that listens to everything may hear more."""
    missing = set(subjects)
    while missing:
        heard = await subscription.wait(LONG)
        if not heard:
            return False
        missing -= heard
    return True


async def test_an_ear_hears_a_start_in_its_queue(world: World) -> None:
    store = await world.store()

    with store.subscribe([QUEUE]) as subscription:
        await store.start(a_run("a"))
        assert await hears(subscription, QUEUE)


async def test_an_ear_hears_a_child_start_in_its_queue(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    with worker.store.subscribe([queue_subject("slow")]) as subscription:
        await worker.commit(run, starts=(a_run("child")._replace(queue="slow"),))
        assert await hears(subscription, queue_subject("slow"))


async def test_an_ear_hears_that_a_run_was_woken(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, an_open_record(run, "w#1"), move=Move("waiting"))

    with worker.store.subscribe([QUEUE, run_subject(run.uid)]) as subscription:
        await worker.store.send(a_message("a", "m1"))
        assert await hears(subscription, QUEUE, run_subject(run.uid))


async def test_an_ear_hears_a_wake_by_a_childs_end(world: World) -> None:
    worker = await world.worker()
    parent, child = await worker.owning("parent", "child")
    await worker.commit(parent, an_open_record(parent, "w#1"), move=Move("waiting"))

    with worker.store.subscribe([QUEUE, run_subject(parent.uid)]) as subscription:
        await worker.commit(child, move=SUCCEEDED, messages=(a_message(parent.uid, "m1"),))
        assert await hears(subscription, QUEUE, run_subject(parent.uid))


async def test_an_ear_hears_a_run_end(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    with worker.store.subscribe([run_subject(run.uid)]) as subscription:
        await worker.commit(run, move=SUCCEEDED)
        assert await hears(subscription, run_subject(run.uid))


async def test_an_ear_hears_a_release_in_its_queue(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    with worker.store.subscribe([QUEUE]) as subscription:
        await worker.commit(run, move=RELEASED)
        assert await hears(subscription, QUEUE)


async def test_an_ear_hears_what_a_sweep_delivered(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    async with world.caller(commit=True) as connection:
        await store.within(connection).send(a_message("a", "m1"))

    with store.subscribe([run_subject("uid-a")]) as subscription:
        await store.sweep()
        assert await hears(subscription, run_subject("uid-a"))


async def test_an_ear_hears_nothing_of_what_it_does_not_listen_for(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    with worker.store.subscribe([queue_subject("other"), run_subject("other")]) as subscription:
        await worker.store.start(a_run("b"))
        await worker.commit(run, move=Move("waiting", due_in=MINUTE))
        assert await subscription.wait(0) <= {ANYTHING}


async def test_a_phase_that_gives_no_handler_work_is_no_news(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    attached = preparation(run, *await peeked(worker.store))

    with worker.store.subscribe([PIPELINES, run_subject(run.uid)]) as subscription:
        await worker.commit(
            run,
            a_step(run, "prepare", 1),
            attached=attached,
            move=Move("running", phase="prepared"),
        )
        assert await subscription.wait(0) <= {ANYTHING}
        done = Attachments(pipeline=PipelineWrite(ADD, completed=Completion()))
        await worker.commit(run, a_step(run, "next", 2), attached=done, move=SUCCEEDED)
        assert await hears(subscription, PIPELINES, run_subject(run.uid))


async def test_what_rang_before_the_wait_is_heard_by_it(world: World) -> None:
    store = await world.store()

    with store.subscribe([QUEUE]) as subscription:
        await store.start(a_run("a"))
        await store.start(a_run("b"))
        assert await hears(subscription, QUEUE)


async def test_a_hint_that_nobody_heard_costs_nothing_but_time(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("a"))

    with worker.store.subscribe([QUEUE]) as subscription:
        await subscription.wait(0)
        [run] = await worker.claim()

    assert run.id == "a"


async def test_an_ear_hears_what_another_store_wrote(world: World) -> None:
    here, there = await world.store(), await world.store()

    with here.subscribe([QUEUE]) as subscription:
        for number in range(MAX_TRIES):  # listening may begin a little after opening
            await there.start(a_run(str(number)))
            if QUEUE in await subscription.wait(0.1):
                break
        else:
            raise AssertionError("the other store was never heard")


async def test_an_ear_that_left_hears_no_more(world: World) -> None:
    store = await world.store()
    with store.subscribe([QUEUE]) as subscription:
        pass

    await store.start(a_run("a"))

    assert await subscription.wait(0) == set()
