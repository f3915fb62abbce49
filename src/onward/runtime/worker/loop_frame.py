"""What an event loop is running just now, seen from another thread."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.runtime.attempts import perform, send_window, sender
from onward.runtime.body import runloop
from onward.system.libraries import is_library
from onward.telemetry.scope import scope_now

if TYPE_CHECKING:
    from contextvars import Context
    from types import FrameType

    from onward.telemetry.scope import Scope

_CALLERS = frozenset(module.__name__ for module in (runloop, perform, send_window, sender))
"""The modules that call the code of users."""


def line_of(frame: FrameType | None) -> str:
    """Return the innermost line of a user's own code, or the outermost if a library calls it."""
    line = ""
    while frame is not None and frame.f_globals.get("__name__") not in _CALLERS:
        code = frame.f_code
        line = f"{code.co_filename}:{frame.f_lineno} in {code.co_name}"
        if not is_library(code.co_filename):
            break
        frame = frame.f_back
    return line


def scope_of(loop: asyncio.AbstractEventLoop, frame: FrameType | None) -> Scope | None:
    """Return the step or effect to which the task belongs that a loop is running."""
    task = asyncio.current_task(loop)
    if task is None:
        return None
    get_context = getattr(task, "get_context", None)  # Python 3.12
    context = _context_of(frame) if get_context is None else get_context()
    return _attempt_at(frame) if context is None else context.get(scope_now)


def _attempt_at(frame: FrameType | None) -> Scope | None:
    """Return the scope of the attempt whose code is called, where a loop shows no callback."""
    while frame is not None and frame.f_globals.get("__name__") not in _CALLERS:
        frame = frame.f_back
    return None if frame is None else getattr(frame.f_locals.get("self"), "scope", None)


def _context_of(frame: FrameType | None) -> Context | None:
    """Return the context of the callback that asyncio is running."""
    while frame is not None and frame.f_code is not asyncio.Handle._run.__code__:
        frame = frame.f_back
    return None if frame is None else frame.f_locals["self"]._context
