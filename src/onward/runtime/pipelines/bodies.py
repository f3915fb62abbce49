"""The bodies of handlers' runs: the engine writes them, and user code fills in the phases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from onward.codec import Payload, encode
from onward.errors import BadInput, EffectSkipped
from onward.runtime.body.effects import Applied, EffectCall
from onward.runtime.body.settling import until_settled
from onward.runtime.context import body_of_run
from onward.runtime.definition import Program
from onward.runtime.pipelines.contexts import MutateContext
from onward.runtime.pipelines.failures import ReservationLost
from onward.runtime.pipelines.phases import next_call, prepare_call, produce_call
from onward.runtime.pipelines.values import Nothing, Skipped

if TYPE_CHECKING:
    from onward.runtime.body.body import Body
    from onward.runtime.body.calls import Call
    from onward.runtime.pipelines.definition import ConsumerDefinition, ProducerDefinition
    from onward.runtime.pipelines.phases import StoredPreparation
    from onward.runtime.pipelines.ports import HandlerReads
    from onward.runtime.pipelines.values import Outcome

MAX_LOST = 100
"""How often a run prepares again because others took its events."""


class HandlerShape:
    """The input and result of a handler's run: there are none."""

    def decode(self, _payload: Payload) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return (), {}

    def encode_result(self, value: object) -> Payload:
        return encode(value)


def consumer_program(definition: ConsumerDefinition, reads: HandlerReads, code: str) -> Program:
    """Return what a run of a consumer executes."""

    async def consume() -> None:
        body = body_of_run()
        key = body.run.handler_key
        stored = await _prepare(body, definition, key, reads)
        outcome = await _mutate(body, definition, key, stored)
        await body.ask(next_call(definition, key, reads, stored, outcome))

    return Program(consume, HandlerShape(), code=code, transient=definition.retry)


def producer_program(definition: ProducerDefinition, reads: HandlerReads, code: str) -> Program:
    """Return what a run of a producer executes."""

    async def produce() -> None:
        body = body_of_run()
        await body.ask(produce_call(definition, body.run.handler_key, reads))

    return Program(produce, HandlerShape(), code=code, transient=definition.retry)


async def _prepare(
    body: Body, definition: ConsumerDefinition, key: str, reads: HandlerReads
) -> StoredPreparation:
    for _ in range(MAX_LOST):
        try:
            stored: StoredPreparation = await body.ask(prepare_call(definition, key, reads))
        except ReservationLost:
            continue  # an operator skipped one of the events, for example
        return stored
    raise BadInput(
        f"{definition.name}.prepare",
        f"reserved events that were no longer pending, {MAX_LOST} times in a row",
        "Reserve only what ctx.peek(...) has just returned.",
    )


# --- mutate chooses one effect --------------------------------------------------------------------


class Chosen(BaseException):
    """`mutate` has awaited its effect: thrown to unwind it, so that nothing follows the effect."""


class ChosenEffect:
    """The effect that `mutate` chooses: while it runs, every call of the body comes here."""

    def __init__(self, handler: str) -> None:
        self._handler = handler
        self.call: EffectCall | None = None
        self.key: str | None = None
        self._wrong: BadInput | None = None

    def take(self, call: Call, key: str | None) -> NoReturn:
        """Take the first effect, and refuse everything else."""
        if isinstance(call, EffectCall) and self.call is None:
            self.call, self.key = call, key
            raise Chosen
        what = f"{call.kind} {call.name!r}"
        if isinstance(call, EffectCall):
            fact, advice = "is a second effect", "Choose one effect; leave the rest to another run."
        else:
            fact, advice = "is not an effect", "Do this in prepare or next."
        self._wrong = BadInput(f"{self._handler}.mutate", f"awaited {what}, which {fact}", advice)
        raise self._wrong

    def check(self) -> None:
        """Raise what was wrong, even if `mutate` has caught it."""
        if self._wrong is not None:
            raise self._wrong


async def choose_effect(
    body: Body, definition: ConsumerDefinition, key: str, stored: StoredPreparation
) -> ChosenEffect:
    """Let `mutate` choose the effect of a run; without reserved events there is none.

    Raises:
        BadInput: it awaited something that is no effect, or a second effect.
    """
    choice = ChosenEffect(definition.name)
    if definition.mutate is None or not stored.events:
        return choice
    body.choice = choice
    try:
        await definition.mutate(MutateContext(definition, key), stored.prepared(definition.data))
    except Chosen:
        pass
    finally:
        body.choice = None
    choice.check()
    return choice


async def _mutate(
    body: Body, definition: ConsumerDefinition, key: str, stored: StoredPreparation
) -> Outcome:
    """Carry out the effect that `mutate` chooses, and return the outcome."""
    choice = await choose_effect(body, definition, key, stored)
    call = choice.call
    if call is None:
        return Nothing()
    call.root = stored.origin(definition.name, key)
    call.title = stored.title or call.name
    # A row under this key may be there since an earlier attempt at the same events.
    is_retry = body.run.follows is not None
    call.may_have_row = is_retry or any(event.attempt > 1 for event in stored.events)
    try:
        return Applied(await until_settled(body.ask(call, choice.key)))
    except EffectSkipped:
        return Skipped()
