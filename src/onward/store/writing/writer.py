"""How a worker writes: its commits, checked, in a group commit."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from onward.errors import Rejected
from onward.store.writing.lane import settle
from onward.store.writing.text_limits import check_commit

if TYPE_CHECKING:
    from onward.model.commits import Answered, Commit, CommitOutcome
    from onward.store.writing.group_commit import GroupCommit


class Writer:
    """The commits of one worker, in a group commit of its own or in one that workers share."""

    def __init__(self, group: GroupCommit, worker: str, *, is_shared: bool = False) -> None:
        self.group = group
        self._worker = worker
        self._is_shared = is_shared
        self._unanswered = 0
        """How many commits of this worker a shared group has yet to answer."""
        self._all_answered = asyncio.Event()

    @property
    def is_idle(self) -> bool:
        """Whether every commit of this worker has its answer."""
        return not self._unanswered if self._is_shared else self.group.is_idle

    async def close(self) -> None:
        """Wait until every commit of this worker has its answer."""
        if not self._is_shared:
            await self.group.close()
        while self._unanswered:  # the group may never be idle
            self._all_answered.clear()
            await self._all_answered.wait()

    async def commit(self, commit: Commit) -> CommitOutcome:
        """Write a commit in the next batch, and return its outcome.

        Raises:
            Rejected: a database cannot store it.
        """
        check_commit(commit)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._put(commit, partial(settle, answer))
        outcome: CommitOutcome = await answer
        return outcome

    def submit(self, commit: Commit, then: Answered) -> None:
        """Queue a commit and call `then` with its outcome, or its error, on the event loop."""
        try:
            check_commit(commit)
        except Rejected as refusal:
            asyncio.get_running_loop().call_soon(then, refusal)
        else:
            self._put(commit, then)

    def _put(self, commit: Commit, then: Answered) -> None:
        if self._is_shared:
            self._unanswered += 1
            then = partial(self._answer, then)
        self.group.submit(self._worker, commit, then)

    def _answer(self, then: Answered, answer: CommitOutcome | BaseException) -> None:
        self._unanswered -= 1
        if not self._unanswered:
            self._all_answered.set()
        then(answer)
