"""What cannot be done with an effect, or is not to be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from onward.errors.root import UserError, closed


@dataclass(eq=False, repr=False)
class VerdictRefused(UserError):
    """A verdict on an effect that does not count: it is settled, has changed, or it is early."""

    code: ClassVar[str] = "verdict_refused"
    effect: str
    fact: str

    def __str__(self) -> str:
        what = f"the verdict on effect {self.effect} does not count: {self.fact}"
        return f"{closed(what)} See what can be said: onward effects show {self.effect}"


@dataclass(eq=False, repr=False)
class EffectSkipped(UserError):
    """An operator decided that the run goes on without this effect, which may have happened."""

    code: ClassVar[str] = "effect_skipped"
    effect: str

    def __str__(self) -> str:
        return (
            f"effect {self.effect!r} was skipped by an operator, and may have happened. "
            "Catch EffectSkipped to go on without it."
        )


@dataclass(eq=False, repr=False)
class TooLate(UserError):
    """The time in which an effect may be sent has passed: somebody may have judged it by now."""

    code: ClassVar[str] = "too_late"
    effect: str

    def __str__(self) -> str:
        return (
            f"effect {self.effect!r} may no longer be sent: its send window has closed. "
            "Let this exception propagate."
        )
