"""What the owner of a run writes in one go, all or nothing, and the outcome."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from onward.core.instant import Instant
from onward.core.lease import Fate
from onward.model.cache import CacheWrite
from onward.model.effects import EffectWrite
from onward.model.messages import NewMessage
from onward.model.pipelines import PipelineWrite
from onward.model.records import NewRecord
from onward.model.runs import Move, NewRun


@dataclass(frozen=True, slots=True)
class Attachments:
    """What pipelines, effects and cached steps add to a commit."""

    effects: tuple[EffectWrite, ...] = ()
    cached: tuple[CacheWrite, ...] = ()
    pipeline: PipelineWrite | None = None

    def touched(self) -> Iterator[tuple[str, ...]]:
        """Yield a key for each row that this changes if it is as expected."""
        yield from (("effect", effect.key) for effect in self.effects)
        yield from (("cached", entry.key) for entry in self.cached)
        if self.pipeline is not None and self.pipeline.handler:
            yield "handler", self.pipeline.handler, self.pipeline.key

    def size(self) -> int:
        """Return about how many bytes these are."""
        size = sum(map(_size, self.effects)) + sum(map(_size, self.cached))
        if (write := self.pipeline) is None:
            return size
        parts: tuple[tuple[object, ...], ...] = (*write.inputs, *write.published)
        if write.prepared is not None:
            parts += (write.prepared, *write.prepared.reserve)
        if write.completed is not None:
            parts += (write.completed,)
        return size + len(write.key) + sum(map(_size, parts))


def _size(row: tuple[object, ...]) -> int:
    """Return the length of all texts and bytes in a row."""
    return sum([len(value) for value in row if isinstance(value, (bytes, str))])


NOTHING_ATTACHED = Attachments()


@dataclass(slots=True, init=False)
class Commit:
    """Everything that the owner of `run` writes under `fence`, all or nothing.

    `messages` are the engine's: it sends the end of a run to its parent. A worker gives none.
    """

    run: str
    fence: int
    records: tuple[NewRecord, ...]
    move: Move | None
    messages: tuple[NewMessage, ...]
    starts: tuple[NewRun, ...]
    attached: Attachments
    is_plain: bool
    """Whether this adds records and does nothing else."""

    def __init__(  # noqa: PLR0913 - no dataclass's: a second call would compute `is_plain`
        self,
        run: str,
        fence: int,
        records: tuple[NewRecord, ...] = (),
        move: Move | None = None,
        messages: tuple[NewMessage, ...] = (),
        starts: tuple[NewRun, ...] = (),
        attached: Attachments = NOTHING_ATTACHED,
    ) -> None:
        self.run = run
        self.fence = fence
        self.records = records
        self.move = move
        self.messages = messages
        self.starts = starts
        self.attached = attached
        self.is_plain = (
            move is None and not messages and not starts and attached is NOTHING_ATTACHED
        )

    @property
    def seen(self) -> int | None:
        """The inbox number that the run must still have if it is to move."""
        return None if self.move is None else self.move.seen

    @property
    def may_be_refused(self) -> bool:
        """Whether this relies on more than that its run is still the owner's."""
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
        """Return about how many rows and how many bytes this writes.

        Every value whose length is not bounded counts, in characters if it is a text.
        """
        size = 0
        for record in self.records:  # unpacked: read one by one they take three times as long
            _, identity, _, _, _, name, _, _, version, _, _, _, payload, error, _, args = record
            size += len(identity) + len(name) + len(version or "")
            size += len(payload or b"") + len(error or b"") + len(args or b"")
        if self.is_plain:
            return len(self.records), size
        if self.move is not None:
            size += len(self.move.reason or "") + sum(map(len, filter(None, self.move[7:])))
        for rows in (self.starts, self.messages):
            size += sum(map(_size, rows))
        if self.attached is not NOTHING_ATTACHED:
            size += self.attached.size()
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


class CommitOutcome(NamedTuple):
    """The outcome of a commit, and the time of its records in the database.

    `is_earlier` says that an earlier try has written them: that time is over.
    """

    fate: Fate
    at: Instant
    is_earlier: bool = False


Answered: TypeAlias = "Callable[[CommitOutcome | BaseException], None]"
"""What is called once with the outcome of a commit, or with the error that prevented it."""
