"""SIGKILL in the middle of families of runs and of maps: nothing that is recorded is repeated."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections import Counter
from typing import TYPE_CHECKING, Any

from onward import App
from onward.store import open_store
from tests.e2e.engine.kinfolk import RUNS, by_name, comes_to, household, long_list
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.supervisor import PATIENCE_SECONDS, SHORT_LEASE
from tests.e2e.engine.sweep import killed
from tests.e2e.engine.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward import Run
    from onward.store import Store
    from tests.e2e.engine.supervisor import Crew

MAX_LIVES = 12


async def recorded(store: Store, witness: Witness) -> set[tuple[str, str, int]]:
    """Return every call that is known to be over, in all runs."""
    histories = await store.history(await witness.uids())
    rows = itertools.chain.from_iterable(histories.values())
    return {(row.run, row.identity, row.attempt) for row in rows if row.state != "open"}


async def die_again_and_again(
    crew: Crew, store: Store, run: Run[Any], point: str, times: Sequence[int]
) -> int:
    """Let one worker after another die at a point, until the run is over; count the dead."""
    witness = Witness(store)
    for life, hit in zip(range(MAX_LIVES), itertools.cycle(times), strict=False):
        before = await recorded(store, witness)
        worker = crew.launch(*SHORT_LEASE, "--slots", "2", failpoints=f"{point}=kill@{hit}")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (worker.is_over or await run.state() == "succeeded"):  # noqa: ASYNC110 - see
                await asyncio.sleep(0.02)
        again = {(d.run, d.identity, d.attempt) for d in deeds(crew.log) if d.pid == worker.pid}
        assert again & before == set(), "what was recorded was done again"
        await witness.look()
        if await run.state() == "succeeded":
            return life
        assert await worker.status() == -signal.SIGKILL
    raise AssertionError("it never came to an end")


async def test_a_family_whose_workers_are_killed_repeats_no_finished_child_step_or_sleep(
    crew: Crew,
) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        run = await app.start(household, 4)

        deaths = await die_again_and_again(crew, store, run, "commit.after", (30, 45, 35))

        assert await run.result(timeout=1) == comes_to(4)
        assert deaths >= 2, "hardly anybody was killed"
        rows = [await store.run(uid) for uid in await Witness(store).uids()]
        calls = Counter((row.parent, row.parent_identity) for row in rows)
        assert set(calls.values()) == {1}, "a call has two runs"
        assert len(rows) == RUNS
        assert {row.state for row in rows} == {"succeeded"}


async def test_a_map_whose_workers_are_killed_repeats_no_finished_item(crew: Crew) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        run = await app.start(long_list, 80)

        deaths = await die_again_and_again(crew, store, run, "commit.before", (14, 11, 18))

        assert await run.result(timeout=1) == 25 * sum(range(80))
        assert deaths >= 2, "hardly anybody was killed"
        done = Counter((deed.run, deed.identity) for deed in deeds(crew.log))
        assert len(done) == 80
        assert len(await store.children(run.uid)) == 4


async def test_a_worker_that_dies_when_it_has_started_a_child_by_its_id_finds_it_again(
    crew: Crew,
) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        run = await app.start(by_name, 3)
        await killed(crew.launch(*SHORT_LEASE, failpoints="start.after=kill"), "start.after")
        child = await app.get("the only one")

        await crew.worker(*SHORT_LEASE)

        assert await run.result(timeout=PATIENCE_SECONDS) == 100
        assert [row.uid for row in await store.children(run.uid)] == [child.uid]
        await Witness(store).look()
