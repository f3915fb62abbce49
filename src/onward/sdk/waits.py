"""Waits that a body can make: for a time, or for a signal."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from onward.codec import check_id, decode
from onward.core.instant import duration
from onward.errors import NotInBody
from onward.runtime.context import body_now

if TYPE_CHECKING:
    from onward.codec import Payload
    from onward.core.instant import DurationLike

T = TypeVar("T")


async def sleep(time: DurationLike) -> None:
    """Sleep, durably: the run holds no slot, thread or connection meanwhile.

    Outside a run this is an ordinary sleep.

    Args:
        time: Seconds, a text such as "1h30m", or a timedelta.
    """
    await asyncio.sleep(duration(time) / 1_000_000)


class Signal(Generic[T]):
    """A named message to a run, with the type of what it carries.

    Example:
        >>> approval = Signal("approval", bool)
        >>> approval.name
        'approval'
    """

    @overload
    def __init__(self, name: str, type: type[T]) -> None: ...
    @overload
    def __init__(self: Signal[Any], name: str, type: object = ...) -> None: ...
    def __init__(self, name: str, type: Any = Any) -> None:  # noqa: A002 - it is the user's word
        self.name = check_id(name, "the name of a signal")
        self.type = type

    async def wait(self, *, timeout: DurationLike | None = None) -> T:
        """Wait for the signal; those that came before the wait count too, in order.

        Raises:
            TimeoutError: it did not come in time.
        """
        body = body_now.get()
        if body is None:
            raise NotInBody(
                f"waiting for signal {self.name!r}",
                "makes sense only there, and this is outside",
                "Call it from a workflow",
            )
        limit = None if timeout is None else duration(timeout)
        value: T = await body.signal(self.name, self._decoded, limit)
        return value

    def _decoded(self, payload: Payload) -> T:
        value: T = decode(payload, self.type)
        return value


async def wait_signal(name: str, type: Any = Any, *, timeout: DurationLike | None = None) -> Any:  # noqa: A002
    """Wait for a signal by name; see `Signal.wait`."""
    return await Signal(name, type).wait(timeout=timeout)
