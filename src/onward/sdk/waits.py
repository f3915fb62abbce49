"""Waits that a body can make: for a time, or for a signal."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from onward.codec import check_id, decode, encode
from onward.core.instant import duration
from onward.errors import BadInput, NotInBody
from onward.runtime.body.calls import SignalCall
from onward.runtime.body.runloop import RunLoop
from onward.runtime.context import body_now, step_now
from onward.sdk.inside import EPOCH, body_for, now

if TYPE_CHECKING:
    from datetime import datetime

    from onward.codec import Payload
    from onward.core.instant import DurationLike

T = TypeVar("T")


async def sleep(time: DurationLike) -> None:
    """Sleep durably: a sleeping run holds no slot, thread or connection.

    Outside a run, this is an ordinary sleep.

    Args:
        time: How long to sleep: a number of seconds, a string such as "1h30m", or a timedelta.

    Raises:
        NotInBody: the caller is a step.

    Example:
        >>> import asyncio, onward
        >>> asyncio.run(onward.sleep("1ms"))
    """
    if body_now.get() is None and step_now.get() is not None:
        raise NotInBody(
            "onward.sleep",
            "was called in a step, but only a workflow can sleep durably",
            "Use asyncio.sleep for short delays, or raise Retryable(after=...)",
        )
    await asyncio.sleep(duration(time) / 1_000_000)


async def sleep_until(time: datetime) -> None:
    """Sleep durably until a given time; return at once if that time has passed.

    Args:
        time: When to continue: a datetime with a time zone.

    Example:
        >>> import asyncio, onward
        >>> asyncio.run(onward.sleep_until(onward.now()))
    """
    if time.tzinfo is None:
        raise BadInput(f"time {time.isoformat()}", "has no time zone", "Use onward.now() + ...")
    loop = asyncio.get_running_loop()
    if isinstance(loop, RunLoop):
        await loop.sleep_until((time - EPOCH) // timedelta(microseconds=1))
    else:
        await sleep(max(timedelta(0), time - now()))


class Signal(Generic[T]):
    """A named message to a run, with the type of its value.

    Args:
        name: The name of the signal.
        type: The type of its value; by default any plain data.

    Example:
        >>> from onward import Signal
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
        """Wait for the next signal with this name, which may already have arrived.

        Args:
            timeout: How long to wait; by default, there is no limit.

        Raises:
            TimedOut: no signal arrived in time. This error is a `TimeoutError`.
            NotInBody: the caller is not a workflow.
        """
        body = body_for(f"wait() for signal {self.name!r}")
        limit = None if timeout is None else duration(timeout)
        value: T = await body.ask(SignalCall(self.name, self._decoded, body.now, limit))
        return value

    def _decoded(self, payload: Payload) -> T:
        value: T = decode(payload, self.type)
        return value


def encode_signal(
    signal: Signal[Any] | str, value: Any, message_id: str | None
) -> tuple[str, Payload, str | None]:
    """Return the name, the value and the id of a message to send, checked.

    Raises:
        Unencodable: the value cannot be stored.
        BadInput: the id cannot be one.
    """
    wanted = signal if isinstance(signal, Signal) else Signal(signal)
    payload = encode(value, path=f"signal {wanted.name}", annotation=wanted.type)
    # Messages of Onward to runs have ids too, which must not collide with a user's.
    own = None if message_id is None else f"signal {check_id(message_id, 'the id of a message')}"
    return wanted.name, payload, own


@overload
async def wait_signal(name: str, type: type[T], *, timeout: DurationLike | None = None) -> T: ...
@overload
async def wait_signal(
    name: str, type: object = ..., *, timeout: DurationLike | None = None
) -> Any: ...


async def wait_signal(name: str, type: Any = Any, *, timeout: DurationLike | None = None) -> Any:  # noqa: A002
    """Wait for a signal by name; see `Signal.wait`.

    Example:
        >>> import onward
        >>> @onward.workflow
        ... async def hello() -> str:
        ...     name = await onward.wait_signal("name", str, timeout="7d")
        ...     return f"Hello, {name}!"
    """
    return await Signal(name, type).wait(timeout=timeout)
