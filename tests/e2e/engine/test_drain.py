"""SIGTERM: a worker takes nothing new, lets its steps end, and gives back the rest."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from onward import App
from onward.store import open_store
from tests.e2e.engine.gates import gate, gated, many_gates, stuck_in_a_thread
from tests.e2e.engine.outside import deeds, times_done
from tests.e2e.engine.supervisor import PATIENCE_SECONDS
from tests.e2e.engine.sweep import until
from tests.e2e.engine.witness import Witness

if TYPE_CHECKING:
    from tests.e2e.engine.supervisor import Crew

LONG_LEASE = ("--lease", "3600")


async def test_a_step_that_runs_at_sigterm_comes_to_its_end_and_is_not_done_again(
    crew: Crew,
) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        leaving = await crew.worker(*LONG_LEASE)
        run = await app.start(many_gates, "gate")
        await until(lambda: len(deeds(crew.log)) == 1)

        leaving.send(signal.SIGTERM)
        assert await leaving.line() == "leaving"
        gate("gate-0").touch()

        assert await leaving.status() == 0
        assert [record.state for record in await run.history()] == ["succeeded"]
        assert (await store.run(run.uid)).state == "ready"
        await Witness(store).look()
        for n in (1, 2):
            gate(f"gate-{n}").touch()
        await crew.worker(*LONG_LEASE)
        assert await run.result(timeout=PATIENCE_SECONDS) == ["gate-0", "gate-1", "gate-2"]
        assert set(times_done(crew.log, run.uid).values()) == {1}


async def test_a_step_that_takes_too_long_is_given_up_and_taken_by_another_worker_at_once(
    crew: Crew,
) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        leaving = await crew.worker(*LONG_LEASE, "--drain", "0.2")
        run = await app.start(gated, "gate")
        await until(lambda: len(deeds(crew.log)) == 2)
        await crew.worker(*LONG_LEASE)

        leaving.send(signal.SIGTERM)
        assert await leaving.status() == 0
        await until(lambda: len(deeds(crew.log)) == 3)  # long before its lease would have ended

        gate("gate").touch()
        assert await run.result(timeout=PATIENCE_SECONDS) == [2, "gate", 4]
        assert sorted(times_done(crew.log, run.uid).values()) == [1, 1, 2]
        assert (await store.run(run.uid)).crashes == 0
        await Witness(store).look()


async def test_a_worker_that_leaves_claims_nothing_more(crew: Crew) -> None:
    async with App(crew.url) as app:
        # With its only slot in use, no claim can be under way when the signal comes.
        leaving = await crew.worker(*LONG_LEASE, "--slots", "1")
        held = await app.start(gated, "gate")
        await until(lambda: len(deeds(crew.log)) == 2)
        leaving.send(signal.SIGTERM)
        assert await leaving.line() == "leaving"
        late = await app.start(gated, "gate")

        gate("gate").touch()
        assert await leaving.status() == 0

        assert await late.state() == "ready"
        assert times_done(crew.log, late.uid) == {}
        assert await held.state() in ("ready", "succeeded")


async def test_a_thread_that_is_stuck_does_not_keep_its_process_from_leaving(crew: Crew) -> None:
    async with App(crew.url) as app:
        leaving = await crew.worker(*LONG_LEASE, "--drain", "0.2")
        run = await app.start(stuck_in_a_thread)
        await until(lambda: len(deeds(crew.log)) == 1)

        leaving.send(signal.SIGTERM)

        assert await leaving.status() == 0
        assert await run.state() == "ready"
