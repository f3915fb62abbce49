"""The pen of a run: what waits until everything is written."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from onward.core.lease import Fate
from onward.core.replay import LateStart, RecordKind, RecordState, Replay
from onward.errors import Rejected, Unavailable, WriteRefused
from onward.model.commits import CommitOutcome
from onward.model.runs import ClaimedRun, Move
from onward.runtime.body.calls import Call
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
        self.written: list[tuple[str, int | None, str]] = []
        self.told: list[str] = []
        lost, broken = (lambda: self.told.append("lost")), (lambda _: self.told.append("broken"))
        self.journal = Journal(CLAIMED, 0, Replay(), self._write, lost, broken, None)

    def _write(self, commit: Commit, then: Answered) -> None:
        self.moves.append(None if commit.move is None else commit.move.state)
        self.written += [(each.identity, each.seq, each.state) for each in commit.records]
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


class Publishing(Call):
    """A call whose outcome is written with something that may be refused."""

    kind = RecordKind.STEP

    def __init__(self, identity: str) -> None:
        super().__init__("publish")
        self.identity = identity


def publish(desk: Desk, identity: str, if_refused: bytes | None = b"no such topic") -> None:
    call = Publishing(identity)
    then = partial(desk.told.append, identity)
    desk.journal.close(call, RecordState.SUCCEEDED, then, payload=b"json:1", if_refused=if_refused)


async def test_nothing_is_written_after_an_outcome_that_may_still_be_refused() -> None:
    desk = Desk()
    publish(desk, "a#1")
    publish(desk, "b#1")
    publish(desk, "c#1", if_refused=None)
    assert desk.written == [("a#1", 1, "succeeded")]

    desk.answer()
    assert desk.written[1:] == [("b#1", 2, "succeeded")]
    desk.answer()
    assert desk.written[2:] == [("c#1", 3, "succeeded")]


async def test_the_error_of_a_refused_outcome_is_written_before_what_follows() -> None:
    desk = Desk()
    publish(desk, "a#1")
    publish(desk, "b#1", if_refused=None)
    desk.answer(Fate.BUSY)

    assert desk.written[1:] == [("a#1", 1, "failed"), ("b#1", 2, "succeeded")]


async def test_a_run_ends_after_an_outcome_that_broke_it() -> None:
    desk = Desk()
    publish(desk, "a#1")
    publish(desk, "b#1", if_refused=None)
    desk.refuse(Rejected("it has a NUL"))
    desk.journal.end(Move("failed"), lambda: None)

    assert desk.told == ["broken"]
    assert [identity for identity, _, _ in desk.written] == ["a#1"]
    assert desk.moves[-1] == "failed"
