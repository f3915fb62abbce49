"""The long crash campaign: the scenarios of `tests/e2e` with big counts.

    python -m tools.crash_campaign                          # all of it, on both stores
    python -m tools.crash_campaign --runs 5000 --kills 2000 --seed 7 --only kills --store sqlite
    python -m tools.crash_campaign --only effects --kills 500
    python -m tools.crash_campaign --only soak --seconds 300 --store postgres
    python -m tools.crash_campaign --only forks --store sqlite
    python -m tools.crash_campaign --only bulk --bulk 10000 --store sqlite
    python -m tools.crash_campaign --only limits --runs 500 --kills 100
    python -m tools.crash_campaign --only pipelines --runs 400 --kills 100
    python -m tools.crash_campaign --only outages --outages 10 --kinds away-5 login-refused
    python -m tools.crash_campaign --only clocks            # needs the library of Debian's faketime
    python -m tools.crash_campaign --only remote --runs 500 --kills 200 --store sqlite
    python -m tools.crash_campaign --only restarts --failovers 20

Outages and clock steps of Postgres, remote workers and restarts of servers are long: they are part
of it only if asked for.

It stops at the first thing that is not as promised, and names the seed or the point.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from onward.testing.postgres import PostgresServer
from tests.e2e.effects.kills import PROMISES, die_at_random_points
from tests.e2e.effects.sink import Sink
from tests.e2e.engine.bulks import retry_in_bulk
from tests.e2e.engine.clocks import Clock, endure_steps
from tests.e2e.engine.kills import kill_at_random
from tests.e2e.engine.narrows import kill_under_limits
from tests.e2e.engine.outages import KINDS, endure_outages
from tests.e2e.engine.pools import a_worker_that_forked_dies
from tests.e2e.engine.soak import soak
from tests.e2e.engine.sweep import (
    CLIENT_POINTS,
    EFFECT_POINTS,
    MIGRATION_POINTS,
    WORKER_POINTS,
    a_client_dies,
    a_process_dies_migrating,
    a_worker_dies,
    a_worker_dies_paying,
)
from tests.e2e.pipelines.deaths import die_around_commits
from tests.e2e.pipelines.kills import LEASE_SECONDS, kill_pipelines
from tools.campaign_ground import Ground, telling
from tools.remote_campaign import remote, restarts

if TYPE_CHECKING:
    from collections.abc import Callable

PARTS = ("sweep", "kills", "effects", "soak", "forks", "bulk", "limits", "pipelines")
APART = ("outages", "clocks", "remote", "restarts")

# The run of the sweep passes these once; the others it passes again and again.
ONCE = ("effect", "finish", "park", "release")


def sweep(ground: Ground, hits: int) -> None:
    """Kill a process at every point, at its first passes each."""
    count = 0
    began = time.monotonic()
    for point in MIGRATION_POINTS:
        with ground.crew() as crew:
            asyncio.run(a_process_dies_migrating(crew, point))
            count += 1
    deaths = (
        (WORKER_POINTS, a_worker_dies),
        (EFFECT_POINTS, a_worker_dies_paying),
        (CLIENT_POINTS, a_client_dies),
    )
    for points, dies in deaths:
        for point in points:
            for hit in range(1, 2 if point.startswith(ONCE) else hits + 1):
                with ground.crew() as crew, telling(f"{ground.name}: {point}, pass {hit}"):
                    asyncio.run(dies(crew, point, hit))
                    count += 1
    seconds = time.monotonic() - began
    print(f"{ground.name}: {count} kills at named points in {seconds:.0f} s", flush=True)


def kills(ground: Ground, runs: int, number: int, seed: int) -> None:
    """Kill workers at random while runs of every shape come in."""
    began = time.monotonic()
    with ground.crew() as crew, telling(f"{ground.name}: seed {seed}"):
        tally = asyncio.run(kill_at_random(crew, runs, number, seed))
    seconds = time.monotonic() - began
    print(f"{ground.name}: {tally} with seed {seed} in {seconds:.0f} s", flush=True)


def effects(ground: Ground, number: int, seed: int) -> None:
    """Kill workers around their sends, a share for each kind of effect."""
    for place, kind in enumerate(PROMISES):
        share = number // len(PROMISES) + (place < number % len(PROMISES))
        began = time.monotonic()
        with (
            ground.crew() as crew,
            Sink(crew.log.with_name("sink.ledger")) as sink,
            telling(f"{ground.name}: {kind} effects, seed {seed}"),
        ):
            tally = asyncio.run(die_at_random_points(crew, sink, kind, share, seed))
        seconds = time.monotonic() - began
        print(f"{ground.name}: {tally} with seed {seed} in {seconds:.0f} s", flush=True)


def soaked(ground: Ground, seconds: float, between: float) -> None:
    """Run code that never changes, cold, and see that none of it parks as divergent."""
    with ground.crew() as crew, telling(f"{ground.name}: soak"):
        found = asyncio.run(soak(crew, seconds, between))
        assert not found.diverged, (
            f"{len(found.diverged)} of {found.runs} runs parked: {found.diverged[0]}"
        )
    print(f"{ground.name}: {found} in {seconds:.0f} s", flush=True)


def forks(ground: Ground, number: int, seed: int) -> None:
    """Kill workers that have forked."""
    began = time.monotonic()
    for nth in range(number):
        with ground.crew() as crew, telling(f"{ground.name}: fork {nth}, seed {seed + nth}"):
            asyncio.run(a_worker_that_forked_dies(crew, seed + nth))
    seconds = time.monotonic() - began
    print(f"{ground.name}: {number} kills of workers that forked in {seconds:.0f} s", flush=True)


def bulk(ground: Ground, runs: int) -> None:
    """Retry runs in bulk, and kill the worker twice on the way."""
    logging.getLogger("onward").setLevel(logging.CRITICAL)  # each of the runs fails
    began = time.monotonic()
    with ground.crew() as crew, telling(f"{ground.name}: bulk retry of {runs} runs"):
        tally = asyncio.run(retry_in_bulk(crew, runs, kills=2))
    seconds = time.monotonic() - began
    print(f"{ground.name}: {tally} in {seconds:.0f} s", flush=True)


def limits(ground: Ground, runs: int, number: int, seed: int) -> None:
    """Kill workers at random while runs under limits come in."""
    began = time.monotonic()
    with ground.crew() as crew, telling(f"{ground.name}: limits, seed {seed}"):
        tally = asyncio.run(kill_under_limits(crew, runs, number, seed))
    seconds = time.monotonic() - began
    print(f"{ground.name}: {tally} with seed {seed} in {seconds:.0f} s", flush=True)


def pipelines(ground: Ground, events: int, number: int, seed: int) -> None:
    """Kill workers around the commits of a consumer, and at random while events are handled."""
    began = time.monotonic()
    with (
        ground.crew() as crew,
        Sink(crew.log.with_name("sink.ledger")) as sink,
        telling(f"{ground.name}: pipelines, around commits"),
    ):
        asyncio.run(die_around_commits(crew, sink))
    with (
        ground.crew() as crew,
        Sink(crew.log.with_name("sink.ledger")) as sink,
        telling(f"{ground.name}: pipelines, seed {seed}"),
    ):
        tally = asyncio.run(kill_pipelines(crew, sink, events, number, seed))
        assert tally.slowest_takeover < 2 * LEASE_SECONDS, tally
    seconds = time.monotonic() - began
    print(f"{ground.name}: {tally} with seed {seed} in {seconds:.0f} s", flush=True)


def outages(names: list[str], number: int) -> None:
    """Let workers live through outages of Postgres that are shorter and longer than a lease."""
    for name in names:
        began = time.monotonic()
        with (
            PostgresServer.start({}) as server,
            Ground("postgres", server).crew() as crew,
            telling(f"outage {name}"),
        ):
            tally = asyncio.run(endure_outages(server, crew, KINDS[name], number))
        seconds = time.monotonic() - began
        print(f"postgres, outage {name}: {tally} in {seconds:.0f} s", flush=True)


def clocks() -> None:
    """Let the clock of Postgres be wrong by an hour and by a day, and right again."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)  # the server may run under another account
        clock = Clock(Path(folder, "clock"))
        with clock.server() as server:
            for seconds in (-3600, 3600, 86_400):
                with (
                    Ground("postgres", server).crew() as crew,
                    telling(f"clock {seconds:+d} s"),
                ):
                    for line in asyncio.run(endure_steps(crew, clock, seconds)):
                        print(f"postgres, clock {seconds:+d} s: {line}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--hits", type=int, default=3, help="passes of a point to die at")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--seconds", type=float, default=60, help="how long the soak lasts")
    parser.add_argument("--between", type=float, default=10, help="seconds between its kills")
    parser.add_argument("--forks", type=int, default=10, help="workers to kill that have forked")
    parser.add_argument("--bulk", type=int, default=1000, help="runs to retry in bulk")
    parser.add_argument("--outages", type=int, default=10, help="outages of each kind")
    parser.add_argument("--failovers", type=int, default=20, help="servers to kill one by one")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--only", choices=[*PARTS, *APART])
    parser.add_argument("--store", choices=["sqlite", "postgres"])
    wanted = parser.parse_args()
    parts: dict[str, Callable[[Ground], None]] = {
        "sweep": lambda ground: sweep(ground, wanted.hits),
        "kills": lambda ground: kills(ground, wanted.runs, wanted.kills, wanted.seed),
        "effects": lambda ground: effects(ground, wanted.kills, wanted.seed),
        "soak": lambda ground: soaked(ground, wanted.seconds, wanted.between),
        "forks": lambda ground: forks(ground, wanted.forks, wanted.seed),
        "bulk": lambda ground: bulk(ground, wanted.bulk),
        "limits": lambda ground: limits(ground, wanted.runs, wanted.kills, wanted.seed),
        "pipelines": lambda ground: pipelines(ground, wanted.runs, wanted.kills, wanted.seed),
        "remote": lambda ground: remote(ground, wanted.runs, wanted.kills, wanted.seed),
        "restarts": lambda ground: restarts(ground, wanted.failovers),
    }
    if wanted.only == "outages":
        outages(wanted.kinds, wanted.outages)
        return
    if wanted.only == "clocks":
        clocks()
        return
    with PostgresServer.start() as server:
        for ground in (Ground("sqlite", None), Ground("postgres", server)):
            for name, part in parts.items():
                is_wanted = name in PARTS if wanted.only is None else name == wanted.only
                if is_wanted and wanted.store in (None, ground.name):
                    part(ground)


if __name__ == "__main__":
    main()
