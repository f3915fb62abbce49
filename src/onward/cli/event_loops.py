"""The event loops that commands run on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.cli.command import DONE, NO, explain
from onward.errors import UserError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from onward.cli.output import Output

    LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def uvloop_factory() -> LoopFactory | None:
    """Return the function that creates a uvloop; None: the package cannot be imported."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def run_supervised(
    work: Coroutine[object, object, None], runner: asyncio.Runner, out: Output
) -> int:
    """Run what a supervisor restarts when it fails, and return the exit status.

    Raises:
        UserError: a restart does not help.
    """
    try:
        with runner:
            runner.run(work)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001 - it is explained, and the supervisor acts
        explain(out, error)
        return NO
    return DONE
