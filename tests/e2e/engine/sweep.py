"""A process dies at a named point of the code, and another one carries on."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

from onward import App
from onward.store import open_store
from tests.e2e.engine.gates import everything, gate, paying
from tests.e2e.engine.outside import deeds
from tests.e2e.engine.shapes import SIGNAL, go
from tests.e2e.engine.supervisor import PATIENCE_SECONDS, SHORT_LEASE
from tests.e2e.engine.witness import Witness

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.engine.supervisor import Crew, Process

SIDES = ("before", "after")
CLIENT_POINTS = tuple(f"{name}.{side}" for name in ("start", "send") for side in SIDES)
WORKER_POINTS = tuple(
    f"{name}.{side}"
    for name in ("claim", "commit", "deliver", "finish", "park", "release", "renew", "step")
    for side in SIDES
)
EFFECT_POINTS = tuple(f"effect.{place}" for place in ("before", "intended", "replied", "settled"))
MIGRATION_POINTS = tuple(f"migrate.{side}" for side in SIDES)

HELD = ("release", "renew")
"""What a worker passes only if it lives for a while, so its run must not end too soon."""

RESULT = [[2, 4], 12, SIGNAL, "gate", 8]


async def until(holds: Callable[[], bool]) -> None:
    """Wait until another process has made something true."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not holds():  # noqa: ASYNC110 - it is another process that we watch
            await asyncio.sleep(0.01)


async def a_worker_dies(crew: Crew, point: str, hit: int = 1) -> None:
    """Kill the worker of a run at a point; the run ends well, and nothing recorded is redone."""
    is_held = point.startswith(HELD)
    async with open_store(crew.url) as store, App(crew.url) as app:
        witness = Witness(store)
        run = await app.start(everything, "gate")
        await run.signal(go, SIGNAL)
        if not is_held:
            gate("gate").touch()

        victim = crew.launch(*SHORT_LEASE, "--drain", "0.1", failpoints=f"{point}=kill@{hit}")
        if point.startswith("release"):
            await until(lambda: any("pass_gate" in deed.identity for deed in deeds(crew.log)))
            victim.send(signal.SIGTERM)
        await killed(victim, point)
        await witness.look()
        recorded = {
            (row.identity, row.attempt) for row in await run.history() if row.state != "open"
        }
        gate("gate").touch()
        await crew.worker(*SHORT_LEASE)

        assert await run.result(timeout=PATIENCE_SECONDS) == RESULT
        await witness.look()
        again = {(d.identity, d.attempt) for d in deeds(crew.log) if d.pid != victim.pid}
        assert again & recorded == set(), "a recorded step was done again"


async def a_worker_dies_paying(crew: Crew, point: str, hit: int = 1) -> None:
    """Kill the worker of a run while it sends an effect; it is sent once all the same."""
    async with open_store(crew.url) as store, App(crew.url) as app:
        witness = Witness(store)
        run = await app.start(paying, 100)
        victim = crew.launch(*SHORT_LEASE, failpoints=f"{point}=kill@{hit}")
        await killed(victim, point)
        await witness.look()
        await crew.worker(*SHORT_LEASE)

        assert await run.result(timeout=PATIENCE_SECONDS) == 300
        await witness.look()
        receipts = [file.read_text() for file in crew.log.parent.glob(f"{crew.log.name}.paid.*")]
        assert receipts == ["100\n"], "it was sent again, or not at all"


async def a_client_dies(crew: Crew, point: str, hit: int = 1, count: int = 3) -> None:
    """Kill a client at a point; all that it was told to be done is done, and once."""
    client = crew.client(count, failpoints=f"{point}=kill@{hit}")
    told = await client.lines()
    await killed(client, point)
    async with open_store(crew.url) as store, App(crew.url) as app:
        witness = Witness(store)
        await witness.look()
        uids = {(await app.get(line.split()[1])).uid for line in told}
        inboxes = await store.look(uids)
        signalled = [line.split()[1] for line in told if line.startswith("signalled")]
        assert sum(map(len, inboxes.values())) >= len(signalled)

        await crew.worker(*SHORT_LEASE)
        for line in signalled:
            assert await result(app, line) == expected(line)
        # It comes back and asks for the same; what was started twice is there once.
        assert len(await crew.client(count).lines()) == 2 * count
        for n in range(count):
            assert await result(app, f"asked-{n}") == expected(f"asked-{n}")
        assert uids <= set(await witness.uids())
        assert len(await witness.uids()) == count
        await witness.look()


async def a_process_dies_migrating(crew: Crew, point: str) -> None:
    """Kill the first process that a database ever saw; the next one finds nothing half done."""
    await killed(crew.launch(failpoints=f"{point}=kill"), point)
    await crew.worker(*SHORT_LEASE)
    async with open_store(crew.url) as store, App(crew.url) as app:
        run = await app.start(everything, "gate")
        await run.signal(go, SIGNAL)
        gate("gate").touch()
        assert await run.result(timeout=PATIENCE_SECONDS) == RESULT
        await Witness(store).look()


async def killed(process: Process, point: str) -> None:
    status = await process.status()
    assert status == -signal.SIGKILL, f"{point} was not passed: exit status {status}"


async def result(app: App, run_id: str) -> object:
    return await (await app.get(run_id)).result(timeout=PATIENCE_SECONDS)


def expected(run_id: str) -> int:
    return int(run_id.removeprefix("asked-")) * 2 + SIGNAL
