"""The calls of `WorkerEngine` that are one request and one response each, as messages.

The request of a method has its parameters as fields. Its response is empty, is the row that the
method returns, or has one field with the result. Joining, claims, commits, loading and news have
functions of their own: see `onward.wire.work`.
"""

from __future__ import annotations

import inspect
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

from onward.engine.worker_engine import WorkerEngine
from onward.wire.messages import messages
from onward.wire.names import NAMES
from onward.wire.rows import Convert, FieldCodec, check_absent, codec, field_of, is_row

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN = (
    "register", "messages", "count_messages", "owned", "audit", "give_up", "keep_progress",
    "retry", "continue_run", "start", "end_of", "dismiss", "declare", "reserve_rate",
    "cached_result", "effect", "handler", "peek", "peek_ids", "full_topics", "end_handler",
    "withdraw_effects", "report_draining", "leave",
)  # fmt: skip
"""The methods that are converted by their annotations alone."""

REPEATED_SAFELY = frozenset(PLAIN)
"""Every one of them recognises its own result, so a lost answer is asked for again."""


class Method(NamedTuple):
    """A method of `WorkerEngine` as a request and a response."""

    name: str
    request: Any
    parameters: tuple[FieldCodec, ...]
    encode_result: Convert
    decode_result: Convert

    def to_request(self, arguments: Mapping[str, Any]) -> Any:
        """Return the request with these arguments."""
        given = {}
        for field in self.parameters:
            value = arguments[field.name]
            if value is not None:
                given[field.name] = value if field.encode is None else field.encode(value)
        return self.request(**given)

    def to_arguments(self, request: Any) -> dict[str, Any]:
        """Return the arguments in a request."""
        return {field.name: read_field(request, field) for field in self.parameters}


def read_field(message: Any, field: FieldCodec) -> Any:
    """Return the value of a field of a message; None if it is absent."""
    if field.has_presence and not message.HasField(field.name):
        check_absent(field)
        return None
    value = getattr(message, field.name)
    return value if field.decode is None else field.decode(value)


def _method(name: str) -> Method:
    function = getattr(WorkerEngine, name)
    hints = get_type_hints(function, localns=NAMES)
    request = _class("Request", name)
    given = request.DESCRIPTOR.fields_by_name
    names = [each for each in inspect.signature(function).parameters if each != "self"]
    parameters = tuple(field_of(hints[each], given[each]) for each in names)
    return Method(name, request, parameters, *_result(hints["return"], _class("Response", name)))


def _result(hint: Any, reply: Any) -> tuple[Convert, Convert]:
    if hint is NoneType:
        return lambda _: reply(), lambda _: None
    if is_row(hint) and reply.DESCRIPTOR.name == hint.__name__:
        row = codec(hint, reply)
        return row.to_message, row.to_row
    [only] = reply.DESCRIPTOR.fields
    field = field_of(hint, only)

    def encode(value: Any) -> Any:
        if value is None:
            return reply()
        return reply(**{field.name: value if field.encode is None else field.encode(value)})

    return encode, lambda message: read_field(message, field)


def _class(envelope: str, name: str) -> Any:
    field = getattr(messages, envelope).DESCRIPTOR.fields_by_name[name]
    return getattr(messages, field.message_type.name)


METHODS: Mapping[str, Method] = {name: _method(name) for name in PLAIN}
