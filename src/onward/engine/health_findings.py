"""What is wrong with the settings, the file and the sizes of a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.core.instant import MINUTE, SECOND, show
from onward.engine.finding import Finding
from onward.store.address import SqliteAddress, parse
from onward.store.presence import is_wal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.instant import Duration
    from onward.model.health import StoreHealth

_SETTINGS = {
    "fsync": "A crash of the machine can damage the database and lose committed work",
    "full_page_writes": "A crash of the machine can leave torn pages, which damage the database",
    "synchronous_commit": "A crash of the server can lose the last commits: a step or an effect "
    "whose outcome was recorded may be repeated",
}


class Thresholds(NamedTuple):
    """From when on something counts as wrong."""

    late: Duration = 5 * MINUTE
    outbox: Duration = MINUTE
    transaction: Duration = 10 * MINUTE
    wal: int = 256 * 1024 * 1024
    free: int = 256 * 1024 * 1024
    dead: int = 100_000


DEFAULTS = Thresholds()


def examine_file(url: str) -> list[Finding]:
    """Return what is wrong with a database file that opening it would change."""
    address = parse(url)
    if not isinstance(address, SqliteAddress) or address.path is None or is_wal(address.path):
        return []
    return [
        Finding(
            "journal_mode",
            f"{address} is not in WAL mode",
            "Another program turned it off, or the file is a restored copy. Each commit now "
            "blocks all readers",
            "Start a worker, or open the file with any App: both turn WAL on. Then find out which "
            "program turned it off",
        )
    ]


def examine_settings(health: StoreHealth) -> Iterator[Finding]:
    """Return settings of a server that can lose commits."""
    for name, meaning in _SETTINGS.items():
        if health.settings.get(name) == "off":
            advice = f"Set {name} = on in postgresql.conf, and reload the server"
            if name == "synchronous_commit":
                advice = f"Set {name} = on for the role or the database of your workers"
            yield Finding(name, f"{name} is off", meaning, advice)


def examine_sizes(health: StoreHealth, limits: Thresholds) -> Iterator[Finding]:
    """Return what has grown too large."""
    if health.wal > limits.wal:
        yield Finding(
            "wal",
            f"the write-ahead log of the file is {_size(health.wal)}",
            "A reader that stays open keeps it from shrinking, so reads become slower",
            "Close programs that keep a transaction open on the file",
        )
    if health.free > limits.free and health.free * 2 > health.size:
        yield Finding(
            "free_space",
            f"{_size(health.free)} of the file's {_size(health.size)} is unused",
            "New runs use that space; the file does not shrink on its own",
            "To shrink the file, stop all workers, then run: sqlite3 FILE VACUUM",
        )
    for table in health.tables:
        if table.dead > limits.dead and table.dead > table.rows:
            yield Finding(
                "dead_rows",
                f"{table.name} has {table.dead} dead rows and {table.rows} live rows",
                "Autovacuum is off or too slow, so claims become slower",
                f"Vacuum {table.name}, and make autovacuum process it more often",
            )
    if health.oldest_transaction > limits.transaction:
        since = show(health.oldest_transaction // SECOND * SECOND)
        yield Finding(
            "transaction",
            f"a transaction has been open for {since}",
            "Vacuum cannot remove rows deleted after the transaction began, so tables grow",
            "Find its connection in pg_stat_activity, and terminate it",
        )


def _size(count: int) -> str:
    return f"{count / 1024 / 1024:.0f} MiB"
