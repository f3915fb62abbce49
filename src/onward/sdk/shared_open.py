"""Opening an App once for several users: the first opens it, the last closes it."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING
from weakref import WeakSet

from onward.errors import BadInput
from onward.system.process import check_process

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


_LOOPS: WeakSet[asyncio.AbstractEventLoop] = WeakSet()
"""The event loops in which an App is open."""


def is_open_here() -> bool:
    """Say whether an App is open in the running event loop."""
    return asyncio._get_running_loop() in _LOOPS


class Opening:
    """Counts the users of an App; all of them must be in one event loop."""

    def __init__(self) -> None:
        self._users = 0
        self._is_open = False
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turn = asyncio.Lock()

    def check_loop(self) -> None:
        """Refuse a call from another event loop or process than the one it is open in.

        Raises:
            BadInput: it is open in another loop.
            StoreUnusable: this process was forked while it was open.
        """
        if self._is_open:
            check_process(self._pid, "an App")
        if self._is_open and asyncio._get_running_loop() not in (None, self._loop):
            raise _elsewhere()

    async def come(self, open_it: Callable[[], Awaitable[None]]) -> None:
        """Enter; the first user opens it, and the others wait for that."""
        self.check_loop()
        self._come_into_loop()
        self._users += 1
        try:
            async with self._turn:
                if not self._is_open:
                    await open_it()
                    self._is_open = True
                    _LOOPS.add(asyncio.get_running_loop())
        except BaseException:
            self._users -= 1
            raise

    def _come_into_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            if self._users or self._turn.locked():
                raise _elsewhere()
            # A lock belongs to the loop in which a task had to wait for it.
            self._loop, self._turn = loop, asyncio.Lock()
        if not self._users:
            self._pid = os.getpid()

    async def leave(self, close_it: Callable[[], Awaitable[None]]) -> None:
        """Leave; the last user closes it."""
        self.check_loop()
        self._users -= 1
        async with self._turn:
            if self._users or not self._is_open:
                return
            self._is_open = False
            _LOOPS.discard(asyncio.get_running_loop())
            await close_it()


def _elsewhere() -> BadInput:
    return BadInput(
        "the App", "is open in another event loop", "Create a separate App for this event loop"
    )
