"""Tasks and futures of a body, which a set iterates in the same order in every replay.

A set orders what it holds by hash, and asyncio hands sets to its users (`asyncio.wait`) and cancels
in their order (`TaskGroup`). The hash of an ordinary task is its address; here it is a number that
the loop of the run counts.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")

_Task: Any = asyncio.Task
_Future: Any = asyncio.Future


class RunTask(_Task):  # type: ignore[misc] # the stub's class is generic, the real one is not
    """A task with a number for its hash; without a name it is named after that, too."""

    def __init__(
        self, number: int, coro: Coroutine[Any, Any, Any], *, name: str | None, **options: Any
    ) -> None:
        self._number = number
        super().__init__(coro, name=name or f"Task-{number}", **options)

    def __hash__(self) -> int:
        return self._number


class RunFuture(_Future):  # type: ignore[misc] # see above
    """A future with a number for its hash."""

    def __init__(self, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(**options)

    def __hash__(self) -> int:
        return self._number
