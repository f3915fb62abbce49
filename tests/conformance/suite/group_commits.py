"""Group commits of several workers: the fate of each run follows from its own worker's lease."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

from onward.core.lease import Fate, Row, Write, fate
from onward.core.run import RunState
from onward.errors import Rejected
from onward.model.pipelines import NewEvent, PipelineWrite
from onward.model.runs import Move
from onward.store import Attachments, Commit
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import (
    RELEASED,
    SUCCEEDED,
    a_message,
    a_record,
    a_run,
    an_effect,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from onward.model.commits import CommitOutcome
    from onward.model.runs import ClaimedRun
    from onward.store import Store
    from onward.store.database import Written
    from onward.store.writing.lane import Contended
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

    Send = Callable[[], Awaitable[Written | Contended]]

LOST, DONE = Fate.LOST, Fate.DONE


async def team(world: World, count: int = 2) -> list[Worker]:
    """Return workers that share the group commit of one store, in one lane."""
    store = await world.store()
    store.group_commit.lanes = store.group_commit.lanes[:1]  # so that they meet in one batch
    return [await world.worker(store) for _ in range(count)]


async def own(worker: Worker, *ids: str) -> list[ClaimedRun]:
    """Let a worker of a team own runs."""
    worker.store.writer(worker.name, worker.store.group_commit)
    return await worker.owning(*ids)


async def commit_all(
    store: Store, commits: Iterable[tuple[str, Commit]]
) -> list[CommitOutcome | BaseException]:
    """Commit together what workers have for their runs."""
    writes = [store.writer(worker, store.group_commit).commit(commit) for worker, commit in commits]
    return await asyncio.gather(*writes, return_exceptions=True)


def fates(outcomes: Iterable[CommitOutcome | BaseException]) -> list[Fate]:
    answers = []
    for outcome in outcomes:
        assert not isinstance(outcome, BaseException), outcome
        answers.append(outcome.fate)
    return answers


WRITES: dict[str, Callable[[ClaimedRun], Commit]] = {
    "a record": lambda run: Commit(run.uid, run.fence, (a_record(run, 1),)),
    "an end": lambda run: Commit(run.uid, run.fence, (a_record(run, 1),), SUCCEEDED),
    "a release": lambda run: Commit(run.uid, run.fence, (a_record(run, 1),), RELEASED),
    "a message": lambda run: Commit(
        run.uid, run.fence, (a_record(run, 1),), messages=(a_message("uid-t", f"of-{run.uid}"),)
    ),
    "a child": lambda run: Commit(
        run.uid, run.fence, (a_record(run, 1),), starts=(a_run(f"child-of-{run.id}"),)
    ),
    "an effect": lambda run: Commit(
        run.uid,
        run.fence,
        (a_record(run, 1),),
        attached=Attachments(effects=(an_effect(run, 1, "in_flight"),)),
    ),
}


@each(WRITES)
async def test_a_worker_that_lost_its_lease_loses_its_own_runs_alone(
    world: World, case: str
) -> None:
    one, other = await team(world)
    store = one.store
    await store.start(a_run("t")._replace(queue="elsewhere"))
    runs = [*await own(one, "a", "b"), *await own(other, "c", "d")]
    owners = [one, one, other, other]

    async def after_a_takeover(send: Send) -> Written | Contended:
        await other.leave()
        return await send()

    store.group_commit.through = after_a_takeover
    outcomes = await commit_all(
        store, [(owner.name, WRITES[case](run)) for owner, run in zip(owners, runs, strict=True)]
    )

    assert fates(outcomes) == [DONE, DONE, LOST, LOST]
    assert store.group_commit.lanes[0].batches == 1
    history = await store.history([run.uid for run in runs])
    assert [len(history[run.uid]) for run in runs] == [1, 1, 0, 0]
    assert [(await store.run(run.uid)).state for run in runs[2:]] == ["running", "running"]
    if case == "a message":
        assert (await store.run("uid-t")).inbox == 2


@each(WRITES)
async def test_a_batch_that_is_sent_again_is_recognised(world: World, case: str) -> None:
    one, other = await team(world)
    store = one.store
    await store.start(a_run("t")._replace(queue="elsewhere"))
    runs = [*await own(one, "a"), *await own(other, "b")]

    async def twice(send: Send) -> Written | Contended:
        await send()
        return await send()

    store.group_commit.through = twice
    outcomes = await commit_all(
        store,
        [(owner.name, WRITES[case](run)) for owner, run in zip((one, other), runs, strict=True)],
    )

    assert fates(outcomes) == [DONE, DONE]
    history = await store.history([run.uid for run in runs])
    assert [len(history[run.uid]) for run in runs] == [1, 1]
    if case == "a message":
        assert (await store.run("uid-t")).inbox == 2


async def test_a_refused_commit_harms_no_other_of_any_worker(world: World) -> None:
    workers = await team(world, 3)
    store = workers[0].store
    runs = {
        worker.name: await own(worker, *(f"{worker.name}-{n}" for n in range(3)))
        for worker in workers
    }
    await workers[1].leave()
    nowhere = Attachments(pipeline=PipelineWrite(published=(NewEvent("e", "t", "m", b""),)))
    bad = runs[workers[0].name][1]
    commits = [
        (name, Commit(run.uid, run.fence, attached=nowhere))
        if run is bad
        else (name, WRITES["an end"](run))
        for name, owned in runs.items()
        for run in owned
    ]

    outcomes = await commit_all(store, commits)

    assert isinstance(outcomes[1], Rejected)
    del outcomes[1]
    assert fates(outcomes) == [DONE] * 2 + [LOST] * 3 + [DONE] * 3
    assert (await workers[0].commit(bad, a_record(bad, 1))).fate is DONE


async def test_no_worker_writes_to_a_run_of_another_by_knowing_its_fence(world: World) -> None:
    one, other = await team(world)
    [mine] = await own(one, "a")
    [yours] = await own(other, "b")

    for make in WRITES.values():
        outcomes = await commit_all(
            one.store, [(one.name, make(yours)), (one.name, Commit(mine.uid, mine.fence))]
        )
        assert fates(outcomes) == [LOST, DONE]
    assert await one.store.history(["uid-b"]) == {"uid-b": []}
    assert (await one.store.run("uid-b")).state == "running"


async def test_an_old_and_a_new_owner_of_a_run_are_answered_each(world: World) -> None:
    one, other = await team(world)
    [before] = await own(one, "a")
    await own(other)
    assert await one.store.audit(one.name, ()) == ["uid-a"]
    [after] = await other.claim()

    outcomes = await commit_all(
        one.store,
        [(one.name, WRITES["a record"](before)), (other.name, WRITES["an end"](after))],
    )

    assert fates(outcomes) == [LOST, DONE]


async def test_a_worker_waits_for_its_own_commits_alone(world: World) -> None:
    one, other = await team(world)
    [mine], [yours] = await own(one, "a"), await own(other, "b")
    held = asyncio.Event()

    async def hold(send: Send) -> Written | Contended:
        await held.wait()
        return await send()

    store = one.store
    writers = [store.writer(worker.name, store.group_commit) for worker in (one, other)]
    await writers[0].commit(WRITES["a record"](mine))
    store.group_commit.through = hold
    waiting = asyncio.ensure_future(writers[1].commit(WRITES["a record"](yours)))
    await asyncio.sleep(0)

    await writers[0].close()
    assert [writer.is_idle for writer in writers] == [True, False]
    held.set()
    await writers[1].close()
    assert (await waiting).fate is DONE


async def test_batches_of_many_workers_have_the_fates_that_the_rule_says(world: World) -> None:
    draw = random.Random(14)
    workers = await team(world, 4)
    store = workers[0].store
    await store.start(a_run("t")._replace(queue="elsewhere"))
    for turn in range(12):
        runs = {
            run.uid: (worker, run)
            for worker in workers
            for run in await own(worker, *(f"{turn}-{worker.name}-{n}" for n in range(3)))
        }
        for worker, run in runs.values():
            await _disturb(draw, worker, run)
        commits = [
            (
                draw.choice(workers).name if draw.random() < 0.2 else worker.name,
                _a_write(draw, run),
            )
            for worker, run in runs.values()
        ]
        expected = [await _expected(store, *owned) for owned in commits]

        assert fates(await commit_all(store, commits)) == expected, f"turn {turn}"

        for worker in workers:
            await store.audit(worker.name, ())
            await store.take_lease(worker.name)
        for _, run in runs.values():
            for left in (run.id, f"child-of-{run.id}"):
                await store.stop(left, state="cancelled", reason="forced")


async def _disturb(draw: random.Random, worker: Worker, run: ClaimedRun) -> None:
    """Let something happen to a run or to its worker, sometimes."""
    match draw.randrange(10):
        case 0:
            await worker.leave()
        case 1:
            await worker.store.send(a_message(run.uid, "m"))
        case 2:
            await worker.store.stop(run.uid, state="cancelled", reason="forced", by_uid=True)
        case 3:
            await worker.commit(run, a_record(run, 1), move=Move("waiting"))


def _a_write(draw: random.Random, run: ClaimedRun) -> Commit:
    commit = WRITES[draw.choice(sorted(WRITES))](run)
    if draw.random() < 0.2:
        commit.fence += draw.choice((-1, 1))
    if draw.random() < 0.3:
        commit = Commit(run.uid, commit.fence, commit.records, Move("waiting", seen=0))
    return commit


async def _expected(store: Store, worker: str, commit: Commit) -> Fate:
    found = await store.run(commit.run)
    row = Row(RunState(found.state), found.fence, found.inbox, found.worker)
    wanted = Write(commit.fence, commit.move is not None, commit.seen, worker)
    rows = await store.read(lambda tx: tx.fetch("lease_of", worker=worker))
    return fate(row, wanted, leased=bool(rows))
