"""The checks of what a client asks for, before a server does it.

An app that opens the database itself is trusted: its SDK makes valid rows. A client of a server may
send any row, and its key may allow only a part of what the row could do.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from onward.codec import check_id
from onward.codec.names import check_name
from onward.core.bulk import BulkAction
from onward.core.ids import is_uid
from onward.engine.bulk import BULK_WORKFLOW
from onward.engine.frame_checks.arguments import limits_problem, parts_of
from onward.engine.frame_checks.known import DEFAULT_LIMITS, MAX_NUMBER
from onward.engine.page_sizes import SIZES, check_size
from onward.engine.payloads import JSON_MARK
from onward.engine.starting import check_run_id, check_run_options
from onward.errors import BadInput, PayloadTooLarge
from onward.model.runs import NewRun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.core.access import Principal
    from onward.core.flow import FlowId
    from onward.model.flow import DeclaredLimits

MAX_TEXT: Final = DEFAULT_LIMITS.text_chars
CONTROL: Final = "run:control"
PAYLOADS: Final = "payload:read"
MAKING_WORK: Final = frozenset(
    {
        "start",
        "retry",
        "fork",
        "act",
        "schedules.trigger",
        "schedules.backfill",
        "pipelines.publish",
        "pipelines.trigger",
        "pipelines.replay",
        "pipelines.resume",
    }
)
"""The operations that make runs or events, some of them only with certain arguments."""
SIGNAL_MESSAGE: Final = "signal "
"""What begins the id of a message that a user chose; no other message has such an id."""

_CONFLICTS: Final = frozenset({"return", "reject", "replace"})
_ENGINE_FIELDS: Final = (
    "kind",
    "parent",
    "parent_identity",
    "root",
    "follows",
    "link",
    "attempt",
    "origin",
    "handler",
    "attributes",
)
"""The fields of a run that only the engine, or the owner of its parent, sets."""
_engine_values: Final = attrgetter(*_ENGINE_FIELDS)
_UNSET: Final = _engine_values(NewRun("", "", "", b"", ""))
_CHECK: Final = "Check the program that sent the request"


def scope_needed(operation: str, given: Mapping[str, Any]) -> str | None:
    """Return the scope that a call needs because of its arguments; None: no further scope.

    A start can end another run, by replacing it or as a bulk action.
    """
    if operation != "start":
        return None
    ends_others = given["on_conflict"] == "replace" or given["run"].name == BULK_WORKFLOW
    return CONTROL if ends_others else None


def check_rights(principal: Principal, operation: str, given: Mapping[str, Any]) -> None:
    """Refuse a call that needs more than the scope of its operation.

    A bulk action chooses runs by their attributes, too. So what it does tells what these are.

    Raises:
        Forbidden: the key does not have a scope that the call needs because of its arguments.
        NamespaceDisabled: the call makes runs or events, and the namespace takes no new ones.
    """
    if (scope := scope_needed(operation, given)) is not None:
        principal.check(scope)
    if operation == "start" and given["run"].name == BULK_WORKFLOW:
        principal.check(PAYLOADS)
    if makes_work(operation, given):
        principal.check_enabled()


def makes_work(operation: str, given: Mapping[str, Any]) -> bool:
    """Return whether a call makes runs or events, or lets handlers start runs."""
    if operation == "act":
        return given["action"] in (BulkAction.RETRY, BulkAction.FORK)
    if operation == "schedules.backfill":
        return not given["dry_run"]
    return operation in MAKING_WORK


def check_client_call(operation: str, given: Mapping[str, Any], payload_bytes: int) -> None:
    """Refuse a call with arguments that no honest client sends.

    Args:
        operation: The operation.
        given: Its arguments.
        payload_bytes: The size of one payload.

    Raises:
        BadInput: an argument is not valid.
        PayloadTooLarge: a payload is larger than the limit.
    """
    for name, value in given.items():
        _check_values(name, value, payload_bytes)
    for path, maximum in SIZES.get(operation, {}).items():
        check_size(path.rpartition(".")[2], _at(given, path), maximum)
    if operation == "start":
        check_client_start(given["run"], given["on_conflict"])
    elif operation == "signal":
        check_message_id(given["message"])
    elif operation == "declare":
        check_client_limits(given["flow"], given["limits"])


def _at(given: Mapping[str, Any], path: str) -> Any:
    """Return an argument, or a field of one."""
    name, _, field = path.partition(".")
    return getattr(given[name], field) if field else given[name]


def check_client_start(run: NewRun, on_conflict: str) -> None:
    """Refuse a run that a client may not start.

    Raises:
        BadInput: the run has a field that is not valid, or that only the engine sets.
    """
    if (values := _engine_values(run)) != _UNSET:
        found = zip(_ENGINE_FIELDS, values, _UNSET, strict=True)
        field = next(field for field, value, unset in found if value != unset)
        fact = f"sets {field}, which only the engine may set"
        raise BadInput("the request to start a run", fact, "Leave it out")
    if not is_uid(run.uid):
        raise BadInput(f"run uid {run.uid[:100]!r}", "is not a version 7 UUID", "Generate one")
    if run.id != run.uid:
        check_run_id(run.id)
    if run.name != BULK_WORKFLOW:
        check_name(run.name, "the workflow")
    if on_conflict not in _CONFLICTS:
        known = ", ".join(sorted(_CONFLICTS))
        raise BadInput("on_conflict", f"is not one of {known}", "Use one of them")
    if run.cancel_with_parent not in (0, 1):
        raise BadInput("cancel_with_parent", "is not 0 or 1", _CHECK)
    check_id(run.args_hash, "the hash of the arguments")
    if run.version is not None:
        check_id(run.version, "the version")
    _check_texts(run)
    check_run_options(run)


def _check_texts(run: NewRun) -> None:
    for field in ("tags", "retry", "trace"):
        text = getattr(run, field) or ""
        if len(text) > MAX_TEXT or "\0" in text:
            fact = f"is longer than {MAX_TEXT:,} characters, or contains a NUL"
            raise BadInput(field, fact, "Use a shorter text without NUL")


def check_message_id(message: str | None) -> None:
    """Refuse the id of a signal that could be the id of another message, such as a cancel.

    A run receives a message with an id that it has received before only once, so a signal with the
    id of a cancel, or of the end of a child, would keep the run from receiving that.

    Raises:
        BadInput: it could.
    """
    if message is None or is_uid(message):
        return
    if not message.startswith(SIGNAL_MESSAGE):
        advice = f"Start the id with {SIGNAL_MESSAGE!r}, or leave it out"
        raise BadInput("the id of the signal", "could clash with the id of another message", advice)
    check_id(message.removeprefix(SIGNAL_MESSAGE), "the id of a message")


def check_client_limits(flow: FlowId, limits: DeclaredLimits) -> None:
    """Refuse limits that no start declares.

    Raises:
        BadInput: they are for something else than a workflow or a key, or allow nothing.
    """
    if (problem := limits_problem(flow, limits)) is not None:
        raise BadInput(f"the limits of {flow.kind} {flow.name[:100]!r}", problem, _CHECK)


def _check_values(name: str, value: Any, payload_bytes: int) -> None:
    """Check the numbers, texts and payloads in an argument. Each start passes here: one loop."""
    pending = [value]
    while pending:
        each = pending.pop()
        if each is None:
            continue
        if isinstance(each, str):
            if len(each) > payload_bytes:
                raise PayloadTooLarge(
                    f"a string in the argument {name!r}", len(each), payload_bytes
                )
        elif isinstance(each, int):
            if not -MAX_NUMBER <= each <= MAX_NUMBER:
                raise BadInput(name, "contains a number that is too large", _CHECK)
        elif isinstance(each, bytes):
            if (size := len(each.removeprefix(JSON_MARK))) > payload_bytes:
                raise PayloadTooLarge(f"the payload of {name}", size, payload_bytes)
        else:
            pending.extend(parts_of(each))
