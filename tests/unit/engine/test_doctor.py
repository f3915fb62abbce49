"""Sizes that `onward doctor` reports, and what databases say of theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.core.instant import MINUTE
from onward.engine.health_findings import Thresholds, examine_settings, examine_sizes
from onward.model.health import StoreHealth, TableHealth
from onward.store.opening import open_store

if TYPE_CHECKING:
    from pathlib import Path

LIMITS = Thresholds(transaction=MINUTE, wal=100, free=100, dead=100)


@pytest.mark.parametrize(
    ("health", "kinds"),
    [
        (StoreHealth({}, 1000), []),
        (StoreHealth({}, 1000, wal=101), ["wal"]),
        (StoreHealth({}, 1000, free=501), ["free_space"]),
        (StoreHealth({}, 1000, free=499), []),
        (StoreHealth({}, 1000, tables=(TableHealth("onward_run", 10, 101, 0),)), ["dead_rows"]),
        (StoreHealth({}, 1000, tables=(TableHealth("onward_run", 500, 101, 0),)), []),
        (StoreHealth({}, 1000, oldest_transaction=2 * MINUTE), ["transaction"]),
    ],
)
def test_sizes_beyond_their_thresholds_are_reported(health: StoreHealth, kinds: list[str]) -> None:
    assert [finding.kind for finding in examine_sizes(health, LIMITS)] == kinds


def test_settings_that_are_on_are_no_finding() -> None:
    on = {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "remote_write"}
    assert list(examine_settings(StoreHealth(on, 1000))) == []
    [finding] = examine_settings(StoreHealth(on | {"fsync": "off"}, 1000))
    assert (finding.kind, finding.text) == ("fsync", "fsync is off")


async def test_a_file_knows_its_sizes(tmp_path: Path) -> None:
    async with open_store(str(tmp_path / "onward.db")) as store:
        health = await store.database.measure()
    assert health.size > 0
    assert health.wal > 0


async def test_a_server_knows_its_tables_and_settings(postgres_url: str) -> None:
    async with open_store(postgres_url) as store:
        health = await store.database.measure()
    assert {"onward_run", "onward_record"} <= {table.name for table in health.tables}
    assert health.settings["synchronous_commit"] == "on"
    assert health.size > 0
