"""Errors of ours that a body may want to catch: they come back as themselves.

They are made of fields, so those are what is stored.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from onward.codec.failures.registry import register_error
from onward.errors import (
    BadInput,
    Conflict,
    EffectSkipped,
    NotApplied,
    NotFound,
    NotInBody,
    OnwardError,
    PayloadTooLarge,
    RunCancelled,
    RunFailed,
    TimedOut,
    TooLate,
    Unencodable,
)

_OURS: tuple[type[OnwardError], ...] = (
    BadInput,
    Conflict,
    EffectSkipped,
    NotFound,
    NotInBody,
    PayloadTooLarge,
    RunCancelled,
    RunFailed,
    TimedOut,
    TooLate,
    Unencodable,
)


def _fields(error: BaseException) -> dict[str, Any]:
    return {name: value for name, value in vars(error).items() if not name.startswith("__")}


def _made(kind: type[OnwardError], fields: dict[str, Any]) -> OnwardError:
    return kind(**fields)


for _kind in _OURS:
    register_error(
        _kind, name=f"onward.{_kind.__name__}", to_data=_fields, from_data=partial(_made, _kind)
    )

register_error(
    NotApplied,
    name="onward.NotApplied",
    to_data=lambda error: str(error),
    from_data=lambda message: NotApplied(message),
)
