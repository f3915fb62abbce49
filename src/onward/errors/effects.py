"""Errors about effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from onward.errors.root import UserError, closed


@dataclass(eq=False, repr=False)
class VerdictRefused(UserError):
    """A verdict was refused: the effect is settled or has changed, or the verdict is too early."""

    code: ClassVar[str] = "verdict_refused"
    effect: str
    fact: str

    def __str__(self) -> str:
        what = f"the verdict on effect {self.effect} was refused: {self.fact}"
        return f"{closed(what)} See which verdicts are possible: onward effects show {self.effect}"


@dataclass(eq=False, repr=False)
class EffectSkipped(UserError):
    """An operator skipped this effect, although it may have happened.

    Catch this error to continue without the effect.
    """

    code: ClassVar[str] = "effect_skipped"
    effect: str

    def __str__(self) -> str:
        return (
            f"effect {self.effect!r} was skipped by an operator, and may have happened. "
            "Catch EffectSkipped to continue without it."
        )


@dataclass(eq=False, repr=False)
class TooLate(UserError):
    """The send window of an effect has closed, so the effect may no longer be sent.

    Let this exception propagate.
    """

    code: ClassVar[str] = "too_late"
    effect: str

    def __str__(self) -> str:
        return (
            f"effect {self.effect!r} may no longer be sent: its send window has closed. "
            "Let this exception propagate."
        )
