"""What is wrong with a store, or weakens what Onward promises, and what to do about it.

Nothing is changed, and all of it is read while workers run.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from onward.core.instant import MINUTE, SECOND, show
from onward.core.run import Reason
from onward.engine.clock import read_clock
from onward.engine.effect_info import effect_infos
from onward.engine.finding import MAX_COUNTED, MAX_NAMED, Finding, count_of, some_of
from onward.engine.pipelines.findings import pipeline_findings
from onward.engine.report import held_back
from onward.engine.why import full_workers
from onward.store.address import SqliteAddress, parse
from onward.store.invariants import check
from onward.store.presence import is_wal
from onward.store.runs import ledger
from onward.store.runs.worker_offer import late_runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Container, Iterator, Sequence

    from onward.core.instant import Duration
    from onward.model.health import StoreHealth
    from onward.model.runs import RunRow
    from onward.model.workers import Unserved, WorkerRow
    from onward.store.store import Store

MAX_FLOWS = 100
"""How many queues, workflows and keys are looked at for limits that hold late runs back."""
_LIMBO = "check_limbo"

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


def examine_file(url: str) -> list[Finding]:
    """Return what is wrong with a database file that opening it would change."""
    address = parse(url)
    if not isinstance(address, SqliteAddress) or address.path is None or is_wal(address.path):
        return []
    return [
        Finding(
            "journal_mode",
            f"{address} is not in WAL mode",
            "Another program changed it, or it is a restored copy. Each commit blocks all readers",
            "Start a worker, or open the file with any App: both turn WAL on. Then find out which "
            "program turned it off",
        )
    ]


async def examine(store: Store, thresholds: Thresholds | None = None) -> list[Finding]:
    """Return what is wrong with a store and its runs, the worst first."""
    limits = thresholds or Thresholds()
    health = await store.database.measure()
    return [
        *await _invariants(store),
        *examine_settings(health),
        *[each async for each in _runs(store, limits)],
        *[each async for each in pipeline_findings(store)],
        *await _clock(store),
        *[each async for each in _workers(store)],
        *examine_sizes(health, limits),
    ]


async def _invariants(store: Store) -> list[Finding]:
    violations = sorted(await check(store), key=lambda each: each.name != _LIMBO)
    return [
        Finding(
            "limbo" if each.name == _LIMBO else "invariant",
            f"{each.name} is violated by {some_of(each.subjects)}: {each.rule}",
            "The rows were changed by hand or restored in part, or this is a bug in Onward",
            f"onward runs show {each.subjects[0]}; please report it",
        )
        for each in violations
    ]


def examine_settings(health: StoreHealth) -> Iterator[Finding]:
    """Return settings of a server that can lose commits."""
    for name, meaning in _SETTINGS.items():
        if health.settings.get(name) == "off":
            advice = f"Set {name} = on in postgresql.conf, and reload the server"
            if name == "synchronous_commit":
                advice = f"Set {name} = on for the role or the database of your workers"
            yield Finding(name, f"{name} is off", meaning, advice)


async def _runs(store: Store, limits: Thresholds) -> AsyncIterator[Finding]:
    unserved = await store.unserved(MAX_COUNTED)
    if unserved:
        yield _unserved(unserved)
    for finding in await _late(store, limits.late, {each.run.uid for each in unserved}):
        yield finding
    parked = await store.read(
        lambda tx: tx.fetch("paused_runs", reason=Reason.DIVERGENCE, limit=MAX_COUNTED)
    )
    if parked:
        names = [row[0] for row in parked]
        yield Finding(
            "divergence",
            f"{count_of(names, 'run')} paused because the code does not fit the history: "
            f"{some_of(names)}",
            "A worker with code that fits continues them; a fork can leave out the calls that "
            "differ, or replace a value that does not fit",
            f"onward runs show {quote(names[0])}",
        )
    crashing = await store.read(lambda tx: tx.fetch("crashing_runs", limit=MAX_COUNTED))
    if crashing:
        names = [row[0] for row in crashing]
        yield Finding(
            "crashes",
            f"{count_of(names, 'run')} whose last workers died: {some_of(names)}",
            "A run that kills 5 workers in a row ends as failed (crashed)",
            f"Check it for high memory use and native code: onward runs show {quote(names[0])}",
        )
    effects = await effect_infos(store, await ledger.open_effects(store, limit=MAX_COUNTED))
    uncertain = [effect.id for effect in effects if effect.waits_for == "verdict"]
    if uncertain:
        waits = "Its run waits" if len(uncertain) == 1 else "Their runs wait"
        yield Finding(
            "effects",
            f"{count_of(uncertain, 'effect')} whose outcome is unknown",
            f"{waits} for an operator's decision",
            "onward effects list",
        )
    [[stale]] = await store.read(lambda tx: tx.fetch("stale_outbox", age=limits.outbox))
    if stale:
        yield Finding(
            "outbox",
            f"{stale} messages or events from your transactions have not been delivered for "
            f"{show(limits.outbox)}",
            "A running worker delivers them within a second",
            "Start a worker: onward worker MODULE",
        )


async def _late(store: Store, age: Duration, unserved: Container[str]) -> list[Finding]:
    """Return that runs wait for long which live workers could take, unless a limit holds them."""
    waiting: list[RunRow] = []
    held: dict[tuple[str, str, str | None], bool] = {}
    for run in await store.read(lambda tx: late_runs(tx, age, MAX_COUNTED)):
        flow = (run.queue, run.name, run.flow_key)
        if flow not in held and len(held) < MAX_FLOWS:
            held[flow] = bool(await held_back(store, run))
        if run.uid not in unserved and not held.get(flow, True):
            waiting.append(run)
    if not waiting:
        return []
    names = [run.id for run in waiting]
    is_full = any([await full_workers(store, run) for run in waiting[:MAX_NAMED]])
    meaning, advice = "Live workers serve them, but claim none of them", "Look at their logs"
    if is_full:
        meaning = "Live workers serve them, but have no free slots"
        advice = "Start more workers, or raise --slots"
    text = f"{count_of(names, 'run')} ready for more than {show(age)}: {some_of(names)}"
    return [Finding("late", text, meaning, f"{advice}: onward workers list")]


def _unserved(found: Sequence[Unserved]) -> Finding:
    named = found[:MAX_NAMED]
    reasons = "; ".join(dict.fromkeys(each.why for each in named))
    stays, them = "It stays as it is", "it"
    if len(found) > 1:
        stays, them = "They stay as they are", "them"
        # "its worker ..." is said of one run: which one has to be named.
        if any(each.why.startswith("its ") for each in named):
            reasons = "; ".join(f"{each.run.id}: {each.why}" for each in named)
    return Finding(
        "unserved",
        f"{count_of(found, 'run')} that no live worker can take: "
        f"{some_of([each.run.id for each in found])}",
        f"{stays}: {reasons}",
        f"Start a worker that takes {them}; onward why {quote(found[0].run.id)}",
    )


async def _clock(store: Store) -> list[Finding]:
    reading = await read_clock(store)
    if reading.agrees:
        return []
    side = "ahead of" if reading.ahead > 0 else "behind"
    apart = show(abs(reading.ahead) // SECOND * SECOND)
    has_own_clock = store.database.capabilities.clock
    return [
        Finding(
            "clock",
            f"the store's time is {apart} {side} this machine's clock",
            "Timers, deadlines and leases follow the store's time",
            "Synchronise the clocks of both machines (NTP)" if has_own_clock else "onward clock",
        )
    ]


async def _workers(store: Store) -> AsyncIterator[Finding]:
    now = await store.now()
    leases = await store.read(lambda tx: tx.fetch("leases_with_runs"))
    for worker, renewed_at, length, running in leases:
        if running and renewed_at + 2 * length < now:
            since = show((now - renewed_at) // SECOND * SECOND)
            yield Finding(
                "lease",
                f"worker {worker} has not renewed its lease for {since}, but has {running} runs",
                "No live worker has taken them over",
                "Start a worker that takes them: onward worker MODULE",
            )
    alive = [row for row in await store.workers() if row.is_alive and not row.draining]
    if len({row.version for row in alive}) > 1:
        pinned = {row[0] for row in await store.read(lambda tx: tx.fetch("pinned_versions"))}
        for row in _old(alive):
            if row.version not in pinned:
                yield Finding(
                    "old_worker",
                    f"worker {row.worker} has version {row.version!r}, but others have "
                    f"{alive[0].version!r}",
                    "No open run is pinned to its version",
                    f"Stop it: onward workers drain {row.worker}",
                )


def _old(alive: Sequence[WorkerRow]) -> Iterator[WorkerRow]:
    """Return workers of another version than the one that was started last."""
    return (row for row in alive if row.version != alive[0].version)


def examine_sizes(health: StoreHealth, limits: Thresholds) -> Iterator[Finding]:
    """Return what has grown too large."""
    if health.wal > limits.wal:
        yield Finding(
            "wal",
            f"the write-ahead log of the file is {_size(health.wal)}",
            "A reader that stays open keeps it from shrinking, and reads become slower",
            "Close programs that keep a transaction open on the file",
        )
    if health.free > limits.free and health.free * 2 > health.size:
        yield Finding(
            "free_space",
            f"{_size(health.free)} of the file's {_size(health.size)} are unused",
            "New runs use that space; the file does not shrink by itself",
            "While no worker runs: sqlite3 FILE VACUUM",
        )
    for table in health.tables:
        if table.dead > limits.dead and table.dead > table.rows:
            yield Finding(
                "dead_rows",
                f"{table.name} has {table.dead} dead rows beside {table.rows} live ones",
                "Autovacuum is off or too slow, and claims become slower",
                f"Vacuum {table.name}, and make autovacuum process it more often",
            )
    if health.oldest_transaction > limits.transaction:
        since = show(health.oldest_transaction // SECOND * SECOND)
        yield Finding(
            "transaction",
            f"a transaction has been open for {since}",
            "Vacuum cannot remove rows that were deleted since, and tables grow",
            "Find it in pg_stat_activity, and terminate it",
        )


def _size(count: int) -> str:
    return f"{count / 1024 / 1024:.0f} MiB"
