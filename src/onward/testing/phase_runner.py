"""What stands for the store and the worker when a test runs one phase of a handler."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

from onward.codec import encode
from onward.core.ids import RANDOM_BITS, uid7
from onward.core.replay import Replay
from onward.engine.payloads import pack
from onward.errors import BadInput
from onward.model.pipelines import HandlerRow, PeekedEvent
from onward.model.runs import ClaimedRun
from onward.runtime.attempts.attempt import Attempt
from onward.runtime.body.body import Body
from onward.runtime.body.notes import Notes
from onward.runtime.context import step_now
from onward.runtime.definition import run_name
from onward.runtime.execution.rehearsal import NoCalls
from onward.runtime.execution.reporting import scope_of
from onward.runtime.pipelines.bodies import choose_effect
from onward.runtime.registry import Registry
from onward.telemetry.scope import StepScope
from onward.testing.clock import EPOCH
from onward.testing.randomness import SeededRandomness

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from onward.core.instant import Instant
    from onward.model.pipelines import FullTopic
    from onward.runtime.body.effects import EffectCall
    from onward.runtime.pipelines.definition import ConsumerDefinition, HandlerDefinition
    from onward.runtime.pipelines.phases import PhaseCall, PhaseResult, StoredPreparation
    from onward.runtime.pipelines.values import Topic


class GivenReads:
    """The state and the events that a test gives a handler, read as from a store."""

    def __init__(self, definition: HandlerDefinition, state: Any) -> None:
        self._bits = SeededRandomness(0)
        self._numbers = count(1)
        encoded = None
        if state is not None:
            encoded = pack(encode(state, path="state", annotation=definition.state))
        self.row = HandlerRow(encoded, 0, 0, EPOCH)
        self._events: list[PeekedEvent] = []

    def add(
        self,
        definition: ConsumerDefinition,
        topic: Topic[Any],
        payloads: Sequence[Any] | Mapping[str, Any],
        key: str,
        published: Instant,
    ) -> None:
        """Add events of a topic."""
        if topic.name not in {each.name for each in definition.subscribes}:
            fact = f"is not a topic that {definition.name} subscribes to"
            advice = f"Pass events of the topics that {definition.name} subscribes to."
            raise BadInput(f"{topic.name!r}", fact, advice)
        by_id = payloads if isinstance(payloads, Mapping) else _numbered(payloads)
        for message, payload in by_id.items():
            uid, seq = self.new_uid(), next(self._numbers)
            stored = topic.encode(payload)
            self._events.append(
                PeekedEvent(uid, topic.name, seq, message, key, stored, 1, 0, published)
            )

    def new_uid(self) -> str:
        """Return a new id, the same in every test."""
        return uid7(EPOCH, self._bits.bits(RANDOM_BITS))

    async def handler(self, _handler: str, _key: str) -> HandlerRow:
        """Return the state that was given."""
        return self.row

    async def peek(self, _handler: str, _key: str, topic: str, limit: int) -> list[PeekedEvent]:
        """Return the first events of a topic."""
        return [event for event in self._events if event.topic == topic][:limit]

    async def peek_ids(
        self, _handler: str, _key: str, topic: str, ids: Collection[str]
    ) -> list[PeekedEvent]:
        """Return those of these events that were given."""
        return [each for each in self._events if each.topic == topic and each.message in ids]

    async def full_topics(self, _topics: Collection[str]) -> list[FullTopic]:
        """Return none: no topic is full."""
        return []


def _numbered(payloads: Sequence[Any]) -> dict[str, Any]:
    return {str(number): payload for number, payload in enumerate(payloads, 1)}


async def run_phase(definition: HandlerDefinition, key: str, call: PhaseCall) -> PhaseResult:
    """Run a phase as code of a step, which may make no durable calls."""
    run = _claimed(definition, key)
    scope = StepScope(scope_of(run, ""), call.name, call.name, 1)
    token = step_now.set(Attempt(run, scope, NoCalls(Registry(()), EPOCH)))
    try:
        answer: PhaseResult = await call.definition.fn()
    finally:
        step_now.reset(token)
    return answer


async def run_mutate(
    definition: ConsumerDefinition, key: str, stored: StoredPreparation
) -> EffectCall | None:
    """Run `mutate` in a body, and return the effect that it chooses."""
    run = _claimed(definition, key)
    sink = NoCalls(Registry(()), EPOCH)
    body = Body(run, Replay(()), Notes({}, None, lambda *_: None), sink, scope_of(run, ""))
    body.start(choose_effect(body, definition, key, stored))
    try:
        body.advance()
        if not body.main.done():
            body.check_wait()
        call: EffectCall | None = body.main.result().call
    finally:
        body.evict()
        body.part()
    return call


def _claimed(definition: HandlerDefinition, key: str) -> ClaimedRun:
    uid, kind = uid7(EPOCH, 0), definition.run_kind
    known: dict[str, Any] = dict.fromkeys(ClaimedRun._fields) | ClaimedRun._field_defaults
    known |= {"uid": uid, "id": uid, "kind": kind, "name": run_name(kind, definition.name)}
    known |= {"queue": "default", "fence": 1, "inbox": 0, "seq": 0, "crashes": 0, "attempt": 1}
    known |= {"handler": definition.name, "handler_key": key, "cancel_with_parent": 0}
    known |= {"scheduled_at": EPOCH, "created_at": EPOCH, "started_at": EPOCH, "priority": 0}
    known |= {"tags": "", "held_by": "", "input": pack(encode({})), "args_hash": ""}
    return ClaimedRun(**known)
