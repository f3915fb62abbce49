"""What is wrong with a store, or weakens what Onward promises, and what to do about it.

Nothing is changed, and all of it is read while workers run. What is read grows neither with
finished runs nor, beyond a limit, with open ones, unless a full examination is asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from onward.core.instant import SECOND, show
from onward.core.run import Reason
from onward.engine.clock import read_clock
from onward.engine.effect_info import effect_infos
from onward.engine.finding import MAX_COUNTED, MAX_NAMED, Finding, count_of, some_of
from onward.engine.health_findings import DEFAULTS, Thresholds, examine_settings, examine_sizes
from onward.engine.pipelines.findings import pipeline_findings
from onward.engine.report import held_back
from onward.engine.why import full_workers
from onward.errors.root import count_text
from onward.store.invariants import Violation, check_page, check_some
from onward.store.runs import ledger
from onward.store.runs.worker_offer import late_runs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from onward.core.instant import Duration
    from onward.model.runs import RunRow
    from onward.model.workers import Unserved, WorkerRow
    from onward.store.store import Store

MAX_FLOWS = 100
"""How many queues, workflows and keys are looked at for limits that hold late runs back."""
_LIMBO = "check_limbo"

SECTIONS = ("database", "runs", "pipelines", "workers", "invariants")
"""What is examined, in this order."""


class Part(NamedTuple):
    """What one part of an examination has found.

    Attributes:
        findings: What is wrong, apart from invariants.
        violations: Invariants that do not hold.
        runs: For how many runs the invariants were checked.
        is_all: Whether these are all runs.
        position: Where the next part begins; None if this was the last one.
    """

    findings: list[Finding]
    violations: Sequence[Violation] = ()
    runs: int = 0
    is_all: bool = True
    position: tuple[str, str] | None = None


async def examine(
    store: Store,
    position: tuple[str, str] | None,
    *,
    is_full: bool,
    thresholds: Thresholds = DEFAULTS,
) -> Part:
    """Examine one part of a store.

    Args:
        store: Where the runs are.
        position: What the part before answered.
        is_full: Whether the invariants are checked for all runs, page by page; otherwise for a few
            thousand open runs and the newest ones.
        thresholds: From when on something counts as wrong.
    """
    section, after = position or (SECTIONS[0], "")
    following = (SECTIONS[SECTIONS.index(section) + 1], "") if section != SECTIONS[-1] else None
    match section:
        case "database":
            health = await store.database.measure()
            sizes = examine_sizes(health, thresholds)
            found = [*examine_settings(health), *sizes, *await _clock(store)]
        case "runs":
            found = [each async for each in _runs(store, thresholds)]
        case "pipelines":
            found = [each async for each in pipeline_findings(store)]
        case "workers":
            found = [each async for each in _workers(store)]
        case _:
            checked = await (check_page(store, after) if is_full else check_some(store))
            following = None if checked.after is None else (section, checked.after)
            return Part([], checked.violations, checked.runs, checked.is_all, following)
    return Part(found, position=following)


def conclude(parts: Sequence[Part]) -> list[Finding]:
    """Return the findings of all parts, the worst first."""
    broken: dict[str, list[Violation]] = {}
    for violation in chain.from_iterable(part.violations for part in parts):
        broken.setdefault(violation.name, []).append(violation)
    names = sorted(broken, key=lambda name: name != _LIMBO)
    return [
        *(_invariant(broken[name]) for name in names),
        *chain.from_iterable(part.findings for part in parts),
    ]


def _invariant(violations: Sequence[Violation]) -> Finding:
    name, rule, _ = violations[0]
    subjects = list(dict.fromkeys(chain.from_iterable(each.subjects for each in violations)))
    return Finding(
        "limbo" if name == _LIMBO else "invariant",
        f"{name} is violated by {some_of(subjects)}: {rule}",
        "The rows were changed by hand or restored in part, or this is a bug in Onward",
        f"Please report it, with the output of: onward runs show {subjects[0]}",
    )


async def _runs(store: Store, limits: Thresholds) -> AsyncIterator[Finding]:
    unserved = await store.unserved(MAX_COUNTED)
    if unserved:
        yield _unserved(unserved)
    for finding in await _late(store, limits.late):
        yield finding
    parked = await store.read(
        lambda tx: tx.fetch("paused_runs", reason=Reason.DIVERGENCE, limit=MAX_COUNTED)
    )
    if parked:
        names = [row[0] for row in parked]
        yield Finding(
            "divergence",
            f"{count_of(names, 'run')} paused because the code does not match the history: "
            f"{some_of(names)}",
            "A worker with matching code continues them; a fork can leave out the calls that "
            "differ, or replace a value that does not match",
            f"onward runs show {quote(names[0])}",
        )
    crashing = await store.read(lambda tx: tx.fetch("crashing_runs", limit=MAX_COUNTED))
    if crashing:
        names = [row[0] for row in crashing]
        yield Finding(
            "crashes",
            f"{count_of(names, 'run')} whose last worker died: {some_of(names)}",
            "A run that kills 5 workers in a row ends as failed (crashed)",
            "Check their code for high memory use and for native code that crashes: "
            f"onward runs show {quote(names[0])}",
        )
    effects = await effect_infos(store, await ledger.open_effects(store, limit=MAX_COUNTED))
    uncertain = [effect.id for effect in effects if effect.waits_for == "verdict"]
    if uncertain:
        whose = "Its run is" if len(uncertain) == 1 else "Their runs are"
        yield Finding(
            "effects",
            f"{count_of(uncertain, 'effect')} whose outcome is unknown",
            f"{whose} waiting for an operator's decision",
            "onward effects list",
        )
    [[stale]] = await store.read(lambda tx: tx.fetch("stale_outbox", age=limits.outbox))
    if stale:
        yield Finding(
            "outbox",
            f"{count_text(stale, 'message')} from your transactions (starts included) undelivered "
            f"for more than {show(limits.outbox)}",
            "A running worker delivers messages within a second",
            "Start a worker: onward worker MODULE",
        )


async def _late(store: Store, age: Duration) -> list[Finding]:
    """Return that runs wait for long which live workers could take, unless a limit holds them."""
    waiting: list[RunRow] = []
    held: dict[tuple[str | None, ...], bool] = {}
    for run in await store.read(lambda tx: late_runs(tx, age, MAX_COUNTED)):
        flow = (run.queue, run.name, run.flow_key, run.version, run.tags)
        if flow not in held and len(held) < MAX_FLOWS:
            is_unserved = await store.why_unserved(run) is not None
            held[flow] = is_unserved or bool(await held_back(store, run))
        if not held.get(flow, True):
            waiting.append(run)
    if not waiting:
        return []
    names = [run.id for run in waiting]
    is_full = any([await full_workers(store, run) for run in waiting[:MAX_NAMED]])
    meaning = "Live workers serve their queues, but claim none of these runs"
    advice = "Check the logs of the workers. To list the workers"
    if is_full:
        meaning = "Live workers serve their queues, but have no free slots"
        advice = "Start more workers, or raise --slots. To list the workers"
    text = f"{count_of(names, 'run')} ready for more than {show(age)}: {some_of(names)}"
    return [Finding("late", text, meaning, f"{advice}: onward workers list")]


def _unserved(found: Sequence[Unserved]) -> Finding:
    named = found[:MAX_NAMED]
    reasons = "; ".join(dict.fromkeys(each.why for each in named))
    stays, them = "It cannot continue", "it"
    if len(found) > 1:
        stays, them = "They cannot continue", "them"
        # "its worker ..." is said of one run: which one has to be named.
        if any(each.why.startswith("its ") for each in named):
            reasons = "; ".join(_reasons(found))
    return Finding(
        "unserved",
        f"{count_of(found, 'run')} that no live worker can take: "
        f"{some_of([each.run.id for each in found])}",
        f"{stays}: {reasons}",
        f"Start a worker that takes {them}. For details: onward why {quote(found[0].run.id)}",
    )


def _reasons(found: Sequence[Unserved]) -> list[str]:
    """Return each reason once, with the run or the number of runs that it is said of."""
    by_why: dict[str, list[str]] = {}
    for each in found:
        by_why.setdefault(each.why, []).append(each.run.id)
    return [
        f"{runs[0]}: {why}"
        if len(runs) == 1
        else f"{count_of(runs, 'run')}: {why.replace('its worker', 'their worker', 1)}"
        for why, runs in list(by_why.items())[:MAX_NAMED]
    ]


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
            "Synchronize the clocks of both machines (NTP)" if has_own_clock else "onward clock",
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
                f"worker {worker} has not renewed its lease for {since}, but still has "
                f"{count_text(running, 'run')}",
                "No live worker has taken them over",
                "Start a worker that takes them over: onward worker MODULE",
            )
    alive = [row for row in await store.workers() if row.is_alive and not row.draining]
    if len({row.version for row in alive}) > 1:
        pinned = {row[0] for row in await store.read(lambda tx: tx.fetch("pinned_versions"))}
        for row in _old(alive):
            if row.version not in pinned:
                yield Finding(
                    "old_worker",
                    f"worker {row.worker} has version {row.version!r}, but the newest has "
                    f"{alive[0].version!r}",
                    "No open run is pinned to its version",
                    f"Stop it: onward workers drain {row.worker}",
                )


def _old(alive: Sequence[WorkerRow]) -> Iterator[WorkerRow]:
    """Return workers of another version than the one that was started last."""
    return (row for row in alive if row.version != alive[0].version)
