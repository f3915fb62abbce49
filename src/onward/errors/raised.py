"""Exceptions that user code raises to control retries."""

from __future__ import annotations

from typing import Any


class Retryable(Exception):
    """Raise it in a step that should be tried again, as far as its policy has attempts left.

    Args:
        message: What happened.
        after: How long to wait ("30s", seconds, or a timedelta); by default what the policy says.

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
    """Raise it in a step that must not be tried again, whatever its policy says.

    Example:
        >>> from onward import Fatal, step
        >>> @step
        ... async def take_money(card: str) -> str:
        ...     if card == "stolen":
        ...         raise Fatal("the card was reported stolen")
        ...     return "paid"
    """


class NotApplied(Exception):
    """An effect that did not happen, for sure.

    A handler raises it when it knows that nothing was changed outside; it is then tried again as
    far as its policy goes. A reconciler returns or raises it. A body gets it when an effect did not
    happen and is not tried again, or was rejected.

    Args:
        message: What happened.
        after: How long to wait before the next attempt; by default what the policy says.

    Example:
        >>> from onward import NotApplied, effect
        >>> @effect
        ... async def open_gate(number: int) -> None:
        ...     raise NotApplied("the gate is offline", after="10s")
    """

    def __init__(self, message: str = "", *, after: Any = None) -> None:
        super().__init__(message)
        self.after = after
