"""Errors as clients see them: expected errors in full, others without any details."""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from onward.errors import BadInput, InvariantBroken, OnwardError
from onward.telemetry.events import emit
from onward.wire.messages import messages
from onward.wire.problems import to_problem

_BUILT_IN = (LookupError, TimeoutError, ValueError)
"""What operations raise deliberately that is no error of Onward."""


def problem_of(error: BaseException, server: str, where: str) -> Any:
    """Return an error as a message; one that is not expected is logged here.

    Args:
        error: The error.
        server: The name of this server.
        where: What the client asked for.
    """
    if isinstance(error, DecodeError):
        advice = "Use compatible versions of client and server"
        return to_problem(BadInput("the message", "cannot be decoded", advice))
    if isinstance(error, OnwardError) and not isinstance(error, InvariantBroken):
        return to_problem(error)
    if type(error) in _BUILT_IN:
        return to_problem(error)
    emit("server.failed", server=server, where=where, cause=error)
    return messages.Problem(
        code="internal", message="the server failed; see the server's log for the cause"
    )
