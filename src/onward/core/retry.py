"""Retry: how often something is tried, how long between, and for which errors.

One type serves steps, whole runs, asking a reconciler and repairs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from onward.core.instant import DurationLike, duration, show
from onward.core.value import Value
from onward.errors import BadInput, InvariantBroken

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from onward.core.instant import Duration

ErrorName: TypeAlias = type[BaseException] | str


@dataclass(frozen=True, slots=True)
class Retry:
    """A retry policy: how many times to try, and how long to wait between attempts.

    Args:
        attempts: The maximum number of attempts, including the first; None means no limit.
        delay: How long to wait after the first attempt.
        factor: The factor by which each wait grows.
        max_delay: The longest wait, before jitter.
        jitter: The maximum random extension of a wait, as a fraction of its length. Waits are never
            shortened.
        only: The errors to retry, as types or names; by default all errors.
        never: The errors not to retry.
        within: How long all attempts together may take.

    Example:
        >>> from onward import Retry, step
        >>> @step(retry=Retry(attempts=5, delay="1s", max_delay="1m", only=ConnectionError))
        ... async def fetch(url: str) -> str:
        ...     return f"the page at {url}"
    """

    attempts: int | None = 3
    delay: DurationLike = field(default="1s", compare=False)
    factor: float = 2.0
    max_delay: DurationLike = field(default="1m", compare=False)
    jitter: float = 0.1
    only: Collection[ErrorName] | ErrorName = field(default=(), compare=False)
    never: Collection[ErrorName] | ErrorName = field(default=(), compare=False)
    within: DurationLike | None = field(default=None, compare=False)
    shortest: Duration = field(init=False, repr=False)
    longest: Duration = field(init=False, repr=False)
    within_length: Duration | None = field(init=False, repr=False)
    only_names: tuple[str, ...] = field(init=False, repr=False)
    never_names: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        _check_attempts(self.attempts)
        _check_number("factor", self.factor, 1.0, math.inf, 'Write "factor=1" for equal waits.')
        _check_number("jitter", self.jitter, 0.0, 1.0, 'Write "jitter=0" for exact waits.')
        shortest, longest = duration(self.delay), duration(self.max_delay)
        if shortest > longest:
            raise BadInput(
                f"retry delay={show(shortest)}",
                f"is longer than max_delay={show(longest)}",
                "Raise max_delay, or shorten delay.",
            )
        # What was given stays as it was, so that `replace()` does not read microseconds as seconds.
        object.__setattr__(self, "shortest", shortest)
        object.__setattr__(self, "longest", longest)
        object.__setattr__(self, "within_length", _within(self.within))
        object.__setattr__(self, "only_names", _names("only", self.only))
        object.__setattr__(self, "never_names", _names("never", self.never))

    def delay_after(self, attempt: int, randomness: float) -> Duration:
        """Return the wait after the failure of `attempt` (from 1); `randomness` is from 0 to 1."""
        if attempt < 1 or not 0 <= randomness <= 1:
            raise InvariantBroken(
                f"there is no wait after attempt {attempt} with randomness {randomness}"
            )
        grown = self._grown(attempt)
        return grown + math.floor(grown * self.jitter * randomness)

    def _grown(self, attempt: int) -> Duration:
        if self.shortest == 0 or self.factor == 1:
            return self.shortest
        # Compared as logarithms: the power itself would overflow for a late attempt.
        doublings = (attempt - 1) * math.log(self.factor)
        if doublings >= math.log(self.longest) - math.log(self.shortest):
            return self.longest
        return min(self.longest, round(self.shortest * self.factor ** (attempt - 1)))


def check_retry(given: object) -> None:
    """Refuse what is no policy.

    Raises:
        BadInput: it is something else, such as a number of attempts.
    """
    if given is not None and not isinstance(given, Retry):
        is_count = isinstance(given, int) and not isinstance(given, bool)
        advice = f"Write retry=Retry(attempts={given})" if is_count else "Write retry=Retry(...)"
        raise BadInput(f"retry={given!r}", "is not a Retry", advice)


def error_name(kind: ErrorName) -> str:
    """Return the name by which a type of error is kept and compared, also after storage."""
    if isinstance(kind, str):
        return kind
    return kind.__qualname__ if kind.__module__ == "builtins" else _qualified(kind)


def _qualified(kind: type[BaseException]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _names(what: str, given: object) -> tuple[str, ...]:
    kinds = given if isinstance(given, tuple | list | set | frozenset) else (given,)
    names: set[str] = set()
    for kind in kinds:
        is_type = isinstance(kind, type) and issubclass(kind, BaseException)
        if not (is_type or (isinstance(kind, str) and kind)):
            shown = (
                kind.__name__
                if isinstance(kind, type)
                else f"a value of type {type(kind).__name__}"
            )
            raise BadInput(
                f"retry option {what}=", f"contains {shown}", "Use exception types, or their names."
            )
        names.add(error_name(kind))
    return tuple(sorted(names))


def _check_attempts(attempts: object) -> None:
    if attempts is None:
        return
    if not isinstance(attempts, int) or isinstance(attempts, bool) or attempts < 1:
        raise BadInput(
            f"retry attempts={attempts!r}",
            "is not a positive whole number",
            "Use 1 to try once.",
        )


def _within(given: DurationLike | None) -> Duration | None:
    if given is None:
        return None
    within = duration(given)
    if within == 0:
        raise BadInput("retry within=0", "leaves no time for an attempt", "Allow more time.")
    return within


def _check_number(what: str, value: object, least: float, most: float, advice: str) -> None:
    match value:
        case bool():
            pass
        case int() | float() if math.isfinite(value) and least <= value <= most:
            return
    span = f"of at least {least:g}" if most == math.inf else f"from {least:g} to {most:g}"
    raise BadInput(f"retry {what}={value!r}", f"is not a number {span}", advice)


# --- presets --------------------------------------------------------------------------------------

STEPS = Retry()
ONCE = Retry(attempts=1)
RECONCILING = Retry(attempts=5, delay="10s", max_delay="10m")
REPAIRS = Retry(attempts=3, delay="0s")


# --- the decision ---------------------------------------------------------------------------------


class AttemptFailure(Value):
    """What a policy must know of an error.

    `names` are its type and the bases of that; `fatal` and `retryable` say that the code which
    raised it has decided, `after` for how long.
    """

    names: tuple[str, ...] = ()
    fatal: bool = False
    retryable: bool = False
    after: Duration | None = None


class Why(StrEnum):
    """Why something is not tried again."""

    FATAL = "fatal"
    NEVER = "never"
    NOT_LISTED = "not_listed"
    EXHAUSTED = "exhausted"
    TOO_LATE = "too_late"


class Again(Value):
    """Try again after this long."""

    after: Duration


class GiveUp(Value):
    """Do not try again."""

    why: Why


def failure(
    kind: type[BaseException],
    *,
    fatal: bool = False,
    retryable: bool = False,
    after: Duration | None = None,
) -> AttemptFailure:
    """Return what a policy must know of an error of this type."""
    return AttemptFailure(_lineage(kind.__mro__), fatal, retryable, after)


def _lineage(kinds: Iterable[type]) -> tuple[str, ...]:
    return tuple(error_name(kind) for kind in kinds if issubclass(kind, BaseException))


def decide(
    policy: Retry, attempt: int, error: AttemptFailure, randomness: float, elapsed: Duration = 0
) -> Again | GiveUp:
    """Return whether to try again after `attempt` (from 1) failed with `error`.

    `elapsed` is the time since the first attempt began.
    """
    if error.fatal:
        return GiveUp(Why.FATAL)
    if _meet(policy.never_names, error.names):
        return GiveUp(Why.NEVER)
    if policy.only_names and not error.retryable and not _meet(policy.only_names, error.names):
        return GiveUp(Why.NOT_LISTED)
    if not has_more(policy, attempt):
        return GiveUp(Why.EXHAUSTED)
    after = (
        policy.delay_after(attempt, randomness=randomness) if error.after is None else error.after
    )
    if policy.within_length is not None and elapsed + after >= policy.within_length:
        return GiveUp(Why.TOO_LATE)
    return Again(after)


def has_more(policy: Retry, attempt: int) -> bool:
    """Return whether another attempt may follow this one (from 1), whatever came of it."""
    return policy.attempts is None or attempt < policy.attempts


def _meet(listed: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return any(name in listed for name in names)
