"""The clock of the Postgres server is set, forward and back, while workers are at work.

The server runs under faketime (https://github.com/wolfcw/libfaketime): only its clock is wrong, and
everything is timed by the monotonic clock of this machine.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onward
from onward import App, Retry, step, workflow
from onward.store import open_store
from onward.store.invariants import check
from onward.testing.postgres import PostgresServer
from tests.e2e.engine.gates import gate, gated
from tests.e2e.engine.outside import VARIABLE, deeds
from tests.e2e.engine.sweep import until
from tests.unit.telemetry.builders import a_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward import Run
    from onward.store import Store
    from tests.e2e.engine.supervisor import Crew

NAP_SECONDS = 4.0
GAP_SECONDS = 2.0
LATE_SECONDS = 6.0
"""How late a wait may end on a busy machine."""

PATIENCE_SECONDS = 60.0
LIBRARY = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1")


def note_time(name: str) -> None:
    """Write down when something of this name was done."""
    with _times(os.environ[VARIABLE]).open("a") as times:
        times.write(json.dumps([name, time.monotonic()]) + "\n")


async def until_waiting(run: Run[Any]) -> None:
    from tests.kit.watching import until_state  # imports pytest, which no worker needs

    await until_state(run, "waiting")


def spans(log: Path, name: str) -> list[float]:
    """Return the seconds between the things that were done under a name."""
    lines = _times(log).read_text().splitlines() if _times(log).exists() else []
    at = [when for noted, when in map(json.loads, lines) if noted == name]
    return [round(later - sooner, 2) for sooner, later in pairwise(at)]


def _times(log: Path | str) -> Path:
    return Path(f"{log}.times")


@step
async def mark(name: str) -> None:
    note_time(name)


@workflow
async def naps(name: str) -> str:
    await mark(name)
    await onward.sleep(NAP_SECONDS)
    await mark(name)
    return name


@step(retry=Retry(attempts=3, delay=GAP_SECONDS, factor=1))
async def fail_twice(name: str) -> None:
    note_time(name)
    if len(spans(Path(os.environ[VARIABLE]), name)) < 2:
        raise ValueError("not yet")


@workflow
async def tries(name: str) -> str:
    await fail_twice(name)
    return name


class Clock:
    """The clock of a server, set by a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self.set_ahead(0)
        file.chmod(0o644)

    def set_ahead(self, seconds: int) -> None:
        """Set the clock to so many seconds after the real time, or before it."""
        self._file.write_text(f"{seconds:+d}\n")

    @contextmanager
    def server(self) -> Iterator[PostgresServer]:
        """Start a server that has this clock."""
        assert LIBRARY.exists(), "install faketime"
        fake = {
            "LD_PRELOAD": str(LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        with PostgresServer.start({}) as server:
            try:
                with server.down():  # nothing but the server itself starts under faketime
                    os.environ.update(fake)
            finally:
                for name in fake:
                    os.environ.pop(name, None)
            yield server


async def endure_steps(crew: Crew, clock: Clock, seconds: int) -> list[str]:
    """Set the clock wrong and right again, and check that no wait ends early or never.

    Returns:
        What was measured.
    """
    measured = []
    with a_log() as log:
        async with open_store(crew.url) as store, App(crew.url) as app:
            async with app.worker(workflows=[naps, tries]):
                await _timed(app, crew, "before")
                if seconds > 0:
                    measured.append(await _kept(app, crew, clock, seconds))
                for name, ahead in (("wrong", seconds), ("right again", 0)):
                    clock.set_ahead(ahead)
                    measured.append(await _timed(app, crew, name))
                if seconds > 0:
                    measured.append(await _retimed(store, app, crew, clock, seconds))
            measured.append(await _taken_over(app, crew, clock, seconds))
            assert await check(store) == []
        assert {"clock.back", "clock.forward"} <= set(log.events), f"no warning: {log.events}"
        assert "worker.replaced" not in log.events, "a worker lost its lease"
    return measured


async def _timed(app: App, crew: Crew, name: str) -> str:
    """Sleep and fail for a while, and check that neither took less time than it should."""
    runs = [
        await app.start(naps, f"nap {name}"),
        await app.start(tries.options(deadline="1m"), f"try {name}"),
    ]
    for run in runs:
        await run.result(timeout=PATIENCE_SECONDS)
    [nap] = spans(crew.log, f"nap {name}")
    gaps = spans(crew.log, f"try {name}")
    for wanted, took in ((NAP_SECONDS, nap), *((GAP_SECONDS, gap) for gap in gaps)):
        assert wanted <= took <= wanted + LATE_SECONDS, f"{name}: {took} s instead of {wanted} s"
    return f"{name}: {NAP_SECONDS:.0f} s took {nap} s, gaps of {GAP_SECONDS:.0f} s took {gaps}"


async def _kept(app: App, crew: Crew, clock: Clock, seconds: int) -> str:
    """Set the clock forward while a wait is on record, and check that it lasts as long."""
    run = await app.start(naps, "kept")
    await until_waiting(run)
    clock.set_ahead(seconds)
    await run.result(timeout=PATIENCE_SECONDS)
    [took] = spans(crew.log, "kept")
    assert NAP_SECONDS <= took <= NAP_SECONDS + LATE_SECONDS, f"on record: {took} s"
    return f"on record: {NAP_SECONDS:.0f} s took {took} s"


async def _retimed(store: Store, app: App, crew: Crew, clock: Clock, seconds: int) -> str:
    """Let a wait begin while the clock is ahead, set the clock right, and restart the wait."""
    clock.set_ahead(seconds)
    run = await app.start(naps, "frozen")
    await until_waiting(run)
    clock.set_ahead(0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while await store.retime() != [run.uid]:  # noqa: ASYNC110 - a worker may look at the run
            await asyncio.sleep(0.1)
    await run.result(timeout=PATIENCE_SECONDS)
    [took] = spans(crew.log, "frozen")
    assert NAP_SECONDS <= took <= NAP_SECONDS + LATE_SECONDS, f"{took} s"
    return f"restarted: {NAP_SECONDS:.0f} s took {took} s"


async def _taken_over(app: App, crew: Crew, clock: Clock, seconds: int) -> str:
    """Kill a worker while the clock is wrong, and set it right: another takes its run over."""
    clock.set_ahead(seconds)
    victim = await crew.worker()
    run = await app.start(gated, "gate")
    await until(lambda: len(deeds(crew.log)) == 2)
    await victim.kill()
    clock.set_ahead(0)
    gate("gate").touch()
    began = time.monotonic()
    await crew.worker()
    assert await run.result(timeout=PATIENCE_SECONDS) == [2, "gate", 4]
    return f"the run of a dead worker was done after {time.monotonic() - began:.0f} s"
