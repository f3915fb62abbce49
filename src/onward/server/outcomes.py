"""Outcomes of commits, batched per event loop iteration: few frames for many commits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.lease import Fate
from onward.model.commits import CommitOutcome
from onward.wire.messages import messages
from onward.wire.work import outcome_message

if TYPE_CHECKING:
    from collections.abc import Callable


class Outcomes:
    """Answers the commits of one stream.

    Args:
        put: Sends a frame.
    """

    def __init__(self, put: Callable[[Any], None]) -> None:
        self._put = put
        self._loop = asyncio.get_running_loop()
        self._gathered: list[tuple[int, CommitOutcome | BaseException]] = []

    def add(self, no: int, answer: CommitOutcome | BaseException) -> None:
        """Answer a commit, together with others of this iteration."""
        if not self._gathered:
            self._loop.call_soon(self._flush)
        self._gathered.append((no, answer))

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        reply, at = messages.CommitsReply(), 0
        for no, answer in gathered:
            # The time of a frame is the present: an earlier one would set back the worker's clock.
            if (
                not isinstance(answer, CommitOutcome)
                or answer.fate is not Fate.DONE
                or answer.is_earlier
            ):
                reply.others.append(outcome_message(no, answer))
                continue
            if at and answer.at != at:  # a frame has one time, and a run gets its answers in order
                self._put(messages.Response(at=at, commits=reply))
                reply = messages.CommitsReply()
            at = answer.at
            reply.done.append(no)
        self._put(messages.Response(at=at, commits=reply))
