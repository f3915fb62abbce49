"""SIGKILL at every named point: the run ends well, and nothing that was promised is lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.telemetry.failpoints import FAILPOINTS
from tests.e2e.engine.supervisor import Crew
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

if TYPE_CHECKING:
    from pathlib import Path

    from onward.testing.postgres import PostgresServer

# The first writes of a worker are its lease and its registration; these are for its run.
LATER = {"commit.before": 5, "commit.after": 5, "step.before": 3, "step.after": 3}


def test_every_failpoint_is_swept() -> None:
    swept = {*WORKER_POINTS, *EFFECT_POINTS, *CLIENT_POINTS, *MIGRATION_POINTS}
    assert swept == set(FAILPOINTS)


@pytest.mark.parametrize("point", WORKER_POINTS)
async def test_a_worker_that_dies_at(point: str, crew: Crew) -> None:
    await a_worker_dies(crew, point, LATER.get(point, 1))


@pytest.mark.parametrize("point", EFFECT_POINTS)
async def test_a_worker_that_sends_an_effect_and_dies_at(point: str, crew: Crew) -> None:
    await a_worker_dies_paying(crew, point)


@pytest.mark.parametrize("point", CLIENT_POINTS)
async def test_a_client_that_dies_at(point: str, crew: Crew) -> None:
    await a_client_dies(crew, point, hit=2)


@pytest.mark.parametrize("point", MIGRATION_POINTS)
async def test_a_process_that_dies_on_a_new_sqlite_file_at(
    point: str, log: Path, tmp_path: Path
) -> None:
    with Crew(str(tmp_path / "new.db"), log) as crew:
        await a_process_dies_migrating(crew, point)


@pytest.mark.parametrize("point", MIGRATION_POINTS)
async def test_a_process_that_dies_in_a_new_postgres_database_at(
    point: str, log: Path, postgres_server: PostgresServer
) -> None:
    with Crew(postgres_server.create_database(), log) as crew:
        await a_process_dies_migrating(crew, point)
