"""Tasks and futures of a body, which a set iterates in the same order in every replay.

A set orders what it holds by hash, and asyncio hands sets to its users (`asyncio.wait`) and cancels
in their order (`TaskGroup`). The hash of an ordinary task is its address; here it is a number that
the loop of the run counts. A task adds a salt of its run, because asyncio keeps the tasks of all
runs in one set, where the first tasks of a thousand runs would all collide.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar
from zlib import crc32

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

T = TypeVar("T")

_SALT_AT_BIT = 12
"""Above the numbers that most runs come to: within a run they decide the order alone."""

_Task: Any = asyncio.Task
_Future: Any = asyncio.Future


def salt_of(seed: str) -> int:
    """Return what the hashes of a run's tasks begin with: the same in every replay."""
    return crc32(seed.encode()) << _SALT_AT_BIT


class RunTask(_Task):  # type: ignore[misc] # the stub's class is generic, the real one is not
    """A task with a number for its hash; without a name it is named after that, too."""

    def __init__(
        self,
        number: int,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None,
        salt: int = 0,
        **options: Any,
    ) -> None:
        self._hash = number + salt
        super().__init__(coro, name=name or f"Task-{number}", **options)

    def __hash__(self) -> int:
        return self._hash


class RunFuture(_Future):  # type: ignore[misc] # see above
    """A future with a number for its hash."""

    def __init__(self, number: int, **options: Any) -> None:
        self._number = number
        super().__init__(**options)

    def __hash__(self) -> int:
        return self._number


class CallFuture(_Future):  # type: ignore[misc] # see above
    """The future of a durable call, which no code outside of Onward can put into a set.

    Its body learns when the code stops waiting for it. A done callback would do the same, but costs
    a turn of the loop for every call, and hardly any is cancelled.
    """

    __slots__ = ("on_cancel",)

    on_cancel: Callable[[], None] | None

    def cancel(self, msg: Any = None) -> bool:
        if self.done():
            return False
        if self.on_cancel is not None:
            # In the queue before those who wait for the call, as a done callback would be.
            self.get_loop().call_soon(self.on_cancel)
            self.on_cancel = None
        return bool(super().cancel(msg))
