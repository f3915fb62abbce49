"""Calls that must be made also while the interpreter exits, for example by an `atexit` function."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


async def call_in_thread(work: Callable[[], T]) -> T:
    """Call a function in a thread, or here if the interpreter exits and starts no more of them."""
    try:
        called = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:
        return work()
    return await called
