"""Plain runs, records and messages; a test changes what matters to it by `_replace`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.inbox import MessageKind
from onward.core.instant import SECOND
from onward.model.effects import EffectWrite
from onward.model.ends import child_end, to_parent
from onward.model.messages import NewMessage, wakes_for
from onward.model.records import NewRecord
from onward.model.runs import Move, NewRun

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun

NAME = "greet"
QUEUE = "default"


def a_run(id: str) -> NewRun:  # noqa: A002 - it is the user's word
    """Return a run that is ready at once; its uid follows from its id."""
    return NewRun(f"uid-{id}", id, NAME, b"j[1]", "hash-of-1")


def a_child(parent: ClaimedRun, id: str) -> NewRun:  # noqa: A002 - it is the user's word
    """Return a run that `parent` starts."""
    identity = f"{id}#1"
    return a_run(id)._replace(parent=parent.uid, parent_identity=identity, root=parent.uid)


def a_record(run: ClaimedRun, seq: int, identity: str | None = None) -> NewRecord:
    """Return the record of a step that succeeded, at its position in the history."""
    name = identity or f"step#{seq}"
    return NewRecord(
        run.uid, name, 1, seq, "step", "step", "succeeded", "args", payload=b"j%d" % seq
    )


def an_open_record(run: ClaimedRun, identity: str) -> NewRecord:
    """Return the record of a wait that goes on."""
    return NewRecord(run.uid, identity, 1, None, "wait", "approval", "open")


def a_message(target: str, message: str, kind: MessageKind = MessageKind.SIGNAL) -> NewMessage:
    """Return a message; which pauses it ends follows from its kind."""
    return NewMessage(target, message, kind, "approval", b"jtrue", wakes_for(kind))


def a_child_end(child: ClaimedRun) -> NewMessage:
    """Return what a child that ends tells its parent."""
    assert child.parent is not None
    assert child.parent_identity is not None
    return to_parent(
        child.parent, child.parent_identity, child_end("succeeded", None, b"j42", None)
    )


def an_effect(run: ClaimedRun, version: int, state: str) -> EffectWrite:
    """Return a row of the ledger; its first version is the intent to send."""
    effect = EffectWrite(
        f"key-{run.id}",
        run.uid,
        "charge#1",
        "charge",
        "Charge Ada",
        b"j[5]",
        "hash",
        state,
        version,
    )
    sent = effect._replace(attempt=1)
    return sent._replace(start_by_in=30 * SECOND, settle_in=70 * SECOND) if version == 1 else sent


SUCCEEDED = Move("succeeded", result=b"j42")
RELEASED = Move("ready")
