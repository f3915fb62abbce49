"""An engine in memory that checks everything a worker writes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onward.codec import encode, fingerprint
from onward.core.ids import is_uid, uid7
from onward.core.instant import SECOND
from onward.core.replay import RecordKind, RecordState
from onward.core.run import TERMINAL, RunState
from onward.testing.protocol.rules import RuleBroken
from onward.wire.messages import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

QUEUE = "protocol"
START = 1_800_000_000_000_000
"""The time at which the database of a test begins, in microseconds."""

_WAITS = (RecordKind.TIMER, RecordKind.SIGNAL)
_RUNS = (RecordKind.CHILD, RecordKind.STEP)
_CLOSED = frozenset(RecordState) - {RecordState.OPEN}


def packed(value: Any) -> bytes:
    """Return a value as a payload."""
    return b"json:" + json.dumps(value).encode()


def unpacked(payload: bytes, what: str) -> Any:
    """Return the value in a payload of a worker."""
    tag, colon, data = payload.partition(b":")
    if not colon or tag != b"json":
        raise RuleBroken("payloads", f"{what} begins with {payload[:12]!r}")
    try:
        return json.loads(data)
    except ValueError:
        raise RuleBroken("payloads", f"{what} is not JSON: {payload[:40]!r}") from None


@dataclass(eq=False)
class PlayedRun:
    """A run of the engine, and what the worker wrote for it."""

    uid: str
    name: str
    kind: str
    input: bytes
    created_at: int
    state: str = RunState.READY
    reason: str | None = None
    fence: int = 0
    worker: str | None = None
    due: int | None = None
    seq: int = 0
    crashes: int = 0
    retry: str | None = None
    parent: str | None = None
    parent_identity: str | None = None
    records: dict[tuple[str, int], Any] = field(default_factory=dict)
    inbox: list[Any] = field(default_factory=list)
    moves: list[Any] = field(default_factory=list)
    commits: list[Any] = field(default_factory=list)
    progress: bytes | None = None
    ready_at: int | None = None
    """Since when no worker has it; None: since it is claimed."""
    must_clear_crashes: bool = False

    @property
    def history(self) -> list[Any]:
        """The records, in the order of their positions; those without one come last."""
        rows = self.records.values()
        return sorted(rows, key=lambda row: (not row.HasField("seq"), row.seq, row.attempt))

    @property
    def closed(self) -> list[Any]:
        """The records that have a position."""
        return [row for row in self.history if row.HasField("seq")]

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state in TERMINAL

    @property
    def move(self) -> Any:
        """The last move that the worker wrote."""
        return self.moves[-1]

    def of_kind(self, kind: str) -> list[Any]:
        """Return the records of a kind, in order."""
        return [row for row in self.history if row.kind == kind]

    def result(self) -> Any:
        """Return the result of a run that has succeeded."""
        return unpacked(self.move.result, "the result of the run")


class ScriptedEngine:
    """The runs of one worker, in memory."""

    def __init__(self) -> None:
        self.runs: dict[str, PlayedRun] = {}
        self.now = START
        self._began = asyncio.get_running_loop().time()
        self.known_args: dict[str, set[str]] = {}
        """The fingerprints of the arguments that the steps of the test program are called with."""
        self.on_change: Callable[[], None] = lambda: None

    def tick(self) -> int:
        """Return the time of the database, which is another one for every question."""
        passed = int((asyncio.get_running_loop().time() - self._began) * SECOND)
        self.now = max(self.now + 1, START + passed)
        return self.now

    # --- clients ---------------------------------------------------------------------------------

    def start(
        self, name: str, arguments: Mapping[str, Any], *, kind: str = "workflow", **rest: Any
    ) -> PlayedRun:
        """Start a run of the test program."""
        uid = uid7(self.tick(), len(self.runs) + 1)
        run = PlayedRun(uid, name, kind, packed(arguments), self.now, **rest)
        self.runs[uid] = run
        self.on_change()
        return run

    def send(self, run: PlayedRun, kind: str, name: str, payload: bytes | None = None) -> Any:
        """Put a message into the inbox of a run, and wake it if it is parked."""
        seq = len(run.inbox) + 1
        row = messages.InboxRow(
            run=run.uid, seq=seq, message=f"m{seq}", kind=kind, name=name, sent_at=self.tick()
        )
        if payload is not None:
            row.payload = payload
        run.inbox.append(row)
        if run.state in (RunState.WAITING, RunState.PAUSED):
            run.state = RunState.READY
        self.on_change()
        return row

    def take_away(self, run: PlayedRun) -> None:
        """Let another worker have taken a run over."""
        run.fence += 1
        run.worker = "another"
        self.on_change()

    def release(self, run: PlayedRun) -> None:
        """Let a run be claimed again."""
        run.state, run.worker = RunState.READY, None
        self.on_change()

    # --- workers ---------------------------------------------------------------------------------

    def claim(self, worker: str, names: set[str], limit: int) -> list[Any]:
        """Make runs the worker's own, and return them."""
        claimed: list[Any] = []
        for run in self.runs.values():
            if run.state == RunState.READY and run.name in names and len(claimed) < limit:
                claimed.append(self._claimed(run, worker))
        return claimed

    def _claimed(self, run: PlayedRun, worker: str) -> Any:
        run.state, run.worker, run.due = RunState.RUNNING, worker, None
        run.fence += 1
        run.must_clear_crashes = run.crashes > 0
        row = messages.ClaimedRun(
            uid=run.uid,
            id=run.uid,
            kind=run.kind,
            name=run.name,
            queue=QUEUE,
            fence=run.fence,
            inbox=len(run.inbox),
            seq=run.seq,
            crashes=run.crashes,
            attempt=1,
            scheduled_at=run.created_at,
            created_at=run.created_at,
            started_at=run.created_at,
            input=run.input,
            args_hash=fingerprint(encode(json.loads(run.input[5:]))),
            claimed_at=self.tick(),
            ready_at=run.ready_at or self.now,
        )
        for name in ("retry", "parent", "parent_identity"):
            if getattr(run, name) is not None:
                setattr(row, name, getattr(run, name))
        return row

    def owned(self, worker: str) -> dict[str, int]:
        """Return the runs of a worker, with their fences."""
        running = (run for run in self.runs.values() if run.state == RunState.RUNNING)
        return {run.uid: run.fence for run in running if run.worker == worker}

    def audit(self, worker: str, known: set[str]) -> list[str]:
        """Release the runs of a worker that it does not know."""
        unknown = [uid for uid in self.owned(worker) if uid not in known]
        for uid in unknown:
            self.runs[uid].fence += 1
            self.release(self.runs[uid])
        return unknown

    def apply(self, worker: str, commit: Any) -> str:
        """Write a commit, and return its fate.

        Raises:
            RuleBroken: the worker may not write this.
        """
        run = self.runs.get(commit.run)
        if run is None:
            raise RuleBroken("own-runs", f"a commit for the unknown run {commit.run!r}")
        if run.worker != worker or run.fence != commit.fence:
            return "lost"
        if run.state != RunState.RUNNING:
            return "done" if commit.HasField("move") else "lost"
        move = commit.move if commit.HasField("move") else None
        if move is not None and move.HasField("seen") and move.seen != len(run.inbox):
            return "busy"
        self._check_crashes(run, commit)
        for record in commit.records:
            self._record(run, commit, record)
        for start in commit.starts:
            self._start(run, commit, start)
        run.commits.append(commit)
        if move is not None and move.state != RunState.RUNNING:
            self._move(run, move)
        return "done"

    def _check_crashes(self, run: PlayedRun, commit: Any) -> None:
        if [record.kind for record in commit.records] == [RecordKind.CLOCK]:
            return  # it is no progress
        if run.must_clear_crashes and not commit.HasField("move"):
            raise RuleBroken(
                "crashes", f"the first commit of {run.name} does not reset its crash count"
            )
        run.must_clear_crashes, run.crashes = False, 0

    # --- records ---------------------------------------------------------------------------------

    def _record(self, run: PlayedRun, commit: Any, record: Any) -> None:
        what = f"record {record.identity!r} of {run.name}"
        if not record.identity or record.attempt < 1:
            raise RuleBroken("identities", f"{what} has attempt {record.attempt}")
        if record.kind not in set(RecordKind) or record.state not in set(RecordState):
            raise RuleBroken(
                "identities", f"{what} has kind {record.kind!r} and state {record.state!r}"
            )
        before = [row for (identity, _), row in run.records.items() if identity == record.identity]
        if any(row.HasField("seq") for row in before):
            raise RuleBroken("closed-once", f"{what} is recorded again")
        self._check_attempt(record, before, what)
        if record.HasField("seq"):
            if record.seq != run.seq + 1:
                fact = f"{what} has position {record.seq} after position {run.seq}"
                raise RuleBroken("positions", fact)
            run.seq = record.seq
        self._check_content(record, what)
        if record.kind == RecordKind.CLOCK:
            _check_clock(record, what)
        self._check_open(commit, record, what)
        run.records[record.identity, record.attempt] = self._row(run, record)

    def _check_attempt(self, record: Any, before: list[Any], what: str) -> None:
        is_failed_try = record.state == RecordState.FAILED and not record.HasField("seq")
        if is_failed_try and not (record.HasField("due_in") and record.HasField("error")):
            raise RuleBroken("retries", f"{what} is a failed attempt without due_in or error")
        closed = [row for row in before if row.state != RecordState.OPEN]
        if record.kind == RecordKind.STEP and closed and record.attempt != len(closed) + 1:
            raise RuleBroken("retries", f"{what} has attempt {record.attempt}")
        is_closed = record.state in _CLOSED and not is_failed_try
        if is_closed != record.HasField("seq") and record.kind != RecordKind.NOTE:
            raise RuleBroken("positions", f"{what} is {record.state} with seq={record.seq}")

    def _check_content(self, record: Any, what: str) -> None:
        if record.HasField("payload"):
            unpacked(record.payload, what)
        if record.HasField("error"):
            self.check_error(record.error, what)
        is_known = record.kind == RecordKind.STEP and record.name in self.known_args
        if is_known and record.args_hash not in self.known_args[record.name]:
            raise RuleBroken("fingerprints", f"{what} has args_hash {record.args_hash!r}")

    def check_error(self, payload: bytes, what: str) -> Any:
        """Return a stored error."""
        error = unpacked(payload, f"the error in {what}")
        if not (isinstance(error, dict) and {"type", "message"} <= error.keys()):
            raise RuleBroken("errors", f"the error in {what} is {error!r}"[:200])
        return error

    def _check_open(self, commit: Any, record: Any, what: str) -> None:
        if record.state != RecordState.OPEN:
            return
        parks = commit.HasField("move") and commit.move.state in (
            RunState.WAITING,
            RunState.PAUSED,
        )
        if record.kind in _WAITS and not parks:
            raise RuleBroken(
                "waits-when-parked", f"{what} is written as open although the run does not park"
            )
        if record.kind in _RUNS:
            kept = unpacked(record.payload, what) if record.HasField("payload") else None
            keys = {"uid", "is_reported", "cancel_with_parent"}
            if not (isinstance(kept, dict) and keys <= kept.keys()):
                raise RuleBroken("children", f"{what} is open with the payload {kept!r}")

    def _row(self, run: PlayedRun, record: Any) -> Any:
        row = messages.RecordRow(run=run.uid, opened_at=self.now)
        for name in ("identity", "attempt", "kind", "name", "state"):
            setattr(row, name, getattr(record, name))
        for name in ("seq", "args_hash", "version", "due", "message", "payload", "error", "args"):
            if record.HasField(name):
                setattr(row, name, getattr(record, name))
        if record.HasField("due_in"):
            row.due = self.now + record.due_in
        if record.state != RecordState.OPEN:
            row.closed_at = self.now
        return row

    def _start(self, run: PlayedRun, commit: Any, start: Any) -> None:
        what = f"the run that {run.name} starts"
        if not is_uid(start.uid) or not start.id:
            raise RuleBroken("children", f"{what} has uid {start.uid!r} and id {start.id!r}")
        if start.parent != run.uid or not start.parent_identity:
            raise RuleBroken("children", f"{what} has parent {start.parent!r}")
        opened = [row for row in commit.records if row.identity == start.parent_identity]
        if not opened or unpacked(opened[0].payload, what)["uid"] != start.uid:
            raise RuleBroken("children", f"no open record of this commit names {what}")
        unpacked(start.input, f"the input of {what}")
        if start.uid not in self.runs:
            child = PlayedRun(start.uid, start.name, start.kind, start.input, self.now)
            child.parent, child.parent_identity = start.parent, start.parent_identity
            child.state = "elsewhere"  # it runs if a scenario lets it
            self.runs[start.uid] = child

    # --- moves -----------------------------------------------------------------------------------

    def _move(self, run: PlayedRun, move: Any) -> None:
        what = f"the move of {run.name} to {move.state!r}"
        if move.state not in set(RunState):
            raise RuleBroken("ends", f"{what} names an unknown state")
        if move.seq != run.seq:
            fact = f"{what} names position {move.seq}, but history ends at {run.seq}"
            raise RuleBroken("move-position", fact)
        if move.state in (RunState.WAITING, RunState.PAUSED):
            if not move.HasField("seen"):
                raise RuleBroken("seen", f"{what} does not say which messages the run has seen")
            self._check_due(run, move, what)
        self._check_outcome(move, what)
        run.state, run.reason = move.state, move.reason or None
        run.due = move.due if move.HasField("due") else None
        if move.HasField("progress"):
            run.progress = move.progress
        if run.state not in TERMINAL:
            run.worker = None
        run.moves.append(move)

    def _check_outcome(self, move: Any, what: str) -> None:
        if move.state == RunState.SUCCEEDED and not move.HasField("result"):
            raise RuleBroken("ends", f"{what} has no result")
        if move.state == RunState.FAILED and not move.HasField("error"):
            raise RuleBroken("ends", f"{what} has no error")
        if move.HasField("result"):
            unpacked(move.result, what)
        if move.HasField("error"):
            self.check_error(move.error, what)

    def _check_due(self, run: PlayedRun, move: Any, what: str) -> None:
        if move.state != RunState.WAITING:
            return
        waiting = [row for row in run.history if not row.HasField("seq") and row.HasField("due")]
        latest = {row.identity: row for row in sorted(waiting, key=lambda row: row.attempt)}
        due = min((row.due for row in latest.values()), default=None)
        is_stopping = bool(run.of_kind(RecordKind.CANCEL))
        if due is not None and not is_stopping and (not move.HasField("due") or move.due != due):
            raise RuleBroken(
                "park-due", f"{what} is due at {move.due}, but its waits are due at {due}"
            )


def _check_clock(record: Any, what: str) -> None:
    kept = unpacked(record.payload, what)
    is_start = isinstance(kept, dict) and {"since", "is_replayed"} <= kept.keys()
    if record.identity != f"=clock.{record.seq}" or not is_start:
        raise RuleBroken("clock-records", f"{what} has position {record.seq}, payload {kept!r}")
