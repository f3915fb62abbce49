"""`onward prune`: deletes or counts old runs, by flags and by the setting `retention`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward import App, workflow
from onward.core.instant import DAY
from onward.system.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Ask


class Earlier(SystemClock):
    """The clock of twenty days ago."""

    def wall(self) -> int:
        return super().wall() - 20 * DAY


@workflow
async def hello(name: str) -> str:
    if name == "nobody":
        raise ValueError(name)
    return f"Hello, {name}!"


@pytest.fixture
def database(tmp_path: Path) -> str:
    """A file with runs that ended twenty days ago: two succeeded and one failed."""
    path = str(tmp_path / "old.db")

    async def write() -> None:
        app = App(path, clock=Earlier(), retention=None)
        async with app, app.worker(workflows=[hello]):
            runs = [
                await app.start(hello.options(id=name), name) for name in ("ada", "bob", "nobody")
            ]
            await asyncio.gather(*(run.result() for run in runs), return_exceptions=True)

    asyncio.run(write())
    return path


def left(ask: Ask, database: str) -> list[str]:
    listed = ask("runs", "list", "--db", database, "--json").things
    return sorted(run["id"] for run in listed)


def test_without_flags_runs_are_kept_as_long_as_by_default(ask: Ask, database: str) -> None:
    answer = ask("prune", "--db", database)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == (
        "2 runs were deleted. Rows by table: onward_run 2, onward_run_data 2, onward_worker 1.\n"
    )
    assert left(ask, database) == ["nobody"]
    assert ask("prune", "--db", database).out == "No runs were deleted.\n"


def test_a_dry_run_only_counts(ask: Ask, database: str) -> None:
    answer = ask("prune", "--db", database, "--older-than", "10d", "--dry-run", "--json").thing
    assert answer == {
        "dry_run": True, "runs": 3,
        "rows": {
            "onward_run": 3, "onward_run_data": 3, "onward_record": 0, "onward_inbox": 0,
            "onward_effect": 0, "onward_cause": 0, "onward_slot": 0, "onward_cache": 0,
            "onward_worker": 1, "onward_tombstone": 0, "onward_flow": 0,
        },
    }  # fmt: skip
    assert left(ask, database) == ["ada", "bob", "nobody"]


def test_runs_of_one_state_are_deleted(ask: Ask, database: str) -> None:
    given = ("prune", "--db", database, "--older-than", "10d", "--state", "failed", "--json")
    assert ask(*given).thing["runs"] == 1
    assert left(ask, database) == ["ada", "bob"]


def test_younger_runs_are_kept(ask: Ask, database: str) -> None:
    assert ask("prune", "--db", database, "--older-than", "21d", "--json").thing["runs"] == 0


@pytest.mark.parametrize("text", ["succeeded=30d failed=1d", "succeeded=off,failed=1d"])
def test_the_environment_says_how_long_runs_are_kept(ask: Ask, database: str, text: str) -> None:
    assert ask("prune", "--db", database, "--json", ONWARD_RETENTION=text).thing["runs"] == 1
    assert left(ask, database) == ["ada", "bob"]


def test_a_file_says_how_long_runs_are_kept(ask: Ask, database: str, tmp_path: Path) -> None:
    (tmp_path / "onward.toml").write_text('retention = "1d"')
    assert ask("prune", "--db", database, "--json").thing["runs"] == 3


def test_if_retention_is_off_an_age_must_be_given(ask: Ask, database: str) -> None:
    answer = ask("prune", "--db", database, ONWARD_RETENTION="off")
    assert answer.status == 2
    assert "To delete runs anyway, pass --older-than" in answer.err
    assert ask("prune", "--db", database, "--older-than", "1d", ONWARD_RETENTION="off").status == 0


@pytest.mark.parametrize("text", ["soon", "done=1d", "failed=soon"])
def test_a_setting_that_cannot_be_understood_is_refused(ask: Ask, database: str, text: str) -> None:
    assert ask("prune", "--db", database, ONWARD_RETENTION=text).status == 2
    assert len(left(ask, database)) == 3
