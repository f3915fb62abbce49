"""The pen of a run: what waits until everything is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.core.lease import Fate
from onward.core.replay import LateStart, Replay
from onward.errors import Rejected, Unavailable, WriteRefused
from onward.model.commits import CommitOutcome
from onward.model.runs import ClaimedRun
from onward.runtime.body.clock import ClockCall
from onward.runtime.execution.journal import Journal

if TYPE_CHECKING:
    from onward.model.commits import Answered, Commit


CLAIMED = ClaimedRun(
    "uid-a", "a", "workflow", "body", None, "default", 1, 0, 0, 0, None, None, None, None, 0, None,
    None, 1, None, None, "", None, 0, 0, 0, 0, "", "", b"", "hash", None, None, None, None,
)  # fmt: skip


class Desk:
    """Takes commits, and answers when it is told to."""

    def __init__(self) -> None:
        self.answers: list[Answered] = []
        self.moves: list[str | None] = []
        self.told: list[str] = []
        lost, broken = (lambda: self.told.append("lost")), (lambda _: self.told.append("broken"))
        self.journal = Journal(CLAIMED, 0, Replay(), self._write, lost, broken, None)

    def _write(self, commit: Commit, then: Answered) -> None:
        self.moves.append(None if commit.move is None else commit.move.state)
        self.answers.append(then)

    def write(self) -> None:
        self.journal.note(self.journal.note_row("note", b""), lambda: None)

    def answer(self, fate: Fate = Fate.DONE) -> None:
        self.answers.pop(0)(CommitOutcome(fate, 7))

    def refuse(self, error: Exception) -> None:
        self.answers.pop(0)(error)


async def test_a_clock_record_does_not_count_as_progress_of_a_run_that_crashed() -> None:
    desk = Desk()
    desk.journal.crashes = 2
    desk.journal.keep_time(ClockCall(LateStart(0, is_replayed=True)), lambda: None)
    desk.write()

    assert desk.moves == [None, "running"]
    assert desk.journal.crashes == 0


async def test_what_waits_for_nothing_happens_at_once() -> None:
    desk = Desk()
    desk.journal.when_written(lambda: desk.told.append("then"))

    assert desk.told == ["then"]


async def test_what_waits_for_all_that_is_written_happens_once_after_the_last() -> None:
    desk = Desk()
    for _ in range(2):
        desk.write()
    desk.journal.when_written(lambda: desk.told.append("then"))

    desk.answer()
    assert desk.told == []
    desk.answer()
    assert desk.told == ["then"]
    desk.write()
    desk.answer()
    assert desk.told == ["then"]


async def test_what_waits_does_not_happen_when_the_run_is_lost() -> None:
    desk = Desk()
    desk.write()
    desk.journal.when_written(lambda: desk.told.append("then"))

    desk.answer(Fate.LOST)
    assert desk.told == ["lost"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Rejected("it has a NUL"), "broken"),
        (WriteRefused("size", "a record is too large"), "broken"),
        (WriteRefused("run", "the worker does not have it"), "lost"),
        (WriteRefused("fence", "the run has another fence"), "lost"),
        (Unavailable("the server", "is away"), "lost"),
    ],
)
async def test_a_refused_commit_breaks_the_run_unless_the_run_is_lost(
    error: Exception, told: str
) -> None:
    desk = Desk()
    desk.write()

    desk.refuse(error)
    assert desk.told == [told]
