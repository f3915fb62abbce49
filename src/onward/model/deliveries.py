"""Events, their deliveries and the state of handlers, as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onward.core.instant import Instant


class DeliveryMove(NamedTuple):
    """One event of one handler changes hands: reserved, consumed, skipped or released."""

    handler: str
    event: str
    was: str
    becomes: str
    reason: str | None = None


class Publish(NamedTuple):
    """An event for every handler that subscribes to the topic."""

    uid: str
    topic: str
    message: str
    payload: bytes
    key: str = ""


class HandlerState(NamedTuple):
    """The state that a handler returned; written if its version was one less before."""

    handler: str
    key: str
    version: int
    state: bytes | None
    wake_at: Instant | None = None
