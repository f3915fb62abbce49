"""Retry policies as stored text, with the names of the errors that they mention."""

from __future__ import annotations

import sys
from functools import reduce
from typing import TYPE_CHECKING

import msgspec

from onward.codec import StepFailed
from onward.core.retry import AttemptFailure, Retry, failure
from onward.errors import Fatal, Retryable

if TYPE_CHECKING:
    from onward.core.instant import Duration


class _Kept(msgspec.Struct):
    attempts: int | None
    delay: int
    factor: float
    max_delay: int
    jitter: float
    only: list[str]
    never: list[str]
    within: int | None = None


class _Limits(msgspec.Struct):
    retry: _Kept | None
    timeout: int | None


def write_policy(policy: Retry) -> str:
    """Return a policy as text."""
    return msgspec.json.encode(_kept(policy)).decode()


def _kept(policy: Retry) -> _Kept:
    return _Kept(
        policy.attempts,
        policy.shortest,
        policy.factor,
        policy.longest,
        policy.jitter,
        list(policy.only_names),
        list(policy.never_names),
        policy.within_length,
    )


def read_policy(text: str) -> Retry:
    """Return the policy in a text."""
    return _policy(msgspec.json.decode(text, type=_Kept))


def write_limits(retry: Retry | None, timeout: Duration | None) -> str | None:
    """Return the policy and timeout of a routed step as text; None if it has neither."""
    if retry is None and timeout is None:
        return None
    limits = _Limits(None if retry is None else _kept(retry), timeout)
    return msgspec.json.encode(limits).decode()


def read_limits(text: str) -> tuple[Retry | None, Duration | None]:
    """Return the policy and the timeout in a text."""
    kept = msgspec.json.decode(text, type=_Limits)
    return None if kept.retry is None else _policy(kept.retry), kept.timeout


def _policy(kept: _Kept) -> Retry:
    return Retry(
        kept.attempts,
        f"{kept.delay}us",
        kept.factor,
        f"{kept.max_delay}us",
        kept.jitter,
        tuple(kept.only),
        tuple(kept.never),
        None if kept.within is None else f"{kept.within}us",
    )


def facts_of(error: BaseException) -> AttemptFailure:
    """Return what a policy decides by, of an error that ended a run."""
    if isinstance(error, BaseExceptionGroup):
        is_fatal = any(facts_of(each).fatal for each in error.exceptions)
        return failure(type(error), fatal=is_fatal)
    if not isinstance(error, StepFailed):
        return _facts(type(error))
    kind = _found(error.type)
    return AttemptFailure((error.type, *error.bases)) if kind is None else _facts(kind)


def _facts(kind: type[BaseException]) -> AttemptFailure:
    return failure(kind, fatal=issubclass(kind, Fatal), retryable=issubclass(kind, Retryable))


def _found(name: str) -> type[BaseException] | None:
    """Return the error type of that name, if it is imported here."""
    module, _, _ = name.rpartition(".")
    while module and module not in sys.modules:  # a type may be defined in another
        module, _, _ = module.rpartition(".")
    place: object = sys.modules[module or "builtins"]
    path = name.removeprefix(f"{module}.").split(".")
    kind = reduce(lambda found, part: getattr(found, part, None), path, place)
    return kind if isinstance(kind, type) and issubclass(kind, BaseException) else None
