"""The pen of a run: what its owner writes into history, and to the run's own row.

Everything is written under the fence of the claim. What is written is passed to the replay machine
only after the commit, so that nothing is ever handed to a body that a crash could take back.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from onward.core.delivery import Phase, phase_after, phase_of
from onward.core.lease import Fate
from onward.core.replay import Record, RecordKind, RecordState
from onward.core.run import RunState
from onward.core.value import Value
from onward.errors import PayloadTooLarge, Rejected, WriteRefused
from onward.model.commits import NOTHING_ATTACHED, Attachments, Commit
from onward.model.records import NewRecord
from onward.model.runs import Move
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.core.instant import Duration, Instant
    from onward.core.replay import Replay
    from onward.model.commits import Answered, CommitOutcome
    from onward.model.effects import EffectWrite
    from onward.model.runs import ClaimedRun, NewRun
    from onward.runtime.body.calls import Call
    from onward.runtime.body.clock import ClockCall

    Write = Callable[[Commit, Answered], None]


_LOST = Fate.LOST  # looked up once: see `core.replay.machine`


class Kept(Value):
    """What a record holds beyond what the rules need."""

    payload: bytes | None
    error: bytes | None
    at: Instant
    args: bytes | None = None


def _do_nothing() -> None:
    """Do nothing."""


class Journal:
    """Writes for one run.

    Args:
        claimed: The claim under whose fence it writes.
        last: The last position of history that is taken.
        replay: Receives every record, once it is written.
        write: Commits, together with whatever else has gathered.
        lost: Is called when the run turns out to be another's, or the store is away for good.
        broken: Is called when something that cannot happen did, or a commit was refused.
        version: The version of the code, kept with every record.
    """

    def __init__(  # noqa: PLR0913 - it stands between all of these
        self,
        claimed: ClaimedRun,
        last: int,
        replay: Replay,
        write: Write,
        lost: Callable[[], None],
        broken: Callable[[BaseException], None],
        version: str | None,
    ) -> None:
        self._uid = claimed.uid
        self._fence = claimed.fence
        self._phase = phase_of(claimed.kind, claimed.phase)
        self.crashes = claimed.crashes
        """How many workers vanished with the run since it last got on."""
        self._last = last
        self._replay = replay
        self._commit = write
        self._lost = lost
        self._broken = broken
        self._version = version
        self.writing = 0
        """How many commits are under way."""
        self._held: list[Callable[[], None]] | None = None
        """What is written once it is known whether an attachment was refused. Until then, a later
        position would leave a gap in history, if the worker died before it wrote the error."""
        self._then: Callable[[], None] | None = None
        self.recording: dict[str, list[Callable[[], None]]] = {}
        """The calls of which a record is being written, and what waits for that."""
        self.not_started: set[str] = set()
        """Children that do not exist, because the commit that starts them was refused."""

    def when_recorded(self, identity: str, then: Callable[[], None]) -> None:
        """Call this once the record of a call that is being written is in history."""
        self.recording[identity].append(then)

    def when_written(self, then: Callable[[], None]) -> None:
        """Call this once nothing is under way."""
        if self.writing:
            self._then = then
        else:
            then()

    def own_again(self, claimed: ClaimedRun) -> None:
        """Write under the fence of a new claim."""
        self._fence = claimed.fence
        self.crashes = claimed.crashes

    def close(  # noqa: PLR0913 - all of these may belong to one outcome
        self,
        call: Call,
        state: RecordState,
        then: Callable[[], None],
        *,
        payload: bytes | None = None,
        error: bytes | None = None,
        message: int | None = None,
        notes: Callable[[int], NewRecord] | None = None,
        starts: tuple[NewRun, ...] = (),
        attached: Attachments = NOTHING_ATTACHED,
        if_refused: bytes | None = None,
    ) -> None:
        """Write the outcome of a call at the next position of history, which `notes` is given.

        If an attachment is not as it was, the outcome is the error `if_refused` instead.
        """
        seq = self._replay.take_position()
        row = NewRecord(
            self._uid,
            call.identity,
            call.attempt,
            seq,
            call.kind,
            call.name,
            state,
            call.args_hash,
            self._version,
            None,
            None,
            message,
            payload,
            error,
            call.took,
            call.shown_args,
        )
        records = (row,) if notes is None else (row, notes(seq))
        self.recording.setdefault(row.identity, [])
        written = partial(self._written, row, call.kind, state, then, None)
        if if_refused is not None:
            written = partial(self._or_refused, row, if_refused, call.kind, then, written)
        self._submit(
            records,
            written,
            starts=starts,
            attached=attached,
            may_be_refused=if_refused is not None,
        )

    def _or_refused(
        self,
        row: NewRecord,
        error: bytes,
        kind: RecordKind,
        then: Callable[[], None],
        written: Callable[[CommitOutcome], None],
        outcome: CommitOutcome,
    ) -> None:
        """Write an error at the position of an outcome whose attachments were refused."""
        held, self._held = self._held or [], None
        if outcome.fate is Fate.BUSY:
            failed = row._replace(state=RecordState.FAILED, payload=None, error=error)
            state = RecordState.FAILED
            self._submit((failed,), partial(self._written, failed, kind, state, then, None))
        for submit in held:
            submit()
        if outcome.fate is not Fate.BUSY:
            written(outcome)

    def complete(
        self,
        call: Call,
        payload: bytes | None,
        move: Move,
        attached: Attachments,
        then: Callable[[Fate], None],
    ) -> None:
        """Write the outcome of the last call of a run, and with it the end of the run."""
        seq = self._replay.take_position()
        row = self._row(call, RecordState.SUCCEEDED, seq, payload=payload, took=call.took)
        move = move._replace(seq=seq)
        self._submit((row,), lambda outcome: then(outcome.fate), move, attached=attached)

    def keep_time(self, call: ClockCall, then: Callable[[], None]) -> None:
        """Write the time at the next position of history."""
        call.place(self._replay.length + 1)
        seq = self._replay.take_position()
        row = self._row(call, RecordState.SUCCEEDED, seq, payload=call.payload)
        self._record(call, row, then)

    def open(
        self, call: Call, payload: bytes, starts: tuple[NewRun, ...], then: Callable[[], None]
    ) -> None:
        """Write that a call waits for a run, which is started with this unless it was before."""
        row = self._row(call, RecordState.OPEN, None, payload=payload)
        self._record(call, row, then, starts=starts)

    def keep_effect(
        self, call: Call, row: EffectWrite, then: Callable[[CommitOutcome], None]
    ) -> None:
        """Write a row of the ledger, unless it has changed; the call is open from now."""
        opened = () if call.is_kept else (self._row(call, RecordState.OPEN, None),)

        def written(outcome: CommitOutcome) -> None:
            if opened and outcome.fate is not Fate.BUSY:
                self.recorded(opened[0], call.kind, RecordState.OPEN, outcome.at)
            then(outcome)

        self._submit(opened, written, attached=Attachments(effects=(row,)))

    def note(self, row: NewRecord, then: Callable[[], None]) -> None:
        """Write something for others to see; the body does not wait for it."""
        self._submit((row,), lambda _: then())

    def note_row(self, identity: str, payload: bytes) -> NewRecord:
        """Return the record of a note."""
        state = RecordState.SUCCEEDED
        return NewRecord(
            self._uid, identity, 1, None, RecordKind.NOTE, "note", state, payload=payload
        )

    def fail_attempt(
        self, call: Call, error: bytes, after: Duration, then: Callable[[Instant], None]
    ) -> None:
        """Write that an attempt failed, and tell when the next one is due."""
        row = self._row(call, RecordState.FAILED, None, due_in=after, error=error, took=call.took)
        self._record(call, row, _do_nothing, then)

    def park(self, opened: Iterable[Call], move: Move, then: Callable[[Fate], None]) -> None:
        """Let the run wait or pause, unless something has arrived; waits are written open."""
        rows = [
            self._row(call, RecordState.OPEN, None, due=call.due, took=max(0, call.lasts))
            for call in opened
        ]
        move = move._replace(seq=self._last)
        self._submit(tuple(rows), lambda outcome: then(outcome.fate), move)

    def end(self, move: Move, then: Callable[[], None]) -> None:
        """Let the run end, pause, or go back to where it is claimed from."""
        self._submit((), lambda _: then(), move._replace(seq=self._last))

    def _row(self, call: Call, state: RecordState, seq: int | None, **rest: Any) -> NewRecord:
        return NewRecord(
            self._uid,
            call.identity,
            call.attempt,
            seq,
            call.kind,
            call.name,
            state,
            call.args_hash,
            self._version,
            args=call.shown_args,
            **rest,
        )

    def _record(
        self,
        call: Call,
        row: NewRecord,
        then: Callable[[], None],
        when_due: Callable[[Instant], None] | None = None,
        starts: tuple[NewRun, ...] = (),
    ) -> None:
        self.recording.setdefault(row.identity, [])
        written = partial(self._written, row, call.kind, RecordState(row.state), then, when_due)
        self._submit((row,), written, starts=starts)

    def _written(
        self,
        row: NewRecord,
        kind: RecordKind,
        state: RecordState,
        then: Callable[[], None],
        when_due: Callable[[Instant], None] | None,
        outcome: CommitOutcome,
    ) -> None:
        """Continue after a record that is in history now."""
        waiting = self.recording.pop(row.identity, ())
        self.recorded(row, kind, state, outcome.at)
        if when_due is not None and row.due_in is not None:
            when_due(outcome.at + row.due_in)
        then()
        for after in waiting:
            after()

    def recorded(self, row: NewRecord, kind: RecordKind, state: RecordState, at: Instant) -> None:
        """Take note that a record is in history, since `at`."""
        identity, attempt, seq, _, name, _, args_hash, version = row[1:9]
        if seq is not None:
            self._last = seq
        due = None if row.due_in is None else at + row.due_in
        kept = Kept(row.payload, row.error, at)
        self._replay.recorded(
            Record(identity, attempt, seq, kind, name, state, args_hash, version, due, kept)
        )

    def _submit(
        self,
        records: tuple[NewRecord, ...],
        then: Callable[[CommitOutcome], None],
        move: Move | None = None,
        starts: tuple[NewRun, ...] = (),
        attached: Attachments = NOTHING_ATTACHED,
        *,
        may_be_refused: bool = False,
    ) -> None:
        if self._held is not None:
            again = partial(self._submit, may_be_refused=may_be_refused)
            self._held.append(partial(again, records, then, move, starts, attached))
            return
        if may_be_refused:
            self._held = []
        if self.crashes and move is None:
            is_clock = bool(records) and records[0].kind is RecordKind.CLOCK
            if not is_clock:
                # It gets on: what crashed before counts no more.
                move, self.crashes = Move(RunState.RUNNING), 0
        if self._phase is not None and records:
            move = self._reach(self._phase, records, move)
        self.writing += 1
        commit = Commit(self._uid, self._fence, records, move, (), starts, attached)
        self._commit(commit, partial(self._answered, commit, then))

    def _reach(
        self, phase: Phase, records: tuple[NewRecord, ...], move: Move | None
    ) -> Move | None:
        """Return the move that also says how far a consumer has come with these records."""
        reached = phase
        for row in records:
            reached = phase_after(reached, RecordKind(row.kind), row.name, RecordState(row.state))
        if reached is phase:
            return move
        self._phase = reached
        return (move or Move(RunState.RUNNING))._replace(phase=reached)

    def _answered(
        self,
        commit: Commit,
        then: Callable[[CommitOutcome], None],
        answer: CommitOutcome | BaseException,
    ) -> None:
        self.writing -= 1
        if isinstance(answer, BaseException):
            self._held = None
            self._failed(commit, answer)
            return
        if answer.fate is _LOST:
            self._lost()
            return
        try:
            then(answer)
            if self._then is not None and not self.writing:
                after, self._then = self._then, None
                after()
        except BaseException as bug:  # noqa: BLE001 - in a callback nothing else would catch it
            raise_interrupt(bug)
            self._broken(bug)

    def _failed(self, commit: Commit, error: BaseException) -> None:
        """End a run whose commit was refused, which would be refused again; or drop it."""
        if not _is_refusal(error):
            self._lost()  # the store is away, or its lane was cancelled
            return
        for record in commit.records:
            self.recording.pop(record.identity, None)
        self.not_started.update(run.uid for run in commit.starts)
        self._broken(error)


def _is_refusal(error: BaseException) -> bool:
    """Return whether a commit was refused because of what it writes."""
    if isinstance(error, WriteRefused):
        return not error.is_lost
    return isinstance(error, (PayloadTooLarge, Rejected))
