"""Versions: code that does not fit parks a run, other code gets it going, and some nobody takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import MINUTE
from onward.core.lease import LEASE
from onward.model.runs import Move
from onward.model.workers import WorkerOffer
from onward.store.hints import queue_subject, run_subject
from tests.conformance.suite.hinting import hears
from tests.conformance.suite.samples import SUCCEEDED, a_run

if TYPE_CHECKING:
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World


def parked_by(code: str) -> Move:
    return Move("paused", "divergence", parked_by=code, error=b"jdiff")


async def test_a_parked_run_keeps_each_code_that_parked_it_once(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    seen = []
    for code in ("abc", "ab", "abc", "c"):
        await worker.commit(run, move=parked_by(code))
        seen.append((await worker.store.run(run.uid)).parked_by)
        await world.sql("UPDATE onward_run SET state = 'ready', reason = NULL, due = 0")
        [run] = await worker.claim()

    assert seen == ["abc", "abc ab", "abc ab", "abc ab c"]


async def test_other_code_gets_a_parked_run_going(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=parked_by("old"))
    world.clock.advance(MINUTE)

    assert await worker.store.unpark({"greet": "new"}) == 1

    row = await worker.store.run(run.uid)
    assert (row.state, row.reason, row.due) == ("ready", None, world.clock.wall())
    assert row.parked_by == "old"
    assert await worker.store.unpark({"greet": "new"}) == 0


async def test_code_that_parked_a_run_leaves_it_parked(world: World) -> None:
    worker = await world.worker()
    runs = await worker.owning("one", "two")
    await worker.commit(runs[0], move=parked_by("code"))
    await worker.commit(runs[1], move=parked_by("code-2"))

    assert await worker.store.unpark({"greet": "code"}) == 1

    rows = [(await worker.store.run(run.uid)).state for run in runs]
    assert rows == ["paused", "ready"]


async def test_only_diverged_runs_of_a_known_workflow_are_unparked(world: World) -> None:
    worker = await world.worker()
    asked, waiting = await worker.owning("asked", "waiting")
    await worker.commit(asked, move=Move("paused", "approval"))
    await worker.commit(waiting, move=Move("waiting", due_in=MINUTE))
    await worker.store.start(a_run("other")._replace(name="charge"))
    [other] = await worker.claim(names=("charge",))
    await worker.commit(other, move=parked_by("old"))

    assert await worker.store.unpark({"greet": "new", "unknown": "new"}) == 0
    assert await worker.store.unpark({}) == 0
    assert (await worker.store.run(other.uid)).state == "paused"
    assert await worker.store.unpark({"charge": "new"}) == 1


async def test_a_parked_run_that_the_worker_would_not_take_stays_parked(world: World) -> None:
    worker = await world.worker()
    runs = await worker.given(a_run("here"), a_run("pinned"))
    for run in runs:
        await worker.commit(run, move=parked_by("old"))
    await world.sql("UPDATE onward_run SET version = 'v1' WHERE id = 'pinned'")
    server = WorkerOffer(frozenset({"default"}), frozenset({"greet"}), "v2", frozenset())

    assert await worker.store.unpark({"greet": "new"}, server) == 1

    assert [(await worker.store.run(run.uid)).state for run in runs] == ["ready", "paused"]


async def test_an_ear_hears_that_a_run_was_unparked(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=parked_by("old"))

    with worker.store.subscribe([queue_subject("default"), run_subject(run.uid)]) as subscription:
        await worker.store.unpark({"greet": "new"})
        assert await hears(subscription, queue_subject("default"), run_subject(run.uid))


# --- runs that nobody takes -----------------------------------------------------------------------


async def register(
    worker: Worker,
    *,
    queues: str = "default",
    names: str = "greet",
    tags: str = "",
    version: str | None = None,
) -> None:
    await worker.store.register(
        {
            "worker": worker.name,
            "host": "here",
            "pid": 7,
            "version": version,
            "queues": queues,
            "tags": tags,
            "names": names,
            "schedules": "",
        }
    )


async def unserved(worker: Worker, limit: int = 100) -> dict[str, str]:
    return {found.run.id: found.why for found in await worker.store.unserved(limit)}


async def test_a_run_that_no_worker_can_take_is_listed_with_the_reason(world: World) -> None:
    worker, other = await world.worker(), await world.worker()
    await register(worker, queues="default\nslow lane", names="greet\ncharge", tags="eu\ngpu")
    await register(other, queues="default", names="greet\nship", version="v1")
    for run in (
        a_run("plain"),
        a_run("slow")._replace(queue="slow lane", name="charge", tags="us gpu"),
        a_run("pinned")._replace(version="v1"),
        a_run("queue")._replace(queue="nowhere"),
        a_run("name")._replace(name="unknown"),
        a_run("elsewhere")._replace(name="ship", queue="slow lane"),
        a_run("version")._replace(version="v2"),
        a_run("tags")._replace(tags="us asia"),
        a_run("keyed")._replace(tags="us", flow_key="k"),
    ):
        await worker.store.start(run)

    assert await unserved(worker) == {
        "queue": "no worker serves queue 'nowhere'",
        "name": "no worker knows workflow 'unknown'",
        "elsewhere": "no worker on queue 'slow lane' knows workflow 'ship'; "
        f"worker {other.name} on queue 'default' does",
        "version": "no worker has version 'v2'",
        "tags": "no worker has one of the tags 'us', 'asia'",
        "keyed": "no worker has one of the tags 'us'",
    }


async def test_only_runs_that_could_go_on_are_unserved(world: World) -> None:
    worker = await world.worker()
    over, parked, paused, _ = await worker.owning("over", "parked", "paused", "running")
    await worker.commit(over, move=SUCCEEDED)
    await worker.commit(parked, move=Move("waiting", due_in=MINUTE))
    await worker.commit(paused, move=Move("paused", "operator"))
    assert await unserved(worker) == {}

    world.clock.advance(MINUTE)
    assert await unserved(worker) == {"parked": "no worker serves queue 'default'"}


async def test_a_worker_serves_while_its_lease_lives(world: World) -> None:
    late = await world.worker(lease=LEASE)
    await register(late)
    await late.store.start(a_run("a"))
    assert await unserved(late) == {}

    world.clock.advance(LEASE + 1)
    assert await unserved(late) == {"a": "no worker serves queue 'default'"}


async def test_no_more_runs_are_listed_than_asked_for(world: World) -> None:
    worker = await world.worker()
    for number in range(5):
        await worker.store.start(a_run(str(number))._replace(queue=f"queue-{number % 2}"))

    assert len(await unserved(worker, 4)) == 4
    assert len(await unserved(worker, 1)) == 1


# --- progress -------------------------------------------------------------------------------------


async def test_progress_is_kept_for_others_to_see(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    for value in (b"j1", b"j2"):
        assert await worker.store.keep_progress(worker.name, run.uid, run.fence, value)

    assert (await worker.store.end(run.uid)).progress == b"j2"
    await worker.commit(run, move=SUCCEEDED)
    assert [end.progress for end in await worker.store.ends([run.uid])] == [b"j2"]


async def test_progress_may_come_when_the_run_has_parked(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=Move("waiting", due_in=MINUTE))

    assert await worker.store.keep_progress(worker.name, run.uid, run.fence, b"j1")
    assert (await worker.store.end(run.uid)).progress == b"j1"


async def test_the_end_of_a_run_has_its_last_progress(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.store.keep_progress(worker.name, run.uid, run.fence, b"j1")
    await worker.commit(run, move=SUCCEEDED._replace(progress=b"j3"))

    assert not await worker.store.keep_progress(worker.name, run.uid, run.fence, b"j2")
    assert (await worker.store.end(run.uid)).progress == b"j3"


async def test_progress_of_a_run_that_is_not_ones_own_is_not_kept(world: World) -> None:
    worker, other = await world.worker(), await world.worker()
    run, lost = await worker.owning("a", "lost")

    for who, uid, fence in (
        (worker.name, run.uid, run.fence + 1),
        (worker.name, run.uid, run.fence - 1),
        (other.name, run.uid, run.fence),
        (worker.name, "nobody", 1),
    ):
        assert not await worker.store.keep_progress(who, uid, fence, b"j1")
    await worker.leave()
    assert not await worker.store.keep_progress(worker.name, lost.uid, lost.fence, b"j1")
    for uid in (run.uid, lost.uid):
        assert (await other.store.end(uid)).progress is None
