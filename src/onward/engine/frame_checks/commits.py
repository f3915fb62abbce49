"""The check of a commit, and what a server learns from one that it has written."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from onward.core.digest import digest
from onward.core.instant import MAX_DURATION
from onward.core.owner_rights import OwnerCall
from onward.core.replay import RecordKind, RecordState
from onward.core.run import RunState
from onward.engine.frame_checks.attachments import (
    cache_problems,
    effect_problems,
    effects_needed,
    events_needed,
    pipeline_problems,
)
from onward.engine.frame_checks.known import (
    NO_FACTS,
    NOTHING_NEEDED,
    FrameRefusal,
    KnownEffect,
    NeededFacts,
    number_problems,
    size_problems,
)
from onward.engine.frame_checks.owners import held_problem, move_problems, start_problems
from onward.model.commits import NOTHING_ATTACHED, Commit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.engine.frame_checks.known import FrameFacts, FrameLimits, HeldRun, KnownWorker
    from onward.model.effects import EffectWrite
    from onward.model.pipelines import NewEvent
    from onward.model.records import NewRecord

_KINDS: Final = frozenset(map(str, RecordKind))
_STATES: Final = frozenset(map(str, RecordState))
_MAX_COUNT: Final = 1 << 40


def check_commit(
    known: KnownWorker, commit: Commit, facts: FrameFacts = NO_FACTS
) -> FrameRefusal | None:
    """Refuse a commit that the worker may not make.

    Args:
        known: The worker, and the runs that it has.
        commit: What it wants to write.
        facts: What `facts_needed` names, read from the database.
    """
    refusal = held_problem(known, commit.run, commit.fence)
    if refusal is not None:
        return refusal
    return next(_problems(known.runs[commit.run], commit, facts, known.limits), None)


def facts_needed(known: KnownWorker, commit: Commit) -> NeededFacts:
    """Return what must be read of the database before a commit can be checked."""
    held = known.runs.get(commit.run)
    if held is None or commit.attached is NOTHING_ATTACHED:
        return NOTHING_NEEDED
    return NeededFacts(events_needed(commit.attached), effects_needed(held, commit.attached))


def as_written(commit: Commit) -> Commit:
    """Return a commit as the server writes it.

    The uid of an event follows from its topic and its id, or a worker could change the payload of
    any event.
    """
    write = commit.attached.pipeline
    if write is None or not write.published:
        return commit
    events = tuple(event._replace(uid=_event_uid(event)) for event in write.published)
    attached = replace(commit.attached, pipeline=write._replace(published=events))
    return Commit(
        commit.run,
        commit.fence,
        commit.records,
        commit.move,
        starts=commit.starts,
        attached=attached,
    )


def _event_uid(event: NewEvent) -> str:
    return digest("event", event.topic, event.message)


def after_commit(held: HeldRun, commit: Commit) -> HeldRun | None:
    """Return a run as it is held once a commit was written; None if its owner let go of it.

    Its effects are noted in place, because a run may have many thousands.
    """
    if commit.move is not None and commit.move.state != RunState.RUNNING:
        return None
    attached = commit.attached
    for effect in attached.effects:
        if _is_approved_elsewhere(held, effect):
            held.effects.pop(effect.key, None)
        else:
            held.effects[effect.key] = KnownEffect(effect.version, effect.approved)
    if attached.pipeline is not None and attached.pipeline.prepared is not None:
        held = replace(held, origin=attached.pipeline.prepared.origin)
    return held


def _is_approved_elsewhere(held: HeldRun, effect: EffectWrite) -> bool:
    """Return whether an effect may have been approved by an operator, who saw its arguments."""
    if effect.version == 1 or not effect.approved:
        return False
    return held.effects.get(effect.key) != (effect.version - 1, 1, None)


def _problems(
    held: HeldRun, commit: Commit, facts: FrameFacts, limits: FrameLimits
) -> Iterator[FrameRefusal]:
    rows, size = commit.weigh()
    if rows > limits.rows or size > limits.commit_bytes:
        yield FrameRefusal("size", f"a commit of {rows:,} rows and {size:,} bytes is too large")
    for record in commit.records:
        if not _is_plain(record, held, limits):
            yield from _record_problems(record, held, limits)
    if commit.is_plain:
        return
    if commit.messages:
        yield FrameRefusal("message", "a commit from a worker must not contain messages")
    if commit.move is not None:
        yield from move_problems(held, commit.move, OwnerCall.COMMIT, limits)
    for start in commit.starts:
        yield from start_problems(held, start, limits)
    yield from effect_problems(held, commit.attached.effects, facts, limits)
    yield from cache_problems(commit.attached.cached, limits)
    yield from pipeline_problems(held, commit, facts, limits)


def _is_plain(record: NewRecord, held: HeldRun, limits: FrameLimits) -> bool:
    """Return whether a record is like nearly all: one look at each field finds nothing."""
    run, identity, attempt, seq, kind, _, state, _, _, due, due_in, message = record[:12]
    payload, error, took, args = record[12:]
    return (
        run == held.uid
        and kind in _KINDS
        and state in _STATES
        and identity != ""
        and 0 < attempt <= _MAX_COUNT
        and _is_position(seq)
        and _has_its_position(kind, state, seq)
        and due is None
        and due_in is None
        and message is None
        and 0 <= took <= MAX_DURATION
        and len(payload or b"") + len(error or b"") + len(args or b"") <= limits.payload_bytes
    )


def _is_position(seq: int | None) -> bool:
    return seq is None or 0 < seq <= _MAX_COUNT


def _has_its_position(kind: str, state: str, seq: int | None) -> bool:
    """Return whether only a closed record has a position, and a time or random value has one."""
    return state != RecordState.OPEN if seq is not None else kind != RecordKind.CLOCK


def _record_problems(
    record: NewRecord, held: HeldRun, limits: FrameLimits
) -> Iterator[FrameRefusal]:
    if record.run != held.uid:
        yield FrameRefusal("record", "a record belongs to a different run than the commit")
    if record.kind not in _KINDS or record.state not in _STATES or not record.identity:
        yield FrameRefusal("record", "a record needs an identity, a known kind and a known state")
    if not 0 < record.attempt <= _MAX_COUNT or not _is_position(record.seq):
        yield FrameRefusal("record", "attempts and positions must be at least 1")
    if not _has_its_position(record.kind, record.state, record.seq):
        yield FrameRefusal("record", "an open record has a position, or a clock record has none")
    for length in (record.due_in, record.took):
        if length is not None and not 0 <= length <= MAX_DURATION:
            yield FrameRefusal("number", "a record has an impossible duration")
    yield from number_problems("a record", (record.due, record.message))
    yield from size_problems("a record", (record.payload, record.error, record.args), limits)
