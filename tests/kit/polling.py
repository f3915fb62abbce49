"""Looking until something is so: the other side has no one to tell us."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.store.invariants import check

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward import App, Run


async def until(is_so: Callable[[], bool | Awaitable[bool]], seconds: float = 30) -> None:
    """Look until it is so, for a while."""
    async with asyncio.timeout(seconds):
        while True:
            answer = is_so()
            if answer if isinstance(answer, bool) else await answer:
                return
            await asyncio.sleep(0.002)


async def is_in(run: Run[Any], state: str) -> None:
    """Wait until a run is in a state."""

    async def asked() -> bool:
        return await run.state() == state

    await until(asked)


async def is_sound(app: App) -> None:
    """See that what must hold in every database holds in this one."""
    assert await check(app._store) == []
