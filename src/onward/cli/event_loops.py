"""The event loops that commands run on."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def uvloop_factory() -> LoopFactory | None:
    """Return the function that creates a uvloop; None: the package cannot be imported."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
