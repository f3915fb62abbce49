"""Remote workers, servers and connections that fail cost time and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.remote.campaign import Plan, play
from tests.e2e.remote.restarts import lose_servers, restart_server

if TYPE_CHECKING:
    from tests.e2e.effects.sink import Sink
    from tests.e2e.engine.supervisor import Crew

BUSY_SECONDS = 30.0
"""How soon runs continue at the latest on a busy machine; the campaign expects it sooner."""

# The campaign runs everything on both databases; these tests take turns.
on_sqlite = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
on_postgres = pytest.mark.parametrize("url", ["postgres"], indirect=True)


@on_sqlite
async def test_runs_end_correctly_while_workers_servers_and_connections_fail(
    crew: Crew, sink: Sink
) -> None:
    plan = Plan(runs=14, worker_kills=2, server_kills=1, worker_stops=1, network_faults=4)

    tally = await play(crew, sink, plan, seed=1)

    assert tally.runs >= 14
    assert tally.faults.keys() >= {"kill_worker", "kill_server", "stop_worker", "cut", "delay"}


@on_postgres
async def test_workers_continue_their_runs_through_another_server(crew: Crew) -> None:
    await lose_servers(crew, kills=2, within=BUSY_SECONDS)


@on_sqlite
async def test_workers_wait_for_a_single_server_to_come_back(crew: Crew) -> None:
    await restart_server(crew, seconds=1, within=BUSY_SECONDS)
