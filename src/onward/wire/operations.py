"""The operations of clients as JSON: one table with the types and the scope of each.

An operation is a method of `ClientEngine`, of its schedules or of its pipelines. Its arguments are
a JSON object with the names of the parameters, its result is JSON; the annotations of the method
say what is in them. A server allows only what this table names, to keys that have the scope. A key
without `payload:read` gets results without payloads, which the annotations mark.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from types import GenericAlias, NoneType
from typing import Any, NamedTuple, get_type_hints

import msgspec

from onward.codec import decode_error, encode_error
from onward.engine.client_engine import ClientEngine
from onward.engine.payloads import pack, unpack
from onward.engine.pipeline_engine import PipelineEngine
from onward.engine.redaction import redacted
from onward.engine.schedule_engine import ScheduleEngine
from onward.model.schedules import ScheduleSpec
from onward.wire.names import NAMES
from onward.wire.problems import JsonProblem, from_json, to_json_problem

_SCOPES = {
    "run:start": "start declare",
    "signal:send": "signal",
    "run:control": "cancel pause resume retry fork act discard purge_cache",
    "queue:write": "change_flow",
    "worker:admin": "drain_worker",
    "effect:resolve": "resolve approve",
    "ns:admin": "examine reset_clock accept_steps restart_waits prune",
    "run:read": "list_flows find_call queue_served find newest why list_runs count_children "
    "count_runs failure_groups now counts unserved check_served list_workers stats begun_runs "
    "read_clock info report history pending_signals pending_effects all_effects "
    "effects_beginning effects_of find_effect effect effect_choices",
    "payload:read": "end_now open_runs recorded_arguments list_cache",
}
_SCHEDULE_SCOPES = {
    "run:read": "all get preview first_slots slots",
    "schedule:write": "create declare update pause resume trigger backfill delete",
}
_PIPELINE_SCOPES = {
    "run:read": "all get topics counts inputs input_counts peek input",
    "event:publish": "publish",
    "pipeline:write": "declare trigger pause resume replay skip skip_input",
}
_ScheduleChanges: Any = msgspec.defstruct(
    "ScheduleChanges",
    [
        (name, hint | msgspec.UnsetType, msgspec.UNSET)
        for name, hint in get_type_hints(ScheduleSpec).items()
    ],
    forbid_unknown_fields=True,
)
_HINTS: Mapping[tuple[str, str], Any] = {("schedules.update", "changes"): _ScheduleChanges}
"""Types that say more than the annotation of a parameter."""

NOT_REMOTE = frozenset({"worker", "new_uid", "within", "locate", "end_of"})
"""Methods of `ClientEngine` that are no operations: see `onward.wire.remote_client`."""


class Operation(NamedTuple):
    """One operation: who may use it, and how its arguments and result are encoded."""

    name: str
    scope: str
    arguments: msgspec.json.Decoder[Any]
    result: msgspec.json.Decoder[Any]
    group: str
    method: str
    hints: Mapping[str, Any]
    """The annotations of the method, with the marks of payloads."""

    def read_arguments(self, data: bytes) -> dict[str, Any]:
        """Return the arguments in JSON.

        Raises:
            msgspec.ValidationError: they do not fit the annotations.
        """
        given = msgspec.structs.asdict(self.arguments.decode(data))
        for name, value in given.items():
            if isinstance(value, _ScheduleChanges):
                fields = msgspec.structs.asdict(value).items()
                given[name] = {field: each for field, each in fields if each is not msgspec.UNSET}
        return given

    def read_result(self, data: bytes) -> Any:
        """Return the result in JSON."""
        return self.result.decode(data)

    def without_payloads(self, result: Any) -> Any:
        """Return a result for a caller that may not read payloads."""
        return redacted(result, self.hints["return"])

    def selects_by_payload(self, arguments: Mapping[str, Any]) -> bool:
        """Return whether arguments choose by payloads, which tells the caller what these are."""
        return any(redacted(each, self.hints[name]) != each for name, each in arguments.items())


def to_json(value: object) -> bytes:
    """Return arguments or a result as JSON."""
    try:
        return _ENCODER.encode(value)
    except UnicodeEncodeError:  # nothing in a database has such a name: let it be looked for
        return _ENCODER.encode(_without_surrogates(value))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, Mapping):
        return {key: _without_surrogates(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(_without_surrogates, value))
    return value


def _encode_error(value: object) -> object:
    if isinstance(value, BaseException):
        return pack(encode_error(value))
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} cannot be sent")


def _decode_error(kind: type, value: object) -> object:
    if issubclass(kind, BaseException):
        assert isinstance(value, str)
        return decode_error(unpack(msgspec.convert(value, bytes)))
    raise NotImplementedError(f"{kind.__name__} cannot be received")


_ENCODER = msgspec.json.Encoder(enc_hook=_encode_error)


def _operations(interface: type, group: str, scopes: Mapping[str, str]) -> Mapping[str, Operation]:
    return {
        f"{group}{method}": _operation(interface, group, method, scope)
        for scope, methods in scopes.items()
        for method in methods.split()
    }


def _operation(interface: type, group: str, method: str, scope: str) -> Operation:
    function = getattr(interface, method)
    hints = get_type_hints(function, localns=NAMES)
    hints |= {at: hint for (of, at), hint in _HINTS.items() if of == f"{group}{method}"}
    fields = [
        (name, hints[name]) if each.default is each.empty else (name, hints[name], each.default)
        for name, each in inspect.signature(function).parameters.items()
        if name != "self"
    ]
    arguments = msgspec.defstruct(
        f"{group}{method}".replace(".", "_"), fields, forbid_unknown_fields=True
    )
    result = hints["return"]
    return Operation(
        f"{group}{method}",
        scope,
        msgspec.json.Decoder(arguments, dec_hook=_decode_error),
        msgspec.json.Decoder(None if result is NoneType else result, dec_hook=_decode_error),
        group.rstrip("."),
        method,
        get_type_hints(function, localns=NAMES, include_extras=True),
    )


OPERATIONS: Mapping[str, Operation] = {
    **_operations(ClientEngine, "", _SCOPES),
    **_operations(ScheduleEngine, "schedules.", _SCHEDULE_SCOPES),
    **_operations(PipelineEngine, "pipelines.", _PIPELINE_SCOPES),
}


class OperationBatch(NamedTuple):
    """Many calls of one operation in one call; each has a result or a problem of its own."""

    name: str
    each: Operation
    arguments: msgspec.json.Decoder[Any]
    result: msgspec.json.Decoder[Any]

    def read_items(self, data: bytes) -> list[bytes]:
        """Return the JSON of the arguments of each call.

        Raises:
            msgspec.DecodeError: there are no such items.
        """
        return [bytes(item) for item in self.arguments.decode(data).items]

    def write_answers(self, answers: Iterable[object]) -> bytes:
        """Return the results, or the errors, of all calls in their order."""
        return to_json(
            [
                {"problem": to_json_problem(answer)}
                if isinstance(answer, BaseException)
                else {"result": answer}
                for answer in answers
            ]
        )

    def read_answers(self, data: bytes) -> list[Any]:
        """Return the results, or the errors, of all calls in their order."""
        return [
            item.result if item.problem is None else from_json(item.problem)
            for item in self.result.decode(data)
        ]


def _batch(name: str) -> OperationBatch:
    each = OPERATIONS[name]
    # Each item is decoded by itself: one that does not fit must not fail the others.
    arguments = msgspec.defstruct(
        f"{name}_many", [("items", list[msgspec.Raw])], forbid_unknown_fields=True
    )
    answer = msgspec.defstruct(
        f"{name}_answer",
        [
            ("result", each.result.type and each.result.type | None, None),
            ("problem", JsonProblem | None, None),
        ],
    )
    return OperationBatch(
        f"{name}_many",
        each,
        msgspec.json.Decoder(arguments),
        msgspec.json.Decoder(GenericAlias(list, answer), dec_hook=_decode_error),
    )


BATCHES: Mapping[str, OperationBatch] = {
    batch.name: batch for batch in (_batch("start"), _batch("signal"))
}
"""`start_many` and `signal_many`: {"items": [...]} and [{"result": …} or {"problem": …}, ...]."""
