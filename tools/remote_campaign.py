"""The parts of the crash campaign with remote workers: random faults, and restarts of servers."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from tests.e2e.effects.sink import Sink
from tests.e2e.remote.campaign import Plan, play
from tests.e2e.remote.restarts import lose_servers, restart_server
from tools.campaign_ground import telling

if TYPE_CHECKING:
    from tools.campaign_ground import Ground

RESTARTS_SECONDS = (10, 60)
"""How long the only server is away: less and more than a lease."""


def remote(ground: Ground, runs: int, number: int, seed: int) -> None:
    """Kill remote workers and servers, and break their connections, while runs come in.

    For each kill of a worker there are half a kill of a server, a tenth of a stop past the lease,
    and one and a half faults of the network.
    """
    logging.getLogger("onward").setLevel(logging.ERROR)  # runs wait for workers that were killed
    began = time.monotonic()
    plan = Plan(runs, number, number // 2, number // 10, number * 3 // 2)
    with (
        ground.crew() as crew,
        Sink(crew.log.with_name("sink.ledger")) as sink,
        telling(f"{ground.name}: remote workers, seed {seed}"),
    ):
        tally = asyncio.run(play(crew, sink, plan, seed))
    seconds = time.monotonic() - began
    print(f"{ground.name}: {tally} with seed {seed} in {seconds:.0f} s", flush=True)


def restarts(ground: Ground, number: int) -> None:
    """Kill one of two servers so many times, and restart a single one."""
    with ground.crew() as crew, telling(f"{ground.name}: one of two servers killed"):
        tally = asyncio.run(lose_servers(crew, number))
    print(f"{ground.name}, one of two servers killed: {tally}", flush=True)
    for seconds in RESTARTS_SECONDS:
        with ground.crew() as crew, telling(f"{ground.name}: server away for {seconds} s"):
            tally = asyncio.run(restart_server(crew, seconds))
        print(f"{ground.name}, server away for {seconds} s: {tally}", flush=True)
