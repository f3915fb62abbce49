"""What the owner of a run writes in one go, and how many such writes become one batch.

A `Commit` is all or nothing: its records, the move of its run, its messages, new runs, ledger rows
and attachments are written together or not at all. Folding is pure: it takes commits in the order
they came and says which of them go together, under the rules that make one statement possible:

- a run has one place in a batch, however many commits it made;
- a run is never moved and woken in one batch, and attaches once, for one statement may not change
  a row twice;
- what is left for the next batch keeps its order within a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from onward.store.rows import (
        DeliveryMove,
        EffectWrite,
        HandlerState,
        Message,
        Move,
        NewRecord,
        NewRun,
        Publish,
    )

ROWS_MOST = 500
BYTES_MOST = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Attachments:
    """What pipelines and effects add to a commit."""

    effects: tuple[EffectWrite, ...] = ()
    deliveries: tuple[DeliveryMove, ...] = ()
    published: tuple[Publish, ...] = ()
    states: tuple[HandlerState, ...] = ()


NOTHING_ATTACHED = Attachments()


@dataclass(slots=True)
class Commit:
    """Everything that the owner of `run` writes under `fence`, all or nothing."""

    run: str
    fence: int
    records: tuple[NewRecord, ...] = ()
    move: Move | None = None
    messages: tuple[Message, ...] = ()
    starts: tuple[NewRun, ...] = ()
    attached: Attachments = NOTHING_ATTACHED

    @property
    def is_plain(self) -> bool:
        """Say whether this adds records and does nothing else."""
        return (
            self.move is None
            and not self.messages
            and not self.starts
            and self.attached is NOTHING_ATTACHED
        )

    @property
    def seen(self) -> int | None:
        """The inbox number that the run must still have if it is to move."""
        return None if self.move is None else self.move.seen

    def latest_records(self) -> Collection[NewRecord]:
        """Return the records, each identity once: a record opened and closed here is closed."""
        if len(self.records) < 2:
            return self.records
        return {(record.identity, record.attempt): record for record in self.records}.values()

    def weigh(self) -> tuple[int, int]:
        """Return about how many rows and how many bytes of payload this writes."""
        size = 0
        for record in self.records:
            size += len(record.payload or b"") + len(record.error or b"")
        if self.is_plain:
            return len(self.records), size
        if self.move is not None:
            size += len(self.move.result or b"") + len(self.move.error or b"")
        size += sum(len(start.input) for start in self.starts)
        size += sum(len(message.payload or b"") for message in self.messages)
        size += sum(len(event.payload) for event in self.attached.published)
        return 1 + len(self.records) + len(self.messages) + len(self.starts), size

    def then(self, later: Commit) -> Commit:
        """Return this and a later commit of the same run as one."""
        return Commit(
            self.run,
            self.fence,
            self.records + later.records,
            later.move,
            self.messages + later.messages,
            self.starts + later.starts,
            later.attached if self.attached is NOTHING_ATTACHED else self.attached,
        )


class Batch:
    """Commits that are written together, one a run."""

    def __init__(self) -> None:
        self.runs: dict[str, Commit] = {}
        self._woken: set[str] = set()
        self._rows = 0
        self._size = 0

    def takes(self, commit: Commit) -> bool:
        """Add `commit` if it may stand in this batch, and say whether it does."""
        rows, size = commit.weigh()
        mine = self.runs.get(commit.run)
        rows += self._rows
        size += self._size
        if self.runs and (
            rows > ROWS_MOST or size > BYTES_MOST or not self._may_join(commit, mine)
        ):
            return False
        self.runs[commit.run] = commit if mine is None else mine.then(commit)
        for message in commit.messages:
            self._woken.add(message.target)
        self._rows, self._size = rows, size
        return True

    def _may_join(self, commit: Commit, mine: Commit | None) -> bool:
        if mine is not None and (
            mine.fence != commit.fence
            or mine.move is not None
            or NOTHING_ATTACHED not in (mine.attached, commit.attached)
        ):
            return False
        if commit.move is not None and commit.run in self._woken:
            return False
        return not any(self._moves(message.target, commit) for message in commit.messages)

    def _moves(self, target: str, commit: Commit) -> bool:
        if target == commit.run:
            return commit.move is not None
        other = self.runs.get(target)
        return other is not None and other.move is not None


def fold(commits: Sequence[Commit]) -> tuple[Batch, list[bool]]:
    """Choose what goes into the next batch.

    Returns:
        The batch, and for each commit whether it is in it.
    """
    batch = Batch()
    taken: list[bool] = []
    left_runs: set[str] = set()
    for commit in commits:
        fits = commit.run not in left_runs and batch.takes(commit)
        if not fits:
            left_runs.add(commit.run)
        taken.append(fits)
    return batch, taken
