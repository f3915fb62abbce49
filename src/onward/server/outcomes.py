"""Outcomes of commits, batched per event loop iteration: few frames for many commits."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.lease import Fate
from onward.wire.messages import messages
from onward.wire.work import outcome_message

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.instant import Instant
    from onward.model.commits import CommitOutcome


class Outcomes:
    """Answers the commits of one stream.

    Args:
        put: Sends a frame.
        is_recent: Returns whether an instant was the database's time a moment ago. The outcome of
            a commit that an earlier stream wrote already has an older one.
    """

    def __init__(self, put: Callable[[Any], None], is_recent: Callable[[Instant], bool]) -> None:
        self._put = put
        self._is_recent = is_recent
        self._gathered: list[tuple[int, CommitOutcome | BaseException]] = []

    def add(self, no: int, answer: CommitOutcome | BaseException) -> None:
        """Answer a commit, together with others of this iteration."""
        if not self._gathered:
            asyncio.get_running_loop().call_soon(self._flush)
        self._gathered.append((no, answer))

    def _flush(self) -> None:
        gathered, self._gathered = self._gathered, []
        reply, at = messages.CommitsReply(), 0
        for no, answer in gathered:
            if isinstance(answer, BaseException) or not self._is_plain(answer):
                reply.others.append(outcome_message(no, answer))
                continue
            if at and answer.at != at:  # a frame has one time, and a run gets its answers in order
                self._put(messages.Response(at=at, commits=reply))
                reply = messages.CommitsReply()
            at = answer.at
            reply.done.append(no)
        self._put(messages.Response(at=at, commits=reply))

    def _is_plain(self, answer: CommitOutcome) -> bool:
        return answer.fate is Fate.DONE and self._is_recent(answer.at)
