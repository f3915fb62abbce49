"""Sending to runs: signals, and the wish that one stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.codec import check_id
from onward.core.inbox import MessageKind, stirs
from onward.core.run import TERMINAL
from onward.engine.payloads import pack
from onward.errors import NotFound
from onward.store.rows import Message

if TYPE_CHECKING:
    from onward.codec import Payload
    from onward.store.rows import Sent
    from onward.store.store import Store


async def signal(
    store: Store, target: str, name: str, payload: Payload, *, message: str | None = None
) -> Sent:
    """Send a signal to a run, by uid or id; the same message id is delivered once.

    Raises:
        NotFound: there is no such run.
    """
    return await _send(
        store, target, MessageKind.SIGNAL, check_id(name, "the signal"), payload, message
    )


async def cancel(store: Store, target: str) -> bool:
    """Ask a run to stop; say whether it was still open.

    Raises:
        NotFound: there is no such run.
    """
    sent = await _send(store, target, MessageKind.CANCEL, "", None, "cancel")
    if sent.fate != "duplicate" or sent.uid is None:
        return sent.fate == "delivered"
    return (await store.run(sent.uid)).state not in TERMINAL  # it was asked before


async def _send(
    store: Store,
    target: str,
    kind: MessageKind,
    name: str,
    payload: Payload | None,
    message: str | None,
) -> Sent:
    sent = await store.send(
        Message(
            target,
            message or store.new_uid(),
            kind,
            name,
            None if payload is None else pack(payload),
            stirring(kind),
        )
    )
    if sent.fate == "absent":
        raise NotFound("run", target, store.namespace)
    return sent


def stirring(kind: MessageKind) -> str:
    """Return, for the store, the reasons for which a paused run is woken by such a message."""
    return "".join(f",{reason}," for reason in sorted(stirs(kind)))
