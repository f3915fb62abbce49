"""A worker that stood still past its lease finds its runs gone, and writes nothing."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

from onward import App
from onward.store import open_store
from tests.e2e.engine.gates import gate, gated
from tests.e2e.engine.outside import deeds, times_done
from tests.e2e.engine.supervisor import PATIENCE_SECONDS, SHORT_LEASE
from tests.e2e.engine.sweep import until
from tests.e2e.engine.witness import Witness

if TYPE_CHECKING:
    from tests.e2e.engine.supervisor import Crew


async def test_a_worker_that_wakes_while_another_is_at_the_same_step_does_not_write_its_result(
    crew: Crew,
) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        frozen = await crew.worker(*SHORT_LEASE)
        run = await app.start(gated, "gate")
        await until(lambda: len(deeds(crew.log)) == 2)
        frozen.send(signal.SIGSTOP)
        await crew.worker(*SHORT_LEASE)
        await until(lambda: len(deeds(crew.log)) == 3)
        witness = Witness(store)
        before = await witness.rows()

        gate(f"gate.{frozen.pid}").touch()
        frozen.send(signal.SIGCONT)

        await frozen.replaced()
        assert await witness.rows() == before
        gate("gate").touch()
        assert await run.result(timeout=PATIENCE_SECONDS) == [2, "gate", 4]
        await witness.look()


async def test_a_worker_stopped_past_its_lease_writes_nothing_when_it_goes_on(crew: Crew) -> None:
    async with open_store(crew.url) as store, App(crew.url) as app:
        frozen = await crew.worker(*SHORT_LEASE)
        run = await app.start(gated, "gate")
        await until(lambda: len(deeds(crew.log)) == 2)
        frozen.send(signal.SIGSTOP)
        gate("gate").touch()
        other = await crew.worker(*SHORT_LEASE)
        assert await run.result(timeout=PATIENCE_SECONDS) == [2, "gate", 4]
        witness = Witness(store)
        before = await witness.rows()

        frozen.send(signal.SIGCONT)

        await frozen.replaced()
        assert await witness.rows() == before
        await witness.look()
        done = times_done(crew.log, run.uid)
        assert sorted(done.values()) == [1, 1, 2], "only the step under way was done twice"

        await other.kill()
        again = await app.start(gated, "gate")
        assert await again.result(timeout=PATIENCE_SECONDS) == [2, "gate", 4]
        assert {deed.pid for deed in deeds(crew.log) if deed.run == again.uid} == {frozen.pid}
