"""The window of a send, checked whenever an async handler continues.

A process may be stopped and continued at any moment. A handler that continues after its window has
closed must not send: another worker may have sent the effect since, or an operator judged it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.errors import TooLate
from onward.runtime.body.effects import check_key

if TYPE_CHECKING:
    from collections.abc import Coroutine, Generator

    from onward.runtime.body.effects import Sending


class InTime:
    """Awaits a handler, and raises TooLate in it where it would continue too late.

    It is raised once, and not in a handler that was given another error: cleanup may take longer.
    """

    __slots__ = ("_handler", "_sending")

    def __init__(self, handler: Coroutine[Any, Any, Any], sending: Sending) -> None:
        self._handler = handler
        self._sending = sending

    def __await__(self) -> Generator[Any, Any, Any]:
        handler, value, error = self._handler, None, None
        is_told = False
        while True:
            error = error if is_told or error is not None else self._too_late()
            try:
                if error is None:
                    awaited = handler.send(value)
                else:
                    is_told = True
                    awaited = handler.throw(error)
            except StopIteration as returned:
                return returned.value
            try:
                value, error = (yield awaited), None
            except BaseException as thrown:  # noqa: BLE001 - it is handed on
                value, error = None, thrown

    def _too_late(self) -> BaseException | None:
        try:
            check_key(self._sending)
        except TooLate as late:
            return late
        return None
