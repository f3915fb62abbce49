"""The group commit of a worker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.lease import Fate
from onward.core.run import RunState
from onward.errors import Rejected
from onward.model.commits import Commit, CommitOutcome
from onward.store.hints import PIPELINES, queue_subject, run_subject
from onward.store.writing.batch import fold
from onward.store.writing.lane import Contended, Lane
from onward.store.writing.text_limits import check_commit
from onward.telemetry.observer import SILENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from onward.core.instant import Instant
    from onward.core.ports import Clock
    from onward.model.commits import Answered
    from onward.store.database import Database, Written
    from onward.store.writing.batch import Batch

    Send = Callable[[], Awaitable[Written | Contended]]


class Writer:
    """The group commit of one worker: all commits of its runs go through here.

    A run always uses the same lane, so its commits keep their order. Where the database is another
    process, a second lane lets one batch be made while another is being written.
    """

    def __init__(self, database: Database, worker: str, clock: Clock) -> None:
        self._database = database
        self._worker = worker
        self._clock = clock
        self.observer = SILENT
        """Measures how long batches take."""
        self.on_written: Callable[[Instant, int], None] = lambda _, __: None
        """Called with the database's time of every batch and the monotonic time of its sending."""
        self.through: Callable[[Send], Awaitable[Written | Contended]] = lambda send: send()
        """Sends a batch, and may send it again while the database is away."""
        self.lanes: list[Lane[Commit, CommitOutcome]] = [
            Lane(self._apply, name=f"onward writer {worker} {number}", key=lambda c: c.run)
            for number in range(database.lanes)
        ]

    @property
    def is_idle(self) -> bool:
        return all(lane.is_idle for lane in self.lanes)

    async def close(self) -> None:
        """Wait until everything is written."""
        for lane in self.lanes:
            await lane.close()

    async def commit(self, commit: Commit) -> CommitOutcome:
        """Write a commit in the next batch, and return its outcome.

        Raises:
            Rejected: a database cannot store it.
        """
        check_commit(commit)
        return await self._lane_of(commit).submit(commit)

    def submit(self, commit: Commit, then: Answered) -> None:
        """Queue a commit and call `then` with its outcome, or its error, on the event loop."""
        try:
            check_commit(commit)
        except Rejected as refusal:
            asyncio.get_running_loop().call_soon(then, refusal)
        else:
            self._lane_of(commit).put(commit, then)

    def _lane_of(self, commit: Commit) -> Lane[Commit, CommitOutcome]:
        lanes = self.lanes
        return lanes[ord(commit.run[-1]) % len(lanes)]

    async def _apply(self, commits: list[Commit]) -> list[CommitOutcome | None]:
        batch, taken = fold(commits)
        begun = self._clock.monotonic()
        written = await self.through(lambda: self._send(batch))
        if isinstance(written, Contended):
            raise written
        if self.observer.measures:
            length = self._clock.monotonic() - begun
            self.observer.commit_took(self._worker, sum(taken), length)
        self.on_written(written.at, begun)
        outcomes = {fate: CommitOutcome(fate, written.at) for fate in Fate}
        subjects = set(map(queue_subject, written.queues))
        fates, is_first = written.fates, not written.earlier
        answers: list[CommitOutcome | None] = []
        for commit, is_in in zip(commits, taken, strict=True):
            if not is_in:
                answers.append(None)
                continue
            fate = fates[commit.run]
            answers.append(
                outcomes[fate] if is_first else CommitOutcome(fate, written.time_of(commit))
            )
            if not commit.is_plain and fate is Fate.DONE:
                subjects.update(_touched(commit))
        if subjects:
            self._database.publish(subjects)
        return answers

    async def _send(self, batch: Batch) -> Written | Contended:
        try:
            return await self._database.commit(self._worker, batch)
        except Contended as held_up:  # the database is reachable: the lane handles it
            return held_up


def _touched(commit: Commit) -> Iterable[str]:
    # A run that only gets on, such as to its next phase, is no news to those who wait for it.
    if commit.move is not None and commit.move.state != RunState.RUNNING:
        yield run_subject(commit.run)
    if commit.attached.pipeline is not None and commit.attached.pipeline.may_give_work:
        yield PIPELINES
    for run in commit.starts:
        yield queue_subject(run.queue)
    for message in commit.messages:
        yield run_subject(message.target)
