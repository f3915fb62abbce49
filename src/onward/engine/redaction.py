"""Payloads in answers: the fields that hold them, and answers without them.

The annotations of views name the fields with data of users: `PayloadValue` and `PayloadText`. For a
caller that may not read payloads, `redacted` replaces them, wherever they are in an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass, replace
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

REDACTED: Final = "[redacted]"
"""What stands in the place of a payload."""

PAYLOAD: Final = "payload"
"""Marks the annotation of a field that holds data of users."""

PayloadValue = Annotated[Any, PAYLOAD]
"""Arguments, results and other data, as plain values."""

PayloadText = Annotated[str, PAYLOAD]
"""Text that quotes data, such as the message of an error."""


def redacted(value: Any, hint: Any) -> Any:
    """Return a value of an annotated type without its payloads; what is missing stays missing."""
    if value is None:
        return None
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return REDACTED if value != "" and PAYLOAD in args[1:] else redacted(value, args[0])
    if origin in (Union, UnionType):
        return redacted(value, _arm(value, args))
    if isinstance(value, Mapping) and args:
        return {key: redacted(each, args[1]) for key, each in value.items()}
    if isinstance(value, tuple) and origin is tuple and args[-1] is not Ellipsis:
        return tuple(map(redacted, value, args))
    if isinstance(value, (list, tuple)) and args:
        return type(value)(redacted(each, args[0]) for each in value)
    if is_dataclass(hint):
        return replace(value, **_changes(value, hint))
    if hasattr(hint, "_fields"):
        return value._replace(**_changes(value, hint))
    return value


def _arm(value: object, arms: Sequence[Any]) -> Any:
    """Return the member of a union that a value is of; a marked one, if that is not clear."""
    for arm in arms:
        if isinstance(arm, type) and isinstance(value, arm):
            return arm
    return next((arm for arm in arms if get_origin(arm) is not None), arms[0])


def _changes(value: object, hint: Any) -> dict[str, Any]:
    found = {name: redacted(getattr(value, name), each) for name, each in _hints(hint).items()}
    return {name: each for name, each in found.items() if each is not getattr(value, name)}


_hints: Callable[[Any], dict[str, Any]] = cache(
    lambda kind: get_type_hints(kind, include_extras=True)
)
