"""Retry policies as the store keeps them, with the names of the errors they speak of."""

from __future__ import annotations

import msgspec

from onward.codec import StepFailed
from onward.core.retry import Failure, Retry, failure
from onward.errors import Fatal


class _Kept(msgspec.Struct):
    attempts: int | None
    first: int
    factor: float
    most: int
    jitter: float
    only: list[str]
    never: list[str]
    within: int | None = None


def write_policy(policy: Retry) -> str:
    """Return a policy as text."""
    kept = _Kept(
        policy.attempts,
        policy.first_delay,
        policy.factor,
        policy.most_delay,
        policy.jitter,
        list(policy.only_names),
        list(policy.never_names),
        policy.within_most,
    )
    return msgspec.json.encode(kept).decode()


def read_policy(text: str) -> Retry:
    """Return the policy that a text keeps."""
    kept = msgspec.json.decode(text, type=_Kept)
    return Retry(
        kept.attempts,
        f"{kept.first}us",
        kept.factor,
        f"{kept.most}us",
        kept.jitter,
        tuple(kept.only),
        tuple(kept.never),
        None if kept.within is None else f"{kept.within}us",
    )


def facts_of(error: BaseException) -> Failure:
    """Return what a policy must know of an error that ended a run."""
    if isinstance(error, StepFailed):  # it stands for an error of a type that is not known here
        return Failure((error.type,), fatal=error.type == "onward.errors.Fatal")
    return failure(type(error), fatal=isinstance(error, Fatal))
