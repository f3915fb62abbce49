"""Inputs: how they stand, what happened because of them, and the skip of one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from onward.core.delivery import DeliveryState, Ending, SkippedByOperator, events_when
from onward.core.run import TERMINAL, RunState
from onward.errors import NotFound
from onward.model.effects import EffectRow
from onward.model.runs import RunRow
from onward.model.stopping import ForcedEnd
from onward.store.pipelines.ending import effect_of
from onward.store.pipelines.operating import locked, operator_reason, skip_deliveries
from onward.store.pipelines.overview import deliveries_of, events_by_uid
from onward.store.pipelines.publishing import lock_handlers
from onward.store.runs.stopping import stop
from onward.store.runs.withdrawing import withdraw

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onward.core.instant import Instant
    from onward.store.database import Tx
    from onward.store.pipelines.overview import EventOverview

MAX_SHOWN = 1_000
"""How many events, runs and effects of an input are shown."""

_PAGE = 500


class InputRow(NamedTuple):
    """An input as it stands."""

    uid: str
    pipeline: str
    source: str
    type: str
    external: str
    title: str
    run: str | None
    open: int
    events: int
    skipped_at: Instant | None
    skipped_by: str | None
    skipped_why: str | None
    created_at: Instant

    @property
    def state(self) -> str:
        """Pending, done or skipped."""
        if self.skipped_at is not None:
            return "skipped"
        return "pending" if self.open > 0 or self.events == 0 else "done"


class InputQuery(NamedTuple):
    """Which inputs to list; `before` is when they were registered at the latest."""

    pipeline: str | None = None
    state: str | None = None
    source: str | None = None
    text: str | None = None
    before: Instant | None = None
    limit: int = 100


class KindCounts(NamedTuple):
    """How many inputs of one kind there are, and have been skipped, are pending or stale."""

    pipeline: str
    source: str
    type: str
    registered: int
    skipped: int
    pending: int
    stale: int


class Skip(NamedTuple):
    """What a skip of an input has done to its events."""

    skipped: int
    cancelled: tuple[str, ...]
    completing: tuple[str, ...]
    done: int


async def list_inputs(tx: Tx, wanted: InputQuery) -> list[InputRow]:
    """Return inputs, the newest first."""
    if wanted.state == "pending":
        statement = "list_open_inputs"
    elif wanted.pipeline is not None:
        statement = "list_inputs_of_pipeline"
    else:
        statement = "list_inputs"
    return [InputRow(*row) for row in await tx.fetch(statement, **wanted._asdict())]


async def count_inputs(tx: Tx, pipeline: str | None, before: str) -> list[KindCounts]:
    """Return how many inputs of each kind are in each state.

    Args:
        tx: The transaction.
        pipeline: Only inputs of this pipeline.
        before: Pending inputs with a lower uid are stale.
    """
    pending = {
        (row[0], row[1], row[2]): (row[3], row[4])
        for row in await tx.fetch("pending_inputs", pipeline=pipeline, before=before)
    }
    return [
        KindCounts(
            name, source, type_, registered, skipped, *pending.get((name, source, type_), (0, 0))
        )
        for name, source, type_, registered, skipped in await tx.fetch(
            "input_kinds", pipeline=pipeline
        )
    ]


async def input_row(tx: Tx, uid: str) -> InputRow:
    """Return an input.

    Raises:
        NotFound: there is none.
    """
    rows = await tx.fetch("input_by_uid", uid=uid)
    if not rows:
        raise NotFound("input", uid, tx.namespace, "Check the id: onward inputs list")
    return InputRow(*rows[0])


# --- what happened because of an input ------------------------------------------------------------


async def events_of_input(tx: Tx, uid: str) -> list[EventOverview]:
    """Return the events that an input has caused, the oldest first."""
    return await events_by_uid(tx, await _caused(tx, uid, "event", MAX_SHOWN))


async def effects_of_input(tx: Tx, uid: str) -> list[EffectRow]:
    """Return the effects of runs that reserved events of an input."""
    runs = await _caused(tx, uid, "run", MAX_SHOWN)
    if not runs:
        return []
    return [EffectRow._make(row) for row in await tx.fetch("effects_of_runs", runs=tx.array(runs))]


async def inputs_of_runs(tx: Tx, runs: Iterable[str]) -> dict[str, list[str]]:
    """Return the inputs of each of these runs: of a batch there are several."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for run, uid in await tx.fetch("causes_of_runs", runs=tx.array(sorted(set(runs)))):
        found[run].append(uid)
    return dict(found)


