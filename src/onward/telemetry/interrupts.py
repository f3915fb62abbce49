"""Tell a signal that stops this process from a `SystemExit` or `KeyboardInterrupt` of user code.

User code that exits ends its own run. A signal must still end the process, wherever its handler
happens to raise: the frame of the handler is then in the traceback. Python's default handler of
SIGINT is written in C and leaves no frame, so `traceable_interrupts` replaces it by one that does.
"""

from __future__ import annotations

import signal
import threading
import traceback
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType


_FROM_SIGNAL = "_onward_from_signal"


def raise_interrupt(error: BaseException) -> None:
    """Raise `error` again if a signal handler raised it; otherwise return."""
    if is_interrupt(error):
        raise error


def is_interrupt(error: BaseException) -> bool:
    """Return whether a signal handler of this process raised the error, or one that led to it."""
    if not isinstance(error, SystemExit | KeyboardInterrupt):
        return False
    if not hasattr(error, _FROM_SIGNAL):
        # Kept, for a body that is unwound loses the tracebacks of its errors.
        setattr(error, _FROM_SIGNAL, _is_from_handler(error))
    return bool(getattr(error, _FROM_SIGNAL))


def _is_from_handler(error: BaseException) -> bool:
    handlers = _handlers()
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        is_exit = isinstance(cause, SystemExit | KeyboardInterrupt)
        frames = traceback.walk_tb(cause.__traceback__) if is_exit else ()
        if any(id(frame.f_code) in handlers for frame, _ in frames):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


@contextmanager
def traceable_interrupts() -> Iterator[None]:
    """Let a Ctrl-C leave a frame in its traceback; only the main thread has signal handlers."""
    global _users
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _users += 1
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        _users -= 1
        if not _users and signal.getsignal(signal.SIGINT) is _interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)


_users = 0


def _interrupt(_number: int, _frame: object) -> NoReturn:
    raise KeyboardInterrupt


def _handlers() -> dict[int, CodeType]:
    """Return the code of all signal handlers of this process that are written in Python, by id."""
    codes = {id(_interrupt.__code__): _interrupt.__code__}
    for number in signal.valid_signals():
        handler: object = signal.getsignal(number)
        while isinstance(handler, partial):
            handler = handler.func
        function = handler if hasattr(handler, "__code__") else getattr(handler, "__func__", None)
        if function is None and callable(handler):
            function = getattr(type(handler).__call__, "__func__", type(handler).__call__)
        code = getattr(function, "__code__", None)
        if code is not None:
            codes[id(code)] = code
    return codes
