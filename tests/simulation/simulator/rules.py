"""The rules of a simulated world: what a transaction may change, depending on whose it is.

`check` in the store says what a state must be like. These say what may follow upon what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from onward.core.run import TERMINAL
from tests.simulation.simulator.ledger_rules import broken_ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.instant import Instant
    from tests.simulation.simulator.ledger_rules import EffectSeen
    from tests.simulation.simulator.process import Process


_FAILED = ("failed", "timed_out", "cancelled")

WORLD = "world"
"""The process that stands for the machine: it may end the lease of a worker that died."""


class RunSeen(NamedTuple):
    """A run's row, with its outcome."""

    uid: str
    id: str
    state: str
    reason: str | None
    due: Instant | None
    worker: str | None
    fence: int
    inbox: int
    crashes: int
    result: bytes | None
    error: bytes | None
    parent: str | None = None
    parent_identity: str | None = None
    cancel_with_parent: int = 0
    follows: str | None = None
    link: str | None = None


class RecordSeen(NamedTuple):
    """A record of history."""

    run: str
    identity: str
    attempt: int
    seq: int | None
    kind: str
    state: str
    due: Instant | None
    message: int | None
    payload: bytes | None
    error: bytes | None
    closed_at: Instant | None


class View:
    """The tables at one moment.

    Args:
        now: The database's time.
        steady: What it would be had no clock ever been set back.
    """

    def __init__(self, now: Instant, steady: Instant) -> None:
        self.now = now
        self.steady = steady
        self.runs: dict[str, RunSeen] = {}
        self.records: dict[tuple[str, str, int], RecordSeen] = {}
        self.inbox: dict[tuple[str, int], tuple[Any, ...]] = {}
        self.leases: dict[str, Instant] = {}
        self.effects: dict[str, EffectSeen] = {}
        self.settles: dict[str, Instant] = {}
        """When an effect can take place no more, in steady time."""
        self.spoiled: frozenset[str] = frozenset()
        """Runs whose rows the world itself has spoiled: they may come to anything."""

    def rows(self) -> Iterator[tuple[tuple[Any, ...], Any]]:
        """Yield every row with a key that is its own."""
        for uid, run in self.runs.items():
            yield ("run", uid), run
        for place, record in self.records.items():
            yield ("record", *place), record
        for at, message in self.inbox.items():
            yield ("message", *at), message
        for worker, until in self.leases.items():
            yield ("lease", worker), until
        for key, effect in self.effects.items():
            yield ("effect", key), effect


def broken_rules(process: Process, before: View, after: View) -> Iterator[str]:
    """Yield the rules that a transaction of `process` broke."""
    if process.is_dead:
        yield f"{process.name} wrote after its death"
    yield from _runs(process, before, after)
    yield from _started(process, before, after)
    yield from _records(process, before, after)
    yield from _effects(process, before, after)
    for at, message in before.inbox.items():
        if after.inbox.get(at) != message and at[0] not in after.spoiled:
            yield f"message {at} was changed or lost"
    for worker, until in before.leases.items():
        allowed = process.acts_for(worker) or until < after.now or process.name == WORLD
        if worker not in after.leases and not allowed:
            yield f"{process.name} took the lease of {worker}, which was good until {until}"


def _runs(process: Process, before: View, after: View) -> Iterator[str]:
    for uid, old in before.runs.items():
        new = after.runs.get(uid)
        if new is None:
            yield f"run {uid} vanished"
        elif new != old and uid not in after.spoiled:
            yield from _moved(process, before, after, old, new)


def _started(process: Process, before: View, after: View) -> Iterator[str]:
    """Yield the runs that were started for a parent by one who does not own it."""
    for uid in after.runs.keys() - before.runs.keys():
        run = after.runs[uid]
        if run.parent is None or run.follows is not None or run.parent not in before.runs:
            continue
        parent, did = before.runs[run.parent], f"started {run.id} for {run.parent_identity}"
        if parent.state != "running":
            yield f"{process.name} {did}, but {parent.id} is {parent.state}"
        else:
            yield from _not_owner(process, before, parent, did)


def _records(process: Process, before: View, after: View) -> Iterator[str]:
    for place, record in before.records.items():
        is_changed = record.closed_at is not None and after.records.get(place) != record
        if is_changed and record.run not in after.spoiled:
            yield f"{process.name} changed {place}, which was recorded"
    for place, record in after.records.items():
        if before.records.get(place) != record and record.run not in after.spoiled:
            yield from _recorded(process, before, after, record)


def _effects(process: Process, before: View, after: View) -> Iterator[str]:
    for key, effect in after.effects.items():
        is_worker = process.is_server or process.worker is not None
        if before.effects.get(key) != effect and is_worker:
            run = before.runs[effect.run]
            yield from _not_owner(process, before, run, f"wrote {effect.name} as {effect.state}")
    # Either time will do: while the database's stands still, a worker may count on its own.
    closed = {key for key, at in before.settles.items() if after.steady >= at}
    yield from broken_ledger(before.effects, after.effects, after.now, closed)


