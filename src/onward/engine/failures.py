"""What failures are grouped by: the type of the error, and the call whose error ended the run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.codec import read_error
from onward.core.failure_origin import read_failed_call
from onward.core.replay.identity import name_in
from onward.core.run import DEAD
from onward.engine.payloads import unpack
from onward.errors import RunFailed, Undecodable

if TYPE_CHECKING:
    from onward.codec import Failure
    from onward.model.runs import Move

MAX_BYTES = 200
"""How long each text may be: together with the name of a workflow they are a key of an index."""

_PASSED_ON = f"{RunFailed.__module__}.{RunFailed.__qualname__}"


def classified(move: Move) -> Move:
    """Return the last move of a run with what its failure is grouped by, if it is one."""
    if move.state not in DEAD:
        return move
    call = read_failed_call(move.failed_call)
    return move._replace(
        error_type=_error_type(move.error) or move.reason or "",
        failed_step="" if call is None else clipped(name_in(call.identity)),
    )


def clipped(text: str) -> str:
    """Return a text as groups have it: every database can store it in a key."""
    kept = text.encode(errors="replace")[:MAX_BYTES].decode(errors="ignore")
    return kept.replace("\0", "")


def _error_type(error: bytes | None) -> str:
    """Return the type of a stored error, or of what a group or a passed-on error is about."""
    if error is None:
        return ""
    try:
        return clipped(_first_cause(read_error(unpack(error))).type)
    except (Undecodable, ValueError):
        return ""


def _first_cause(failure: Failure) -> Failure:
    while True:
        if failure.members:
            failure = failure.members[0]
        elif failure.type == _PASSED_ON and failure.cause is not None:
            failure = failure.cause
        else:
            return failure