async def _caused(tx: Tx, uid: str, kind: str, limit: int | None = None) -> list[str]:
    found: list[str] = []
    after = ""
    while limit is None or len(found) < limit:
        given = {"input": uid, "kind": kind, "after": after, "limit": _PAGE}
        rows = await tx.fetch("caused_by_input", **given)
        found += [row[0] for row in rows]
        if len(rows) < _PAGE:
            break
        after = found[-1]
    return found if limit is None else found[:limit]


# --- skip -----------------------------------------------------------------------------------------


async def mark_skipped(tx: Tx, uid: str, reason: str, by: str) -> InputRow:
    """Let nothing more be published because of an input; return it.

    `publish` skips what is published later. What is there is for `skip_caused`, in a transaction
    of its own, as it locks runs before inputs.
    """
    row = await input_row(tx, uid)
    for pipeline, source, type_ in await tx.fetch("mark_input_skipped", uid=uid, by=by, why=reason):
        kind = {"pipeline": pipeline, "source": source, "type": type_}
        await tx.fetch("count_skipped_inputs", count=1, **kind)
    return row


async def skip_caused(tx: Tx, uid: str, reason: str, by: str) -> tuple[Skip, set[str]]:
    """Skip the events that a skipped input has caused, and return the hints to publish.

    An event that is pending is skipped. One that is reserved by a run which has not passed its
    effect is skipped after the run was cancelled, which releases its other events. Past the
    effect, the run completes. An event of another input that is not skipped stays as it is.
    """
    events = await _unwanted(tx, await _caused(tx, uid, "event"))
    seen = [each for of_event in (await deliveries_of(tx, events)).values() for each in of_event]
    holders = {each.holder for each in seen if each.state == DeliveryState.RESERVED}
    cancelled, completing, subjects = await _cancel(tx, sorted(filter(None, holders)))
    await lock_handlers(tx, (), {(each.handler, each.key) for each in seen})
    pending = await locked(
        tx, events, lambda each: each.state == DeliveryState.PENDING, SkippedByOperator()
    )
    await skip_deliveries(tx, pending, operator_reason(reason, by))
    after = [each for of_event in (await deliveries_of(tx, events)).values() for each in of_event]
    before = sum(each.state == DeliveryState.SKIPPED for each in seen)
    skipped = sum(each.state == DeliveryState.SKIPPED for each in after) - before
    done = sum(each.state == DeliveryState.CONSUMED for each in seen)
    return Skip(skipped, tuple(cancelled), tuple(completing), done), subjects


async def _unwanted(tx: Tx, uids: Sequence[str]) -> list[EventOverview]:
    """Return those of these events, all of whose inputs were skipped."""
    if not uids:
        return []
    rows = await tx.fetch("events_of_skipped_inputs", events=tx.array(uids))
    return await events_by_uid(tx, [row[0] for row in rows])


async def _cancel(tx: Tx, runs: Sequence[str]) -> tuple[list[str], list[str], set[str]]:
    """Cancel those of these runs that have not passed their effect.

    Returns:
        The ids of the runs that were cancelled, and of those that complete, and the hints.
    """
    if not runs:
        return [], [], set()
    for uid in runs:  # effects are locked before runs, as commits do
        await withdraw(tx, uid)
    await tx.lock(runs)
    cancelled: list[str] = []
    completing: list[str] = []
    subjects: set[str] = set()
    for uid in runs:
        run = RunRow._make((await tx.fetch("run_by_uid", uid=uid))[0])
        ending = events_when(RunState.CANCELLED, await effect_of(tx, uid))
        if run.state in TERMINAL or ending is not Ending.RELEASE:
            completing.append(run.id)
            continue
        _, hints = await stop(tx, uid, ForcedEnd(RunState.CANCELLED, None), by_uid=True)
        subjects |= hints
        cancelled.append(run.id)
    return cancelled, completing, subjects