def _moved(
    process: Process, before: View, after: View, old: RunSeen, new: RunSeen
) -> Iterator[str]:
    if old.state in TERMINAL:
        yield f"{process.name} changed {old.id}, which was over: {old} became {new}"
    if (new.state, new.reason) == ("paused", "divergence"):
        yield f"{old.id} parked as divergent, though its code has not changed"
    if (new.state, new.reason) == ("failed", "internal"):
        yield f"{old.id} failed for an error of the engine"
    if new.fence == old.fence + 1:
        yield from _raised(process, after, old, new)
    elif new.fence != old.fence:
        yield f"the fence of {old.id} went from {old.fence} to {new.fence}"
    elif old.state == "running" and new.state != "running":
        yield from _not_owner(process, before, old, f"moved it to {new.state}")


def _raised(process: Process, after: View, old: RunSeen, new: RunSeen) -> Iterator[str]:
    """Yield what is wrong with a rise of the fence: the owner, if there is one, loses the run."""
    if new.state in TERMINAL:
        return  # it was ended from outside, at once
    if new.state == "ready":
        is_own = process.is_server or old.worker in {process.worker, *process.ids}
        if old.state != "running" or not is_own:
            yield f"{process.name} released {old.id}, which belonged to {old.worker}"
        return  # its worker found it in its name and did not know it: a claim without an answer
    if new.state != "running" or not process.acts_for(new.worker):
        yield f"the fence of {old.id} rose without a claim"
    if old.state == "running" and old.worker in after.leases:
        yield f"{process.name} claimed {old.id} from {old.worker}, which has a lease"


def _recorded(process: Process, before: View, after: View, record: RecordSeen) -> Iterator[str]:
    owned = before.runs.get(record.run)
    if owned is None and _is_copied(after, record):
        return
    if owned is None or owned.state != "running":
        yield f"{process.name} recorded {record.identity} of a run that is not running: {owned}"
    else:
        yield from _not_owner(process, before, owned, f"recorded {record.identity}")
    closed_by_time = (record.kind, record.state) == ("timer", "succeeded") or (
        record.state == "timed_out"
    )
    # When the clock is put back the database's time stands still; a worker's patience does not, and
    # a wait that has lasted as long as it should is not early.
    if closed_by_time and record.due is not None and max(after.now, after.steady) < record.due:
        yield f"{record.identity} of {record.run} ended before it was due: {record}"


def _is_copied(after: View, record: RecordSeen) -> bool:
    """Say whether a new run has a record from the run that it follows."""
    run = after.runs[record.run]
    if run.follows is None:
        return False
    old = after.records.get((run.follows, record.identity, record.attempt))
    if old is not None and old._replace(run=record.run, message=record.message) == record:
        return True
    finished = (
        after.records.get((run.follows, record.identity.removeprefix("=memo."), attempt))
        for attempt in range(1, 10)
    )
    return record.kind == "memo" and any(
        each is not None and (each.state, each.payload) == (record.state, record.payload)
        for each in finished
    )


def broken_families(view: View) -> Iterator[str]:
    """Yield what is wrong between runs that have to do with each other, once all are over."""
    for run in view.runs.values():
        if run.link == "retry_of":
            yield from _redone(view, run)
    firsts: dict[tuple[str, str], str] = {}
    lasts = {run.follows: run for run in view.runs.values() if run.follows is not None}
    for run in view.runs.values():
        if run.parent is None or run.parent_identity is None or run.follows is not None:
            continue
        place = run.parent, run.parent_identity
        other = firsts.setdefault(place, run.id)
        if other != run.id:
            yield f"{place} started two runs: {other} and {run.id}"
        last = run
        while last.uid in lasts:
            last = lasts[last.uid]
        yield from _disagree(view, run, last)


def _redone(view: View, run: RunSeen) -> Iterator[str]:
    """Yield what a retry has done again though it was finished before anything failed."""
    ended = [r.seq for r in view.records.values() if r.run == run.follows and r.state in _FAILED]
    first_failure = min((seq for seq in ended if seq is not None), default=None)
    for (uid, identity, attempt), old in view.records.items():
        # In a map, items may have failed; a handler that has changed nothing prepares again.
        is_part = ":map " in identity or identity.startswith(":prepare#")
        if uid == run.follows and old.state == "succeeded" and old.seq is not None and not is_part:
            if first_failure is not None and old.seq > first_failure:
                continue  # it may have come of the failure
            new = view.records.get((run.uid, identity, attempt))
            if new is not None and new.payload != old.payload:
                yield f"{run.id} did {identity} again when it was retried"


def _disagree(view: View, child: RunSeen, last: RunSeen) -> Iterator[str]:
    assert child.parent is not None
    assert child.parent_identity is not None
    told = view.records.get((child.parent, child.parent_identity, 1))
    if told is None or told.kind == "start":
        return
    if told.closed_at is None:
        if view.runs[child.parent].state == "succeeded" and told.kind != "step":
            yield f"{child.parent} succeeded, but waits for {child.id}"
    elif told.state != last.state:
        yield f"{last.id} is {last.state}, but its parent got {told.state}"
    elif told.state == "succeeded" and told.payload != last.result:
        yield f"{last.id} has another result than its parent got"


def _not_owner(process: Process, before: View, run: RunSeen, did: str) -> Iterator[str]:
    if not process.acts_for(run.worker):
        yield f"{process.name} {did}, but {run.id} belonged to {run.worker}"
    elif run.worker not in before.leases:
        yield f"{process.name} {did} in {run.id}, but had no lease any more"
