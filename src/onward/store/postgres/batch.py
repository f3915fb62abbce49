"""The hot path on Postgres: a batch becomes arrays, and the arrays one statement."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg

from onward.core.lease import Fate, Row, Write, fate
from onward.core.run import TERMINAL, RunState
from onward.errors import LeaseLost, Unavailable
from onward.model.cache import CacheWrite
from onward.model.commits import NOTHING_ATTACHED
from onward.model.effects import EffectWrite
from onward.model.messages import NewMessage, SentMessage
from onward.model.records import NewRecord
from onward.model.runs import Move, NewRun, RunOwner, Started, found_run
from onward.store.database import Written
from onward.store.writing.repeats import recorded_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from onward.core.instant import Instant
    from onward.model.commits import Commit
    from onward.model.runs import Start
    from onward.store.database import RecordKey
    from onward.store.postgres.transaction import PostgresTx
    from onward.store.writing.batch import Batch

_TRIES = 5
_FIRST_WRITES = {"onward_effect_pkey"}
"""Keys of rows that another statement may insert after this one has looked for them."""

_OWNED = ("run", "fence", "worker")
_NO_MOVE = (None,) * len(Move._fields)
_NO_OWNER = (None,) * len(RunOwner._fields)
_OWNED_START = (
    *(f"c_{field}" for field in NewRun._fields),
    *(f"owner_{field}" for field in RunOwner._fields),
)


_ALIKE = frozenset({"attempt", "kind", "name", "state"})
"""Fields of a record that are never null, and mostly the same in a whole batch."""


_OWNER = frozenset({"fence", "worker"})
"""Fields of a commit that are never null, and mostly the same in a whole batch."""
_WORKER = frozenset({"worker"})


def _columns(
    prefix: str,
    fields: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    alike: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """Turn rows into one array per field, named as the statement names them.

    The driver encodes values one by one, which takes a good part of the time of a batch. So a
    column without values is an empty array, and one of the fields `alike` with one value has it
    once: `unnest` fills up with nulls, for which the statement takes the first value.
    """
    if not rows:
        return {prefix + field: () for field in fields}
    count = len(rows)
    columns = {}
    for field, column in zip(fields, zip(*rows, strict=True), strict=True):
        if column[0] is None and column.count(None) == count:
            columns[prefix + field] = ()
        elif field in alike and column.count(column[0]) == count:
            columns[prefix + field] = column[:1]
        else:
            columns[prefix + field] = column
    return columns


def texts(column: Sequence[str | None]) -> str:
    """Return a column of text as Postgres writes an array.

    The driver looks at each element of an array with two slow checks of its type, which took a
    twentieth of the time of a step.
    """
    if None not in column:
        joined = '","'.join(column)  # type: ignore[arg-type]  # see above
        if "\\" not in joined and joined.count('"') == 2 * len(column) - 2:
            return '{"' + joined + '"}'
    return "{" + ",".join(map(_quoted, column)) + "}"


def _quoted(text: str | None) -> str:
    if text is None:
        return "NULL"
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def numbers(column: Sequence[int | None]) -> str:
    """Return a column of numbers as Postgres writes an array."""
    return "{" + ",".join(map(str, column)).replace("None", "NULL") + "}"


_WRITTEN_OUT: dict[str, Callable[[Sequence[Any]], str]] = {
    **dict.fromkeys(("run", "state", "error_type", "failed_step"), texts),
    **dict.fromkeys(("r_run", "r_identity", "r_args_hash"), texts),
    **dict.fromkeys(
        ("c_uid", "c_id", "c_name", "c_args_hash", "c_kind", "c_queue", "c_tags"), texts
    ),
    **dict.fromkeys(("seq", "r_seq", "r_took"), numbers),
    **dict.fromkeys(("c_priority", "c_delay_in", "c_cancel_with_parent", "c_attempt"), numbers),
}
"""The columns with a value in every row of most batches."""


def _write_out(columns: dict[str, Any]) -> dict[str, Any]:
    for name in columns.keys() & _WRITTEN_OUT.keys():
        columns[name] = _WRITTEN_OUT[name](columns[name])
    return columns


class _Owned(NamedTuple):
    """Which rows of a batch belong to which run: the same fields, and the run."""

    prefix: str
    fields: tuple[str, ...]

    def columns(
        self, rows: Iterable[tuple[str, Iterable[tuple[Any, ...]]]]
    ) -> dict[str, tuple[Any, ...]]:
        return _columns(
            self.prefix, (*self.fields, "run"), [(*row, run) for run, each in rows for row in each]
        )


_MESSAGES = _Owned("m_", NewMessage._fields)
_STARTS = _Owned("c_", NewRun._fields)
_CACHED = _Owned("k_", CacheWrite._fields)


async def write(tx: PostgresTx, batch: Batch) -> Written:
    """Write a batch of owners' commits and return the fate of each.

    A run that could be written and was not has met another statement on its row, probably our own
    whose reply was lost: it is sent again. So is everything when another statement
    was first to insert a row of the ledger.
    """
    workers = batch.workers
    answer = _Answer(workers)
    left = batch.runs
    for _ in range(_TRIES):
        records = [record for commit in left.values() for record in commit.latest_records()]
        statement, given = _arrays(list(left.values()), records, workers)
        try:
            rows = await tx.fetch(statement, **_write_out(given))
        except asyncpg.UniqueViolationError as conflict:
            if conflict.constraint_name not in _FIRST_WRITES:
                raise
            if tx.is_in_transaction:  # of which nothing is left: all of it is sent again
                raise Unavailable(tx.where, "had a conflicting write") from conflict
            continue
        repeated = answer.take(left, rows, len(records))
        answer.earlier |= await recorded_times(tx, repeated)
        left = {uid: commit for uid, commit in left.items() if uid not in answer.fates}
        if not left:
            return answer.written()
    raise Unavailable(tx.where, "had conflicting writes in every attempt")


class _Answer:
    """The answers to a batch, from as many statements as it took."""

    def __init__(self, workers: Mapping[str, str]) -> None:
        self._workers = workers
        self.fates: dict[str, Fate] = {}
        self.earlier: dict[RecordKey, Instant] = {}
        self._at: Instant = 0
        self._queues: set[str] = set()

    def take(
        self, sent: Mapping[str, Commit], rows: Sequence[Sequence[Any]], records: int
    ) -> list[Commit]:
        """Take the answer to one statement that was to write so many records.

        Returns:
            The commits that an earlier statement may have written, at a time of its own.
        """
        queues, self._at, recorded = rows[0][-3:]
        self._queues.update(queues or ())
        fates = dict.fromkeys(sent, Fate.DONE)
        missed: list[Commit] = []
        for uid, state, fence, inbox, worker, was_refused, leased, *_ in rows[1:]:
            commit = sent[uid]
            missed.append(commit)
            row = None if state is None else Row(RunState(state), fence, inbox, worker)
            moves = commit.move is not None
            wanted = Write(commit.fence, moves, commit.seen, self._workers[uid])
            fates[uid] = fate(row, wanted, leased=leased)
            if fates[uid] is Fate.DONE and row is not None and row.state is RunState.RUNNING:
                if was_refused:
                    fates[uid] = Fate.BUSY
                else:
                    del fates[uid]  # nothing says why it was not written: it is sent again
        if len(fates) < len(sent):
            self._keep_times(commit for uid, commit in sent.items() if uid in fates)
        self.fates |= fates
        if recorded == records - sum(len(commit.latest_records()) for commit in missed):
            return [commit for commit in missed if fates.get(commit.run) is Fate.DONE]
        return [commit for uid, commit in sent.items() if fates.get(uid) is Fate.DONE]

    def _keep_times(self, commits: Iterable[Commit]) -> None:
        """Keep the time of what this statement wrote, as the batch is answered by a later one."""
        for commit in commits:
            for record in commit.records:
                self.earlier[record.run, record.identity, record.attempt] = self._at

    def written(self) -> Written:
        return Written(self.fates, self._at, frozenset(self._queues), self.earlier)


def _arrays(
    commits: list[Commit], records: list[NewRecord], workers: Mapping[str, str]
) -> tuple[str, dict[str, Any]]:
    """Return the statement that writes these, and its arrays."""
    written = _columns("r_", NewRecord._fields, records, _ALIKE)
    if all(commit.is_plain for commit in commits):
        owners = [(commit.run, commit.fence, workers[commit.run]) for commit in commits]
        return "commit_records", written | _columns("", _OWNED, owners, _OWNER)
    moves = [(c.run, c.fence, workers[c.run], *(c.move or _NO_MOVE)) for c in commits]
    written |= _columns("", (*_OWNED, *Move._fields), moves, _WORKER)
    written |= _MESSAGES.columns((c.run, c.messages) for c in commits)
    written |= _STARTS.columns((c.run, c.starts) for c in commits)
    if all(commit.attached is NOTHING_ATTACHED for commit in commits):
        return "commit_runs", written
    effects = [effect for c in commits for effect in c.attached.effects]
    written |= _columns("e_", EffectWrite._fields, effects)
    if not any(commit.attached.cached for commit in commits):
        return "commit_attached", written
    written |= _CACHED.columns((c.run, c.attached.cached) for c in commits)
    return "commit_cached", written


async def start(tx: PostgresTx, starts: Sequence[Start]) -> list[Started | LeaseLost]:
    """Start runs that do not exist yet; an owner that lost its run starts nothing."""
    answers: dict[str, Started | LeaseLost] = {}
    asked = list(starts)
    for _ in range(_TRIES):
        given = [(*run, *(owner or _NO_OWNER)) for run, owner in asked]
        rows = await tx.fetch("start", **_write_out(_columns("", _OWNED_START, given)))
        by_uid = {run.uid: run for run, _ in asked}
        for uid, lost, made, there, *known in rows:
            if lost is not None:
                answers[uid] = LeaseLost(lost)
            elif made:
                run = by_uid[uid]
                answers[uid] = Started(uid, True, run.name, run.args_hash, made)  # noqa: FBT003
            elif there is not None:
                answers[uid] = found_run(uid, there, *known)
        # Neither made nor seen: another start of that id committed in between.
        asked = [each for each in asked if each.run.uid not in answers]
        if not asked:
            return [answers[run.uid] for run, _ in starts]
    raise Unavailable(
        tx.where, "could not start the runs, because each attempt conflicted with another start"
    )


async def send(tx: PostgresTx, messages: Sequence[NewMessage]) -> list[SentMessage]:
    """Put messages into the inboxes of runs."""
    answers, _ = await _send(tx, messages, in_turn=False)
    return [answers[place] for place in range(len(messages))]


async def send_in_turn(
    tx: PostgresTx, messages: Sequence[NewMessage]
) -> tuple[list[SentMessage | None], frozenset[str]]:
    """Put messages into the inboxes of runs, unless the outbox holds others for the same runs.

    Returns:
        The answers, None for a message that was not sent because of that, and the ids of the runs
        to which what is in the outbox has to be delivered first.
    """
    answers, behind = await _send(tx, messages, in_turn=True)
    return [answers.get(place) for place in range(len(messages))], behind


async def _send(
    tx: PostgresTx, messages: Sequence[NewMessage], *, in_turn: bool
) -> tuple[dict[int, SentMessage], frozenset[str]]:
    answers: dict[int, SentMessage] = {}
    behind: dict[int, str] = {}
    asked = list(enumerate(messages))
    for _ in range(_TRIES):
        columns = _columns("", NewMessage._fields, [message for _, message in asked])
        rows = await tx.fetch("send", in_turn=int(in_turn), **columns)
        for (place, _), row in zip(asked, rows, strict=True):
            if row[7] is not None:
                behind[place] = row[7]
                continue
            sent = _sent(*row[1:6])
            if sent is not None and not (row[6] and sent.fate == "ended"):
                answers[place] = sent
        done = answers.keys() | behind.keys()
        asked = [(place, message) for place, message in asked if place not in done]
        if not asked:
            return answers, frozenset(behind.values())
    raise Unavailable(tx.where, "had conflicting messages in every attempt")


def _sent(
    uid: str | None, state: str | None, new: int | None, there: int | None, queue: str | None
) -> SentMessage | None:
    if uid is None:
        return SentMessage(None, None, "", "absent")
    if new is not None:
        return SentMessage(uid, new, queue or "", "delivered")
    if there is not None:
        return SentMessage(uid, there, "", "duplicate")
    if state in TERMINAL:
        return SentMessage(uid, None, "", "ended")
    return None  # another send of the same message committed in between


async def sweep(tx: PostgresTx, limit: int) -> list[SentMessage]:
    """Move messages from the outbox into inboxes, oldest first."""
    return await _sweep(tx, await tx.fetch("oldest_outbox", limit=limit))


async def sweep_runs(tx: PostgresTx, ids: Iterable[str], limit: int) -> list[SentMessage]:
    """Move all messages of these runs from the outbox into inboxes.

    The first rows of all of them are locked before any run is, and never one before those: so no
    two sweeps wait for each other.
    """
    sent: list[SentMessage] = []
    after = dict.fromkeys(sorted(ids), 0)
    while after:
        pages = [
            await tx.fetch("outbox_of_run", target=target, after=seq, limit=limit)
            for target, seq in after.items()
        ]
        sent += await _sweep(tx, [row for page in pages for row in page])
        after = {page[-1][1]: page[-1][0] for page in pages if len(page) == limit}
    return sent


async def _sweep(tx: PostgresTx, rows: Sequence[Sequence[Any]]) -> list[SentMessage]:
    if not rows:
        return []
    sent = await send(tx, [NewMessage(*row[1:]) for row in rows])
    await tx.fetch("drop_outbox_rows", seqs=[row[0] for row in rows])
    return sent
