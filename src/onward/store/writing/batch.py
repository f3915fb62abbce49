"""Folding the commits of many runs, of one worker or of several, into one batch.

A `Commit` is all or nothing: its records, the move of its run, its messages, new runs, ledger rows
and attachments are written together or not at all. Folding is pure: it takes commits in the order
they came and says which of them go together, under the rules that make one statement possible:

- a run has one place in a batch, however many commits its owner made;
- a run is never moved and woken in one batch, and nothing is attached to twice, for one statement
  may not change a row twice;
- a commit that may be refused goes without others of its run, which would be refused with it;
- what is left for the next batch keeps its order within a run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from onward.model.commits import NOTHING_ATTACHED, Commit

if TYPE_CHECKING:
    from collections.abc import Container, Sequence


OwnedCommit: TypeAlias = tuple[str, Commit]
"""A worker and its commit."""

MAX_ROWS = 500
MAX_BYTES = 4 * 1024 * 1024


class Batch:
    """Commits that are written together, one per run."""

    def __init__(self) -> None:
        self.runs: dict[str, Commit] = {}
        self.workers: dict[str, str] = {}
        """The worker of each run, under whose lease its commit is written."""
        self._woken: set[str] = set()
        self._touched: set[tuple[str, ...]] = set()
        self._rows = 0
        self._size = 0

    def takes(self, worker: str, commit: Commit) -> bool:
        """Add the `commit` of a worker if this batch can hold it, and return whether it does."""
        rows, size = commit.weigh()
        run = commit.run
        mine = self.runs.get(run)
        rows += self._rows
        size += self._size
        if self.runs and (rows > MAX_ROWS or size > MAX_BYTES or not self._may_join(commit, mine)):
            return False
        if mine is None:
            self.runs[run] = commit
            self.workers[run] = worker
        elif self.workers[run] == worker:
            self.runs[run] = mine.then(commit)
        else:
            return False
        self._rows, self._size = rows, size
        if not commit.is_plain:
            self._woken.update(message.target for message in commit.messages)
            if commit.attached is not NOTHING_ATTACHED:
                self._touched.update(commit.attached.touched())
        return True

    def _may_join(self, commit: Commit, mine: Commit | None) -> bool:
        if mine is not None and (
            mine.fence != commit.fence
            or mine.move is not None
            or mine.may_be_refused
            or commit.may_be_refused
        ):
            return False
        if commit.is_plain:
            return True
        if commit.move is not None and commit.run in self._woken:
            return False
        if self._touched and not self._touched.isdisjoint(commit.attached.touched()):
            return False
        messages = commit.messages
        return not messages or not any(self._moves(each.target, commit) for each in messages)

    def without(self, runs: Container[str]) -> Batch:
        """Return the batch without the commits of some runs."""
        left = Batch()
        left.runs = {run: commit for run, commit in self.runs.items() if run not in runs}
        left.workers = self.workers
        return left

    def _moves(self, target: str, commit: Commit) -> bool:
        if target == commit.run:
            return commit.move is not None
        other = self.runs.get(target)
        return other is not None and other.move is not None


def fold(commits: Sequence[OwnedCommit]) -> tuple[Batch, list[bool]]:
    """Choose what goes into the next batch.

    Returns:
        The batch, and for each commit whether it is in it.
    """
    batch = Batch()
    taken: list[bool] = []
    left_runs: set[str] = set()
    for worker, commit in commits:
        fits = commit.run not in left_runs and batch.takes(worker, commit)
        if not fits:
            left_runs.add(commit.run)
        taken.append(fits)
    return batch, taken
