"""Errors as they cross the wire: the same Python type on the other side.

Every error of Onward is made of plain fields and has a stable code, so a code and the fields are
all that is sent. Of an unexpected error only an id is sent; the server's log has the rest.
"""

from __future__ import annotations

from typing import Any

import msgspec

from onward import errors
from onward.engine.abbreviation import Unclear
from onward.errors import InvariantBroken, OnwardError, Unavailable
from onward.wire.messages import messages

_BUILT_IN: dict[str, type[Exception]] = {
    f"builtins.{kind.__name__}": kind
    for kind in (LookupError, RuntimeError, TimeoutError, TypeError, ValueError)
}
_OURS: dict[str, type[OnwardError]] = {
    kind.code: kind
    for kind in (*vars(errors).values(), Unclear)
    if isinstance(kind, type) and issubclass(kind, OnwardError) and hasattr(kind, "code")
}


def to_problem(error: BaseException) -> Any:
    """Return an error as a message; it quotes nothing of an error that is not expected."""
    if isinstance(error, OnwardError) and error.code in _OURS:
        kind = _OURS[error.code]
        fields = {name: value for name, value in vars(error).items() if not name.startswith("_")}
        return messages.Problem(
            code=kind.code,
            message=str(error),
            fields=msgspec.json.encode(fields),
            is_retryable=isinstance(error, Unavailable),
        )
    code = f"builtins.{type(error).__name__}"
    if code in _BUILT_IN:
        return messages.Problem(code=code, message=str(error))
    return messages.Problem(
        code="internal", message=f"the server failed with {type(error).__name__}"
    )


def to_error(problem: Any) -> Exception:
    """Return the error that a message stands for."""
    kind = _OURS.get(problem.code)
    if kind is not None:
        fields = msgspec.json.decode(problem.fields) if problem.fields else {}
        try:
            return kind(**fields)
        except TypeError:  # a newer server has other fields
            return _nearest(problem)
    if problem.code in _BUILT_IN:
        return _BUILT_IN[problem.code](problem.message)
    return _nearest(problem)


def _nearest(problem: Any) -> Exception:
    if problem.is_retryable:
        return Unavailable("the server", f"answered: {problem.message}")
    return InvariantBroken(f"the server answered {problem.code}: {problem.message}")


class JsonProblem(msgspec.Struct):
    """A `Problem` in JSON."""

    code: str
    message: str
    fields: msgspec.Raw = msgspec.Raw(b"{}")
    is_retryable: bool = False


def to_json_problem(error: BaseException) -> JsonProblem:
    """Return an error for JSON."""
    problem = to_problem(error)
    fields = msgspec.Raw(problem.fields or b"{}")
    return JsonProblem(problem.code, problem.message, fields, problem.is_retryable)


def from_json(problem: JsonProblem) -> Exception:
    """Return the error that a problem in JSON stands for."""
    return to_error(
        messages.Problem(
            code=problem.code,
            message=problem.message,
            fields=bytes(problem.fields),
            is_retryable=problem.is_retryable,
        )
    )
