"""Group commit: all commits that gather while a batch is written become the next batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.lease import Fate
from onward.core.run import RunState
from onward.model.commits import CommitOutcome
from onward.store.hints import PIPELINES, queue_subject, run_subject
from onward.store.writing.batch import fold
from onward.store.writing.lane import Contended, Lane
from onward.telemetry.observer import SILENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from onward.core.instant import Instant
    from onward.core.ports import Clock
    from onward.model.commits import Answered, Commit
    from onward.store.database import Database, Written
    from onward.store.writing.batch import Batch, OwnedCommit

    Send = Callable[[], Awaitable[Written | Contended]]


class GroupCommit:
    """The commits of any number of workers, in batches.

    A batch holds commits of several workers, each under the lease of its own worker: one that has
    lost its lease loses its own runs alone.

    A run always uses the same lane, so its commits keep their order. Where the database is another
    process, a second lane lets one batch be made while another is being written.

    Args:
        database: Where to write.
        clock: A steady clock.
        name: The worker, if it is the only one; for metrics and names of tasks.
    """

    def __init__(self, database: Database, clock: Clock, name: str) -> None:
        self._database = database
        self._clock = clock
        self._name = name
        self.observer = SILENT
        """Measures how long batches take."""
        self.on_written: Callable[[Instant, int], None] = lambda _, __: None
        """Called with the database's time of every batch and the monotonic time of its sending."""
        self.through: Callable[[Send], Awaitable[Written | Contended]] = lambda send: send()
        """Sends a batch, and may send it again while the database is away."""
        self.lanes: list[Lane[OwnedCommit, CommitOutcome]] = [
            Lane(self._apply, name=f"onward writer {name} {number}", key=_run_of)
            for number in range(database.lanes)
        ]

    @property
    def is_idle(self) -> bool:
        """Whether every commit has its answer."""
        return all(lane.is_idle for lane in self.lanes)

    async def close(self) -> None:
        """Wait until everything is written."""
        for lane in self.lanes:
            await lane.close()

    def submit(self, worker: str, commit: Commit, then: Answered) -> None:
        """Queue a commit of a worker and call `then` with its outcome, or its error.

        Check it first: a text that the database refuses costs all others of its batch a repetition.
        """
        lanes = self.lanes
        lanes[ord(commit.run[-1]) % len(lanes)].put((worker, commit), then)

    async def _apply(self, commits: list[OwnedCommit]) -> list[CommitOutcome | None]:
        batch, taken = fold(commits)
        begun = self._clock.monotonic()
        written = await self.through(lambda: self._send(batch))
        if isinstance(written, Contended):
            raise written
        if self.observer.measures:
            length = self._clock.monotonic() - begun
            self.observer.commit_took(self._name, sum(taken), length)
        self.on_written(written.at, begun)
        outcomes = {fate: CommitOutcome(fate, written.at) for fate in Fate}
        subjects = set(map(queue_subject, written.queues))
        fates, is_first = written.fates, not written.earlier
        answers: list[CommitOutcome | None] = []
        for (_, commit), is_in in zip(commits, taken, strict=True):
            if not is_in:
                answers.append(None)
                continue
            fate = fates[commit.run]
            answers.append(outcomes[fate] if is_first else written.outcome_of(commit))
            if not commit.is_plain and fate is Fate.DONE:
                subjects.update(_touched(commit))
        if subjects:
            self._database.publish(subjects)
        return answers

    async def _send(self, batch: Batch) -> Written | Contended:
        try:
            return await self._database.commit(batch)
        except Contended as held_up:  # the database is reachable: the lane handles it
            return held_up


def _run_of(owned: OwnedCommit) -> str:
    return owned[1].run


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
