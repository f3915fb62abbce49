"""Checks of what a commit attaches: effects, cached results, and writes to pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onward.core.effect.keys import consumer_origin, effect_key
from onward.core.ids import is_uid
from onward.core.owner_rights import APPROVED_ONLY, OWNER_EFFECTS
from onward.core.run import RunKind, RunState
from onward.engine.frame_checks.known import (
    FrameRefusal,
    KnownEffect,
    length_problems,
    number_problems,
    size_problems,
    weight_problems,
)
from onward.engine.frame_checks.owners import is_end

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from onward.engine.frame_checks.known import FrameFacts, FrameLimits, HeldRun
    from onward.model.cache import CacheWrite
    from onward.model.commits import Attachments, Commit
    from onward.model.effects import EffectWrite
    from onward.model.pipelines import PipelineWrite, Preparation

MAX_RESERVED: Final = 1_000
EVENT_CHANGED: Final = "event_changed"
"""The only rule that an honest worker may break: the event was just deleted or replayed.

The answer is then that the commit is `busy`, as for any other event that cannot be reserved.
"""
_EFFECT_STATES: Final = frozenset(map(str, OWNER_EFFECTS))
_SENT: Final = frozenset(map(str, APPROVED_ONLY))


# --- effects --------------------------------------------------------------------------------------


def effects_needed(held: HeldRun, attached: Attachments) -> tuple[str, ...]:
    """Return the effects whose approval must be looked up in the ledger.

    What was written here under the same fence is known.
    """
    return tuple(
        effect.key
        for effect in attached.effects
        if effect.version > 1
        and effect.approved
        and not _may_be_approved(effect, held.effects.get(effect.key))
    )


def effect_problems(
    held: HeldRun, effects: Sequence[EffectWrite], facts: FrameFacts, limits: FrameLimits
) -> Iterator[FrameRefusal]:
    """Yield why an owner may not write these rows of the ledger."""
    if len({effect.key for effect in effects}) < len(effects):
        yield FrameRefusal("effect", "a commit writes an effect twice")
    for effect in effects:
        if effect.run != held.uid:
            yield FrameRefusal("effect", "an effect belongs to a different run than the commit")
        if effect.key != effect_key(held.origin or held.uid, effect.identity):
            yield FrameRefusal("effect", "an effect key must be derived from its run and its call")
        if effect.state in _SENT and effect.attempt < 1:
            yield FrameRefusal("effect", "an effect that was sent must have an attempt")
        if effect.state not in _EFFECT_STATES:
            yield FrameRefusal("effect", f"a worker cannot set an effect to {effect.state!r}")
        yield from _approval_problems(held, effect, facts)
        yield from _effect_number_problems(effect)
        payloads = (effect.args, effect.result, effect.error, effect.attempts)
        yield from size_problems("an effect", payloads, limits)
        if max(len(effect.title), len(effect.returns)) > limits.payload_bytes:
            yield FrameRefusal("size", "a string in an effect is too long")
        yield from weight_problems("an effect", effect, limits)


def _approval_problems(
    held: HeldRun, effect: EffectWrite, facts: FrameFacts
) -> Iterator[FrameRefusal]:
    """Yield whether a worker approves an effect itself, or sends one that is not approved.

    A first version may be approved: then its author does not ask for approval. For a later one, see
    `_may_be_approved`.
    """
    if effect.approved not in (0, 1):
        yield FrameRefusal("approval", "the approval of an effect must be 0 or 1")
    elif not effect.approved:
        if effect.state in _SENT:
            yield FrameRefusal("approval", "an effect was sent without approval")
    elif effect.version > 1:
        rows = (held.effects.get(effect.key), facts.effects.get(effect.key))
        if not any(_may_be_approved(effect, row) for row in rows):
            fact = "a worker cannot approve an effect, or change what an operator has approved"
            yield FrameRefusal("approval", fact)


def _may_be_approved(effect: EffectWrite, row: KnownEffect | None) -> bool:
    """Return whether a later version of an effect may be approved, given its row in the ledger.

    The version before it must be approved, and an operator has approved that title and those
    arguments alone. If the ledger has this version already, or a newer one, the worker may have
    missed the answer and sent the commit again. The store then writes nothing: it compares the
    rows, approval included, and answers `done` or `busy`.
    """
    if row is None:
        return False
    if row.version == effect.version - 1:
        is_same = row.fixed in (None, (effect.title, effect.args, effect.args_hash))
        return bool(row.approved) and is_same
    return row.version > effect.version or (row.version == effect.version and bool(row.approved))


def _effect_number_problems(effect: EffectWrite) -> Iterator[FrameRefusal]:
    if effect.version < 1 or effect.attempt < 0 or effect.asks < 0:
        yield FrameRefusal(
            "effect", "the version must be at least 1, and attempts and asks at least 0"
        )
    numbers = (effect.version, effect.attempt, effect.asks, effect.tries, effect.asked)
    yield from number_problems("an effect", numbers)
    lengths = (effect.start_by_in, effect.settle_in, effect.known_in, effect.due_in, effect.reach)
    yield from length_problems("an effect", lengths)


# --- cached results -------------------------------------------------------------------------------


def cache_problems(cached: Sequence[CacheWrite], limits: FrameLimits) -> Iterator[FrameRefusal]:
    """Yield why an owner may not share these results."""
    for entry in cached:
        if not entry.key or not entry.step:
            yield FrameRefusal("cache", "a cached result needs a key and a step")
        yield from size_problems("a cached result", (entry.payload,), limits)
        yield from length_problems("a cached result", (entry.length,))


# --- pipelines ------------------------------------------------------------------------------------


def events_needed(attached: Attachments) -> tuple[str, ...]:
    """Return the events that must be looked up: the keys of effects depend on their replays."""
    write = attached.pipeline
    if write is None or write.prepared is None:
        return ()
    return tuple(each.event for each in write.prepared.reserve[: MAX_RESERVED + 1])


def pipeline_problems(
    held: HeldRun, commit: Commit, facts: FrameFacts, limits: FrameLimits
) -> Iterator[FrameRefusal]:
    """Yield why an owner may not write this to pipelines, or not end without."""
    write = commit.attached.pipeline
    completes = write is not None and write.completed is not None
    succeeds = commit.move is not None and commit.move.state == RunState.SUCCEEDED
    if held.handler is not None and succeeds != completes:
        yield FrameRefusal(
            "handler", "a handler run must succeed in the commit of its last phase, and only there"
        )
    elif held.handler is not None and is_end(commit.move) and not succeeds:
        yield FrameRefusal("handler", "a handler run that fails must be ended with end_handler")
    if write is None:
        return
    if (write.handler, write.key) != (held.handler or "", held.handler_key):
        yield FrameRefusal("handler", "a run may write to pipelines only as its own handler")
    if held.handler is None and (completes or write.prepared is not None or write.inputs):
        yield FrameRefusal("handler", "a workflow may only publish events")
    if write.prepared is not None:
        yield from _preparation_problems(held, write.prepared, facts)
    if write.completed is not None:
        yield from size_problems("the state of a handler", (write.completed.state,), limits)
        yield from number_problems("a handler", (write.completed.state_version,))
    yield from _publish_problems(held, write, limits)


def _preparation_problems(
    held: HeldRun, prepared: Preparation, facts: FrameFacts
) -> Iterator[FrameRefusal]:
    if held.kind != RunKind.CONSUMER or held.handler is None:
        yield FrameRefusal("handler", "only a consumer run may reserve events")
        return
    wanted = {each.event: each.attempt for each in prepared.reserve}
    if len(prepared.reserve) > MAX_RESERVED or len(wanted) < len(prepared.reserve):
        yield FrameRefusal("handler", f"a run may reserve at most {MAX_RESERVED} distinct events")
        return
    known = facts.events
    if any(event not in known or known[event].attempt != wanted[event] for event in wanted):
        yield FrameRefusal(EVENT_CHANGED, "an event is gone, or has changed since it was read")
        return
    # It decides on the key of the effect: with that of another run, this one could change it.
    replays = [(event, known[event].replays) for event in wanted]
    if prepared.origin != consumer_origin(held.handler, held.handler_key, replays):
        yield FrameRefusal("handler", "the origin of a preparation must be derived from its events")
    yield from number_problems("a preparation", [each.attempt for each in prepared.reserve])
    yield from number_problems("a preparation", (prepared.seen,))
    yield from length_problems("a preparation", (prepared.wake_in,))


def _publish_problems(
    held: HeldRun, write: PipelineWrite, limits: FrameLimits
) -> Iterator[FrameRefusal]:
    handler = held.handler or ""
    if len(write.inputs) + len(write.published) > limits.rows:
        yield FrameRefusal("size", "a commit publishes too many events")
    for each in write.inputs:
        if not handler.startswith(f"{each.pipeline}.") or not is_uid(each.uid):
            yield FrameRefusal("handler", "an input must belong to the pipeline of its handler")
        if len(each.title) > limits.payload_bytes:
            yield FrameRefusal("size", "the title of an input is too long")
    for event in write.published:
        if not event.uid or not event.topic or not event.message:
            yield FrameRefusal("event", "an event needs a uid, a topic and an id")
        if held.topics is not None and event.topic not in held.topics:
            yield FrameRefusal("event", f"the handler does not publish to {event.topic[:200]!r}")
        yield from size_problems("an event", (event.payload,), limits)
