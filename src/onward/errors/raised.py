"""Exceptions that user code raises to control retries."""

from __future__ import annotations

from typing import Any


class Retryable(Exception):
    """Raise this in a step to have the step tried again, if its retry policy has attempts left.

    Args:
        message: What happened.
        after: How long to wait: a string such as "30s", a number of seconds, or a timedelta. By
            default, the delay of the retry policy.

    Example:
        >>> from onward import Retryable, step
        >>> @step
        ... async def fetch_rates() -> str:
        ...     raise Retryable("the bank is busy", after="30s")
    """

    def __init__(self, message: str = "", *, after: Any = None) -> None:
        super().__init__(message)
        self.after = after


class Fatal(Exception):
    """Raise this in a step that must not be tried again, regardless of its retry policy.

    Example:
        >>> from onward import Fatal, step
        >>> @step
        ... async def take_money(card: str) -> str:
        ...     if card == "stolen":
        ...         raise Fatal("the card was reported stolen")
        ...     return "paid"
    """


class NotApplied(Exception):
    """An effect definitely did not happen.

    The handler of an effect raises it if the call definitely changed nothing; the effect is then
    retried according to its policy. A reconciler returns or raises it. A workflow body receives it
    when an effect did not happen and is not retried, or when an operator rejected the effect.

    Args:
        message: What happened.
        after: How long to wait before the next attempt; by default, the delay of the retry policy.

    Example:
        >>> from onward import NotApplied, effect
        >>> @effect
        ... async def open_gate(number: int) -> None:
        ...     raise NotApplied("the gate is offline", after="10s")
    """

    def __init__(self, message: str = "", *, after: Any = None) -> None:
        super().__init__(message)
        self.after = after


class NeedsApproval(Exception):
    """Raise this in a pipeline handler if a person must grant access, for example by logging in.

    The run pauses with the reason `approval`. Resume it when access has been granted.

    Example:
        >>> from onward.errors import NeedsApproval
        >>> raise NeedsApproval("the inbox requires a new login")
        Traceback (most recent call last):
        onward.errors.NeedsApproval: the inbox requires a new login
    """


class Precondition(Exception):
    """Raise this in a pipeline handler if the handler cannot proceed because something is missing.

    The run pauses with the reason `precondition`. Resume it when the precondition is met.

    Example:
        >>> from onward.errors import Precondition
        >>> raise Precondition("the sheet 'Orders' does not exist")
        Traceback (most recent call last):
        onward.errors.Precondition: the sheet 'Orders' does not exist
    """
