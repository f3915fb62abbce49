"""The check of what a worker passes to a call: what no database could store, or would choke on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, Final

from onward.codec import Payload
from onward.core.flow import MAX_INTERVAL, FlowKind
from onward.core.instant import MAX_DURATION
from onward.engine.frame_checks.known import (
    FrameRefusal,
    number_problems,
    size_problems,
    weight_problems,
)
from onward.engine.schedules.checking import check_spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.core.flow import FlowId
    from onward.engine.frame_checks.known import FrameLimits
    from onward.model.flow import DeclaredLimits
    from onward.model.workers import Registration

MAX_KEY: Final = 1000
"""The length of a text that is part of a key of a table."""
_KEYS: Final = frozenset({"code", "handler", "key", "name", "run", "topic"})
_DECLARED: Final = frozenset({FlowKind.WORKFLOW, FlowKind.KEY})
_LENGTHS: Final = frozenset({"delay", "interval", "retry_in", "within"})


def check_arguments(limits: FrameLimits, given: Mapping[str, Any]) -> FrameRefusal | None:
    """Refuse a call with arguments that no honest worker sends."""
    return next(_problems(limits, given), None)


def check_registration(registration: Registration, limits: FrameLimits) -> FrameRefusal | None:
    """Refuse a worker whose registration cannot be stored, or says more than one thing in one.

    Raises:
        BadInput: it declares a schedule that is not valid.
    """
    listed = (*registration.queues, *registration.tags, *registration.names)
    if any("\n" in text for text in listed):
        return FrameRefusal("text", "a queue, a tag or a name contains a line break")
    names = (registration.worker, registration.host, registration.version or "", *listed)
    if max(map(len, names)) > MAX_KEY:
        return FrameRefusal("size", "a string in the registration is too long")
    for problem in _value_problems("the registration", registration, limits):
        return problem
    for flow, declared in registration.limits.items():
        if (fact := limits_problem(flow, declared)) is not None:
            return FrameRefusal("limits", f"the limits of {flow.kind} {flow.name[:100]!r} {fact}")
    handlers = [each for pipeline in registration.pipelines for each in pipeline.handlers]
    for schedule in (*registration.schedules, *(each.schedule for each in handlers)):
        if schedule is not None:
            for problem in weight_problems("a schedule", schedule, limits):
                return problem
            check_spec(schedule)
    return None


def limits_problem(flow: FlowId, limits: DeclaredLimits) -> str | None:
    """Return why code cannot declare limits; operators limit queues."""
    if flow.kind not in _DECLARED:
        return "cannot be declared: only workflows and keys have declared limits"
    numbers = (limits.max, *((limits.rate.count, limits.rate.period) if limits.rate else ()))
    if any(number is not None and number < 1 for number in numbers):
        return "are less than 1"
    return None


def _problems(limits: FrameLimits, given: Mapping[str, Any]) -> Iterator[FrameRefusal]:
    for name, value in given.items():
        yield from _value_problems(name, value, limits)
        if name in _LENGTHS and value is not None and not 0 <= value <= MAX_DURATION:
            yield FrameRefusal("number", f"{name} is not a duration: {value}")
        for text in _keys_in(name, value):
            if len(text.encode()) > MAX_KEY:
                yield FrameRefusal("size", f"{name} is too long")
    if "interval" in given and given["interval"] > MAX_INTERVAL:
        yield FrameRefusal("number", f"interval is longer than a day: {given['interval']}")
    if "flow" in given and "limits" in given:
        fact = limits_problem(given["flow"], given["limits"])
        if fact is not None:
            yield FrameRefusal("limits", f"the limits {fact}")
    if "limit" in given and not 0 <= given["limit"] <= limits.rows:
        yield FrameRefusal("number", f"limit is not between 0 and {limits.rows:,}")


def _keys_in(name: str, value: Any) -> Collection[str]:
    if name == "flow":
        return tuple(map(str, value))
    return (value,) if name in _KEYS and isinstance(value, str) else ()


def _value_problems(what: str, value: Any, limits: FrameLimits) -> Iterator[FrameRefusal]:
    """Yield what is wrong with a value, or with anything in it."""
    if isinstance(value, str):
        yield from _text_problems(what, value, limits)
    elif isinstance(value, int):
        yield from number_problems(what, (value,))
    elif isinstance(value, bytes):
        yield from size_problems(what, (value,), limits)
    else:
        parts = parts_of(value)
        if len(parts) > limits.rows:
            yield FrameRefusal("size", f"{what} has {len(parts):,} entries, which is too many")
            return
        for part in parts:
            yield from _value_problems(what, part, limits)


def _text_problems(what: str, text: str, limits: FrameLimits) -> Iterator[FrameRefusal]:
    if "\0" in text:
        yield FrameRefusal("text", f"{what} contains a NUL character")
    elif len(text) > limits.payload_bytes:
        yield FrameRefusal("size", f"{what} is too long")


def parts_of(value: Any) -> Collection[Any]:
    """Return the values that a value consists of; none if it is a single one."""
    if isinstance(value, Payload):
        return (value.data,)
    if isinstance(value, tuple):
        return value
    if is_dataclass(value):
        return [getattr(value, each.name) for each in fields(value)]
    if isinstance(value, Mapping):
        return [*value, *value.values()]
    return value if isinstance(value, Collection) else ()
