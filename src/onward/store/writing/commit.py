"""What the owner of a run writes in one go, and how many such writes become one batch.

A `Commit` is all or nothing: its records, the move of its run, its messages, new runs, ledger rows
and attachments are written together or not at all. Folding is pure: it takes commits in the order
they came and says which of them go together, under the rules that make one statement possible:

- a run has one place in a batch, however many commits it made;
- a run is never moved and woken in one batch, and nothing is attached to twice, for one statement
  may not change a row twice;
- a commit that may be refused goes without others of its run, which would be refused with it;
- what is left for the next batch keeps its order within a run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

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

    def touched(self) -> Iterator[tuple[str, ...]]:
        """Yield a key for each row that this changes if it is as expected."""
        yield from (("effect", effect.key) for effect in self.effects)
        yield from (("delivery", move.handler, move.event) for move in self.deliveries)
        yield from (("state", saved.handler, saved.key) for saved in self.states)


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

    @property
    def may_be_refused(self) -> bool:
        """Say whether this relies on more than that its run is still its own."""
        return self.seen is not None or self.attached is not NOTHING_ATTACHED

    def latest_records(self) -> Collection[NewRecord]:
        """Return the records, each identity once: a record opened and closed here is closed.

        What comes out is what the database would hold had they been written one after the other.
        """
        if len(self.records) < 2:
            return self.records
        latest: dict[tuple[str, int], NewRecord] = {}
        for record in self.records:
            before = latest.setdefault((record.identity, record.attempt), record)
            if before is not record and before.state == "open":
                latest[record.identity, record.attempt] = _closed(before, record)
        return latest.values()

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
        """Return this and a later commit of the same run, neither of which attaches, as one."""
        return Commit(
            self.run,
            self.fence,
            self.records + later.records,
            later.move,
            self.messages + later.messages,
            self.starts + later.starts,
        )


def _closed(opened: NewRecord, later: NewRecord) -> NewRecord:
    """Return an open record as a later one of the same attempt leaves it."""
    times = (later.due, later.due_in)
    due, due_in = (opened.due, opened.due_in) if times == (None, None) else times
    return opened._replace(
        seq=later.seq,
        state=later.state,
        due=due,
        due_in=due_in,
        message=later.message,
        payload=later.payload,
        error=later.error,
    )


class Batch:
    """Commits that are written together, one a run."""

    def __init__(self) -> None:
        self.runs: dict[str, Commit] = {}
        self._woken: set[str] = set()
        self._touched: set[tuple[str, ...]] = set()
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
        if commit.attached is not NOTHING_ATTACHED:
            self._touched.update(commit.attached.touched())
        self._rows, self._size = rows, size
        return True

    def _may_join(self, commit: Commit, mine: Commit | None) -> bool:
        if mine is not None and (
            mine.fence != commit.fence
            or mine.move is not None
            or mine.may_be_refused
            or commit.may_be_refused
        ):
            return False
        if commit.move is not None and commit.run in self._woken:
            return False
        if self._touched and not self._touched.isdisjoint(commit.attached.touched()):
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
