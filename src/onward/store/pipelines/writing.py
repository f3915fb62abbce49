"""What commits of runs attach to pipelines: preparations, completions and publishes.

All of it is one transaction with the rest of the commit. First what is there is locked and compared
with what the commits expect; then, for those that were written, the rows are changed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from onward.core.decision import Refused
from onward.core.delivery import Delivery, DeliveryState, Reserved, SkipReason, advance
from onward.errors import NotFound, Rejected
from onward.store.pipelines.publishing import Publication, lock_handlers, publish_all
from onward.store.writing.repeats import recorded_times

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from onward.model.commits import Commit
    from onward.model.pipelines import Completion, PipelineWrite, Preparation
    from onward.store.database import RecordKey, Tx


class Examined(NamedTuple):
    """Which commits, by their runs, must not be written: refused ones, and repeated ones."""

    refused: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()


async def examine(tx: Tx, commits: Sequence[Commit]) -> Examined:
    """Lock what these commits change of pipelines, and compare it with what they expect.

    The runs of the commits are locked already.
    """
    writes = [(commit, commit.attached.pipeline) for commit in commits]
    attached = [(commit, write) for commit, write in writes if write is not None]
    if not attached:
        return Examined()
    events = [event for _, write in attached for event in write.published]
    own = {(write.handler, write.key) for _, write in attached if write.handler}
    await lock_handlers(tx, events, own)
    times = await recorded_times(tx, [commit for commit, _ in attached])
    repeated = frozenset(commit.run for commit, _ in attached if _is_recorded(commit, times))
    left = [(commit.run, write) for commit, write in attached if commit.run not in repeated]
    refused = {run for run, write in left if not await _may_reserve(tx, run, write)}
    refused |= await _stale(tx, left)
    return Examined(frozenset(refused), repeated)


def _is_recorded(commit: Commit, times: Container[RecordKey]) -> bool:
    """Return whether an outcome of a commit is in history: an earlier try has written it."""
    return any((row.run, row.identity, row.attempt) in times for row in commit.latest_records())


async def _stale(tx: Tx, writes: Iterable[tuple[str, PipelineWrite]]) -> set[str]:
    """Return the runs that save a state although another was saved since they began."""
    saved = {
        (write.handler, write.key): (run, write.completed.state_version)
        for run, write in writes
        if write.completed is not None and write.completed.saves_state
    }
    if not saved:
        return set()
    given = {
        "handlers": tx.array(handler for handler, _ in saved),
        "keys": tx.array(key for _, key in saved),
    }
    rows = await tx.fetch("state_versions", **given)
    versions = {(handler, key): version for handler, key, version in rows}
    return {run for own, (run, version) in saved.items() if versions.get(own) != version}


async def _may_reserve(tx: Tx, run: str, write: PipelineWrite) -> bool:
    """Return whether all events of a preparation are as they were when it looked."""
    prepared = write.prepared
    if prepared is None or not prepared.reserve:
        return True
    events = tx.array(sorted({each.event for each in prepared.reserve}))
    rows = await tx.fetch("lock_deliveries", handler=write.handler, events=events)
    found = {
        event: Delivery(DeliveryState(state), holder, attempt)
        for event, state, holder, attempt, key in rows
        if key == write.key
    }
    return all(
        each.event in found
        and found[each.event].attempt == each.attempt
        and not isinstance(advance(found[each.event], Reserved(run)), Refused)
        for each in prepared.reserve
    )


async def attach(tx: Tx, commits: Iterable[Commit]) -> None:
    """Write what these commits, which are neither refused nor repeated, attach to pipelines.

    Raises:
        Rejected: a commit publishes to a topic that is not there.
    """
    writes = [(commit.run, commit.attached.pipeline) for commit in commits]
    published = [
        Publication(write.published, write.inputs, run)
        for run, write in writes
        if write is not None and (write.published or write.inputs)
    ]
    if published:
        try:
            await publish_all(tx, published)
        except NotFound as missing:
            raise Rejected(str(missing)) from missing
    for run, write in writes:
        if write is not None and write.prepared is not None:
            await _prepare(tx, run, write, write.prepared)
        if write is not None and write.completed is not None:
            await _complete(tx, run, write, write.completed)


async def _prepare(tx: Tx, run: str, write: PipelineWrite, prepared: Preparation) -> None:
    if prepared.reserve:
        events = tx.array(each.event for each in prepared.reserve)
        await tx.fetch("reserve_deliveries", handler=write.handler, run=run, events=events)
        await tx.fetch("cause_run", run=run, events=events)
    await tx.fetch("set_origin", run=run, origin=prepared.origin)
    await tx.fetch(
        "note_preparation",
        handler=write.handler,
        key=write.key,
        wake_in=prepared.wake_in,
        seen=0 if prepared.reserve else prepared.seen,
    )


async def _complete(tx: Tx, run: str, write: PipelineWrite, done: Completion) -> None:
    state = DeliveryState.SKIPPED if done.skips else DeliveryState.CONSUMED
    reason = SkipReason.EFFECT_SKIPPED if done.skips else None
    rows = await tx.fetch("end_deliveries", run=run, state=state, reason=reason)
    await note_ended(tx, write.handler, rows, state)
    await tx.fetch(
        "complete_handler",
        handler=write.handler,
        key=write.key,
        run=run,
        saves=int(done.saves_state),
        state=done.state if done.saves_state else None,
    )


async def note_ended(
    tx: Tx, handler: str, rows: Sequence[Sequence[str]], state: DeliveryState
) -> None:
    """Count deliveries, by topic and event, that were consumed or skipped just now."""
    if not rows:
        return
    is_skipped = state is DeliveryState.SKIPPED
    for topic, count in sorted(Counter(row[0] for row in rows).items()):
        given = {"consumed": 0 if is_skipped else count, "skipped": count if is_skipped else 0}
        await tx.fetch("count_ended", topic=topic, handler=handler, **given)
    await change_open(tx, [row[1] for row in rows], -1)


async def change_open(tx: Tx, events: Iterable[str], by: int) -> None:
    """Note in the inputs of events that each has one open delivery more or less."""
    rows = await tx.fetch("inputs_of_events", events=tx.array(events))
    counts = Counter(row[0] for row in rows)
    if counts:
        await tx.fetch("lock_inputs", uids=tx.array(sorted(counts)))
    for count in sorted(set(counts.values())):
        uids = sorted(uid for uid in counts if counts[uid] == count)
        await tx.fetch("raise_inputs", open=by * count, events=0, uids=tx.array(uids))
