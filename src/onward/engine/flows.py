"""What operators see and change of flow control: queues, workflows and keys."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import datetime
from shlex import quote
from typing import TYPE_CHECKING, Final, NamedTuple

from onward.core.flow import FlowId, FlowKind, Hold, Rate
from onward.core.instant import show
from onward.core.run import RunState
from onward.engine.display import shown_time
from onward.errors.root import count_text
from onward.model.flow import EVERY_KEY, DeclaredLimits, FlowRow, in_force
from onward.model.run_filter import RunQuery
from onward.store.runs.listing import count_runs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onward.core.flow import FlowLimits
    from onward.model.runs import RunRow
    from onward.store.database import Tx
    from onward.store.store import Store

MAX_COUNTED: Final = 10_000
"""How many ready runs of a queue or a workflow are counted."""


_ORDER: Final = (FlowKind.QUEUE, FlowKind.WORKFLOW, FlowKind.KEY)


class FlowChange(NamedTuple):
    """What an operator changes: what is None stays as it is.

    `clears` removes what operators have set before, `forgets` also what code has declared.
    """

    max: int | None = None
    rate: Rate | None = None
    hold: Hold | None = None
    weight: int | None = None
    is_paused: bool | None = None
    clears: bool = False
    forgets: bool = False

    def of(self, row: FlowRow) -> FlowRow:
        """Return the row with the change."""
        if self.forgets:
            row = row.declare(DeclaredLimits())
        if self.clears:
            row = row.override(DeclaredLimits())._replace(weight=1)
        was = row.operator
        row = row.override(
            DeclaredLimits(
                was.max if self.max is None else self.max,
                self.rate or was.rate,
                self.hold or was.hold,
            )
        )
        return row._replace(
            weight=row.weight if self.weight is None else self.weight,
            paused=row.paused if self.is_paused is None else int(self.is_paused),
        )


@dataclass(frozen=True, slots=True)
class FlowInfo:
    """A queue, a workflow or a key of a queue, with what limits its runs.

    `limit` and `rate` are in force: what an operator set, or else what the code declares.

    Attributes:
        kind: "queue", "workflow" or "key".
        name: Its name; "*" are the limits of every key that has none of its own.
        queue: The queue of a key.
        limit: How many runs may run at a time; None: any number.
        declared_limit: The limit that the code declares.
        operator_limit: The limit that an operator set.
        rate: How many runs may start, as in "10/1m"; None: any number.
        declared_rate: The rate that the code declares.
        operator_rate: The rate that an operator set.
        hold: Which runs count: "running" or "open".
        weight: The share of a key among the keys of its queue.
        paused: Whether no runs are claimed.
        running: How many runs count toward the limit.
        ready: How many runs of a queue or a workflow wait for a slot; at most 10,000 are counted.
            None for a key.
        next_start: When the rate allows the next start, if it allows none now.
    """

    kind: str
    name: str
    queue: str | None
    limit: int | None
    declared_limit: int | None
    operator_limit: int | None
    rate: str | None
    declared_rate: str | None
    operator_rate: str | None
    hold: str
    weight: int
    paused: bool
    running: int
    ready: int | None
    next_start: datetime | None


async def list_flows(store: Store) -> list[FlowInfo]:
    """Return all queues that are known, and the workflows and keys that something was said of."""
    now = await store.now()
    return await store.snapshot(lambda tx: _list_flows(tx, now))


async def _list_flows(tx: Tx, now: int) -> list[FlowInfo]:
    rows = {row.id: row for row in map(FlowRow._make, await tx.fetch("all_flows"))}
    queues = {text for row in await tx.fetch("live_queues") for text in row[0].split("\n")}
    for queue in queues:
        flow = FlowId(FlowKind.QUEUE, queue)
        rows.setdefault(flow, FlowRow("queue", "", queue))
    counts = await _count(tx, "count_running_keys"), await _count(tx, "count_holding")
    order = sorted(rows, key=lambda flow: (_ORDER.index(flow.kind), flow.scope, flow.name))
    return [await _info(tx, rows[flow], counts, now) for flow in order]


async def _count(tx: Tx, statement: str) -> Counter[FlowId]:
    found: Counter[FlowId] = Counter()
    for queue, name, key, count in await tx.fetch(statement):
        for flow in (FlowId(FlowKind.QUEUE, queue), FlowId(FlowKind.WORKFLOW, name)):
            found[flow] += count
        found[FlowId(FlowKind.KEY, key, queue)] += count
    return found


async def _info(
    tx: Tx, row: FlowRow, counts: tuple[Counter[FlowId], Counter[FlowId]], now: int
) -> FlowInfo:
    running, holding = (each[row.id] for each in counts)
    limits, ready = row.limits, None
    if row.kind == FlowKind.QUEUE:
        found = await tx.fetch("count_ready", queue=row.name, max=MAX_COUNTED)
        ready = min(MAX_COUNTED, int(found[0][0]))
    elif row.kind == FlowKind.WORKFLOW:
        ready = await count_runs(tx, RunQuery(row.name, RunState.READY), MAX_COUNTED)
    waits = row.next_at is not None and row.next_at > now
    return FlowInfo(
        str(row.kind),
        row.name,
        row.scope or None,
        limits.max,
        row.declared.max,
        row.operator.max,
        rate_text(limits.rate),
        rate_text(row.declared.rate),
        rate_text(row.operator.rate),
        str(limits.hold),
        row.weight,
        limits.is_paused,
        running + (holding if limits.hold is Hold.OPEN else 0),
        ready,
        shown_time(row.next_at) if waits and row.next_at is not None else None,
    )


def rate_text(rate: Rate | None) -> str | None:
    """Return a rate for people."""
    return None if rate is None else f"{rate.count}/{show(rate.period)}"


class InForce(NamedTuple):
    """What limits a run: of what, how much, and how far it is used."""

    what: str
    limits: FlowLimits
    counted: int
    next_at: int | None
    option: str


async def flows_in_force(store: Store, run: RunRow) -> list[InForce]:
    """Return what limits a run: its queue, its workflow, and its key."""
    return await store.snapshot(lambda tx: _in_force(tx, run))


async def _in_force(tx: Tx, run: RunRow) -> list[InForce]:
    counts = await _count(tx, "count_running_keys"), await _count(tx, "count_holding")

    def found(what: str, row: FlowRow, limits: FlowLimits, option: str) -> InForce:
        running, holding = (each[row.id] for each in counts)
        counted = running + (holding if limits.hold is Hold.OPEN else 0)
        return InForce(what, limits, counted, row.next_at, option)

    flows: Sequence[tuple[str, str, str]] = [
        ("queue", run.queue, quote(run.queue)),
        ("workflow", run.name, f"--workflow {quote(run.name)}"),
    ]
    result = []
    for kind, name, option in flows:
        rows = await tx.fetch("flows_of", kind=kind, scope="", names=tx.array([name]))
        result += [
            found(f"{kind} {name!r}", row, row.limits, option) for row in map(FlowRow._make, rows)
        ]
    if run.flow_key:
        names = tx.array([run.flow_key, EVERY_KEY])
        rows = await tx.fetch("flows_of", kind="key", scope=run.queue, names=names)
        keys = {row[2]: FlowRow._make(row) for row in rows}
        every = keys.get(EVERY_KEY, FlowRow("key", run.queue, EVERY_KEY))
        own = keys.get(run.flow_key, FlowRow("key", run.queue, run.flow_key))
        limits = in_force(own.operator, own.declared, every.operator, every.declared)
        what = f"key {run.flow_key!r} of queue {run.queue!r}"
        option = f"{quote(run.queue)} --key {quote(run.flow_key)}"
        result.append(found(what, own, limits, option))
    return [each for each in result if each.limits.restrict]


def restrictions(run: RunRow, flows: Sequence[InForce], now: int) -> Iterator[tuple[str, str, str]]:
    """Yield what keeps a ready run from being claimed: its kind, a text, and what to do."""
    begun = run.fence > 0
    for what, limits, counted, next_at, option in flows:
        if limits.is_paused:
            yield "paused", f"{what} is paused", f"onward queues resume {option}"
        full = limits.max is not None and counted >= limits.max
        if full and not (begun and limits.hold is Hold.OPEN):
            counted_runs = count_text(counted, f"{limits.hold} run")
            text = f"{what} has {counted_runs}, and the limit is {limits.max:,}"
            move = f"Wait until a run ends, or raise the limit: onward queues limit {option} MAX"
            yield "limit", text, move
        if limits.rate is not None and next_at is not None and next_at > now and not begun:
            rate = rate_text(limits.rate)
            at = f"{shown_time(next_at):%H:%M:%S}Z"
            text = f"{what} has a rate of {rate}, and the next run may start at {at}"
            yield "rate", text, f"Wait until {at}"
