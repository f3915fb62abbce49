"""Signals, cancels, pauses and resumes."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from onward.codec import check_id, encode
from onward.core.inbox import MessageKind
from onward.core.run import TERMINAL, Reason, RunState
from onward.engine.payloads import pack
from onward.errors import NotFound, RunOver
from onward.model.messages import NewMessage, wakes_for

if TYPE_CHECKING:
    from onward.codec import Payload
    from onward.core.instant import Duration
    from onward.model.messages import SentMessage
    from onward.model.stopping import PauseAnswer
    from onward.store.store import Store

__all__ = ["Cancelling", "cancel", "pause", "resume", "signal", "wakes_for"]


async def signal(
    store: Store, target: str, name: str, payload: Payload, *, message: str | None = None
) -> SentMessage:
    """Send a signal to a run, by id or else by uid; the same message id is delivered once.

    Raises:
        NotFound: there is no such run.
        RunOver: it has ended.
    """
    kind, wanted = MessageKind.SIGNAL, check_id(name, "the signal")
    sent = await _send(store, target, kind, wanted, payload, message)
    if sent.fate == "ended":
        raise RunOver(
            target, f"signal {name!r} was not delivered, because the run has already ended"
        )
    return sent


class Cancelling(StrEnum):
    """The result of a cancellation; it is true if the run was still open."""

    ACCEPTED = "accepted"
    TOO_LATE = "too_late"

    def __bool__(self) -> bool:
        return self is Cancelling.ACCEPTED


async def cancel(
    store: Store, target: str, *, force: bool = False, grace: Duration | None = None
) -> Cancelling:
    """Cancel a run with cleanup, or end it at once; return whether it was still open.

    Raises:
        NotFound: there is no such run.
    """
    stopped = await store.stop(
        target,
        state=RunState.CANCELLED,
        reason=Reason.FORCED if force else Reason.OPERATOR,
        unstarted_only=not force,
    )
    if stopped.fate == "absent":
        raise NotFound("run", target, store.namespace)
    if stopped.fate != "started":
        return Cancelling.ACCEPTED if stopped.fate == "stopped" else Cancelling.TOO_LATE
    payload = None if grace is None else encode(grace)
    sent = await _send(store, target, MessageKind.CANCEL, "", payload, "cancel")
    is_open = sent.fate == "delivered"
    if sent.fate == "duplicate" and sent.uid is not None:  # it was cancelled before
        is_open = (await store.run(sent.uid)).state not in TERMINAL
    return Cancelling.ACCEPTED if is_open else Cancelling.TOO_LATE


async def pause(store: Store, target: str) -> bool:
    """Pause a run and its children; return whether that is so.

    It is not if the run has ended or is being cancelled.

    Raises:
        NotFound: there is no such run.
    """
    return _is_done(store, target, await store.pause(target))


async def resume(store: Store, target: str) -> bool:
    """Resume a run and everything that its pause held; return whether it was still open.

    Raises:
        NotFound: there is no such run.
    """
    return _is_done(store, target, await store.resume(target))


def _is_done(store: Store, target: str, answer: PauseAnswer) -> bool:
    if answer.uid is None:
        raise NotFound("run", target, store.namespace)
    return answer.fate == "done"


async def _send(
    store: Store,
    target: str,
    kind: MessageKind,
    name: str,
    payload: Payload | None,
    message: str | None,
) -> SentMessage:
    sent = await store.send(
        NewMessage(
            target,
            message or store.new_uid(),
            kind,
            name,
            None if payload is None else pack(payload),
            wakes_for(kind),
        )
    )
    if sent.fate == "absent":
        raise NotFound("run", target, store.namespace)
    return sent
