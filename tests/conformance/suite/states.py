"""The state of handlers: versioned, one per key, saved with the commit that made it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.lease import Fate
from onward.model.deliveries import HandlerState
from onward.store import Attachments
from tests.conformance.suite.pipeline import ADD, Handler, kept, publish, subscribe
from tests.conformance.suite.samples import SUCCEEDED, a_record

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World


async def save(worker: Worker, run: ClaimedRun, *states: HandlerState) -> Fate:
    return (await worker.commit(run, attached=Attachments(states=states))).fate


async def test_a_state_is_saved_version_by_version(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    wake_at = world.clock.wall() + 5

    assert await save(worker, run, HandlerState(ADD, "", 1, b"j1", wake_at)) is Fate.DONE
    assert await kept(worker.store, ADD) == Handler(b"j1", 1, 0, wake_at)
    assert await save(worker, run, HandlerState(ADD, "", 2, None)) is Fate.DONE
    assert await kept(worker.store, ADD) == Handler(None, 2, 0, None)


async def test_a_state_whose_version_moved_refuses_the_whole_commit(world: World) -> None:
    worker = await world.worker()
    one, other = await worker.owning("one", "other")
    await save(worker, one, HandlerState(ADD, "", 1, b"j1"))

    for version in (1, 3):
        outcome = await worker.commit(
            other,
            a_record(other, 1),
            move=SUCCEEDED,
            attached=Attachments(states=(HandlerState(ADD, "", version, b"other"),)),
        )
        assert outcome.fate is Fate.BUSY

    assert await kept(worker.store, ADD) == Handler(b"j1", 1, 0, None)
    assert (await worker.store.history([other.uid]))[other.uid] == []
    assert (await worker.store.run(other.uid)).state == "running"


async def test_a_state_cannot_begin_with_a_later_version(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    assert await save(worker, run, HandlerState(ADD, "", 2, b"j1")) is Fate.BUSY
    assert await kept(worker.store, ADD) is None


async def test_each_key_has_a_state_of_its_own(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    await save(worker, run, HandlerState(ADD, "x", 1, b"jx"), HandlerState(ADD, "y", 1, b"jy"))

    assert await kept(worker.store, ADD) is None
    assert await kept(worker.store, ADD, "x") == Handler(b"jx", 1, 0, None)
    assert await kept(worker.store, ADD, "y") == Handler(b"jy", 1, 0, None)


async def test_publishing_to_a_handler_leaves_its_state_alone(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await save(worker, run, HandlerState(ADD, "", 1, b"j1", 77))
    await subscribe(worker.store, ADD)

    await publish(worker, "m1")

    assert await kept(worker.store, ADD) == Handler(b"j1", 1, 1, 77)


async def test_a_handler_that_was_only_published_to_saves_its_first_state(world: World) -> None:
    worker = await world.worker()
    await subscribe(worker.store, ADD)
    await publish(worker, "m1")
    [run] = await worker.owning("a")

    assert await save(worker, run, HandlerState(ADD, "", 1, b"j1")) is Fate.DONE
    assert await kept(worker.store, ADD) == Handler(b"j1", 1, 1, None)


async def test_two_workers_that_save_one_version_together_do_not_both_succeed(
    world: World,
) -> None:
    one, other = await world.worker(), await world.worker()
    [a], [b] = await one.owning("a"), await other.owning("b")
    await save(one, a, HandlerState(ADD, "", 1, b"j0"))

    fates = await asyncio.gather(
        save(one, a, HandlerState(ADD, "", 2, b"ja")),
        save(other, b, HandlerState(ADD, "", 2, b"jb")),
    )

    assert sorted(fates) == [Fate.BUSY, Fate.DONE]


async def test_two_runs_of_one_batch_that_save_one_version_do_not_both_succeed(
    world: World,
) -> None:
    worker = await world.worker()
    a, b = await worker.owning("1-a", "2-a")

    fates = await asyncio.gather(
        save(worker, a, HandlerState(ADD, "", 1, b"ja")),
        save(worker, b, HandlerState(ADD, "", 1, b"jb")),
    )

    assert sorted(fates) == [Fate.BUSY, Fate.DONE]
