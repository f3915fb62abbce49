"""Joining, claims, commits and loaded runs as messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.lease import Fate
from onward.errors import Rejected, Undecodable, WriteRefused
from onward.model.cache import CacheWrite
from onward.model.claims import Wanted
from onward.model.commits import NOTHING_ATTACHED, Attachments, Commit, CommitOutcome
from onward.model.effects import EffectWrite
from onward.model.messages import InboxRow
from onward.model.pipelines import PipelineWrite
from onward.model.records import NewRecord, RecordRow
from onward.model.runs import ClaimedRun, Move, NewRun
from onward.model.workers import ClaimAnswer, LoadedRun, LostWorker, Registration
from onward.wire.messages import messages
from onward.wire.problems import to_error, to_problem
from onward.wire.rows import USE_COMPATIBLE_VERSIONS, codec

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TEXT_RULE = "text"
"""The rule of a refused commit with a text that some database cannot store."""

REGISTRATION = codec(Registration, messages.Registration)
LOST_WORKER = codec(LostWorker, messages.LostWorker)
_RECORD = codec(NewRecord, messages.NewRecord)
_MOVE = codec(Move, messages.Move)
_RUN = codec(NewRun, messages.NewRun)
_EFFECT = codec(EffectWrite, messages.EffectWrite)
_CACHED = codec(CacheWrite, messages.CacheWrite)
_PIPELINE = codec(PipelineWrite, messages.PipelineWrite)
_CLAIMED = codec(ClaimedRun, messages.ClaimedRun)
_HISTORY = codec(RecordRow, messages.RecordRow)
_INBOX = codec(InboxRow, messages.InboxRow)


# --- claims ---------------------------------------------------------------------------------------


def claim_request(wanted: Wanted, wait: int) -> Any:
    """Return the request of a claim; the server knows from the registration what it takes."""
    suspects = [messages.Suspects(crashes=crashes, room=room) for crashes, room in wanted.suspects]
    return messages.ClaimRequest(limit=wanted.limit, suspects=suspects, wait=wait)


def wanted_by(request: Any, registration: Registration) -> Wanted:
    """Return what a registered worker wants to claim."""
    return Wanted(
        registration.worker,
        registration.queues,
        registration.names,
        request.limit,
        registration.version,
        registration.tags,
        suspects=tuple((each.crashes, each.room) for each in request.suspects),
    )


def claim_reply(answer: ClaimAnswer) -> Any:
    """Return the reply to a claim."""
    return messages.ClaimReply(
        runs=map(_CLAIMED.to_message, answer.runs),
        changed=sorted(answer.changed),
        was_repeated=answer.was_repeated,
    )


def claim_answer(replies: Collection[Any]) -> ClaimAnswer:
    """Return the answer in all parts of the reply to a claim."""
    return ClaimAnswer(
        [_CLAIMED.to_row(run) for reply in replies for run in reply.runs],
        frozenset(uid for reply in replies for uid in reply.changed),
        any(reply.was_repeated for reply in replies),
    )


# --- loading --------------------------------------------------------------------------------------


def load_request(histories: Collection[str], inboxes: Mapping[str, int | None]) -> Any:
    """Return the request for histories and inboxes."""
    request = messages.LoadRequest(histories=histories)
    for run, seen in inboxes.items():
        position = request.inboxes[run]
        if seen is not None:
            position.seen = seen
    return request


def load_arguments(request: Any) -> tuple[list[str], dict[str, int | None]]:
    """Return which histories and inboxes a request asks for."""
    inboxes = {
        run: position.seen if position.HasField("seen") else None
        for run, position in request.inboxes.items()
    }
    return list(request.histories), inboxes


def load_replies(loaded: Mapping[str, LoadedRun], max_bytes: int) -> list[Any]:
    """Return what was loaded, in as many parts as the size of a frame demands."""
    replies = [messages.LoadReply()]
    size = 0
    for run, found in loaded.items():
        replies[-1].runs.add(run=run)
        if found.failure is not None:
            replies[-1].runs[-1].failure.CopyFrom(to_problem(found.failure))
        rows = [("history", _HISTORY.to_message(row)) for row in found.history]
        rows += [("inbox", _INBOX.to_message(row)) for row in found.inbox]
        for name, row in rows:
            size += row.ByteSize() + 4
            if size > max_bytes:
                replies.append(messages.LoadReply())
                replies[-1].runs.add(run=run)
                size = row.ByteSize()
            getattr(replies[-1].runs[-1], name).append(row)
    return replies


def loaded_runs(replies: Collection[Any]) -> dict[str, LoadedRun]:
    """Return what was loaded, from all parts of the reply."""
    found: dict[str, LoadedRun] = {}
    for reply in replies:
        for part in reply.runs:
            before = found.get(part.run, LoadedRun())
            found[part.run] = LoadedRun(
                [*before.history, *map(_HISTORY.to_row, part.history)],
                [*before.inbox, *map(_INBOX.to_row, part.inbox)],
                to_error(part.failure) if part.HasField("failure") else before.failure,
            )
    return found


# --- commits --------------------------------------------------------------------------------------


def add_commit(frame: Any, no: int, commit: Commit) -> None:
    """Add a commit to a `CommitsRequest`; a worker sends no messages to other runs."""
    message = frame.commits.add()
    message.no, message.run, message.fence = no, commit.run, commit.fence
    for record in commit.records:
        _RECORD.fill(message.records.add(), record)
    if commit.is_plain:
        return
    if commit.move is not None:
        message.move.CopyFrom(_MOVE.to_message(commit.move))
    for start in commit.starts:
        message.starts.add(**_RUN.to_fields(start))
    attached = commit.attached
    if attached is not NOTHING_ATTACHED:
        message.effects.extend(map(_EFFECT.to_message, attached.effects))
        message.cached.extend(map(_CACHED.to_message, attached.cached))
        if attached.pipeline is not None:
            message.pipeline.CopyFrom(_PIPELINE.to_message(attached.pipeline))


def commit_message(no: int, commit: Commit) -> Any:
    """Return a commit as a message."""
    frame = messages.CommitsRequest()
    add_commit(frame, no, commit)
    return frame.commits[0]


def row_count(message: Any) -> int:
    """Return about how many rows a commit writes, without converting it."""
    lists = (message.records, message.starts, message.effects, message.cached)
    pipeline = message.pipeline
    return sum(map(len, (*lists, pipeline.inputs, pipeline.published, pipeline.prepared.reserve)))


def commit_of(message: Any) -> Commit:
    """Return the commit in a message.

    Raises:
        Undecodable: a field has a value that this version does not know.
    """
    run, fence = message.run, message.fence
    own, to_row = (run,), _RECORD.to_row
    records = tuple([to_row(record, own) for record in message.records])
    move = _MOVE.to_row(message.move) if message.HasField("move") else None
    pipeline = _PIPELINE.to_row(message.pipeline) if message.HasField("pipeline") else None
    starts, effects, cached = message.starts, message.effects, message.cached
    if not (effects or cached or starts or pipeline is not None):
        return Commit(run, fence, records, move)
    attached = NOTHING_ATTACHED
    if effects or cached or pipeline is not None:
        attached = Attachments(
            tuple(map(_EFFECT.to_row, effects)), tuple(map(_CACHED.to_row, cached)), pipeline
        )
    return Commit(
        run, fence, records, move, starts=tuple(map(_RUN.to_row, starts)), attached=attached
    )


def outcome_message(no: int, answer: CommitOutcome | BaseException) -> Any:
    """Return the outcome of a commit as a message."""
    if isinstance(answer, BaseException):
        return messages.Outcome(no=no, problem=to_problem(answer))
    return messages.Outcome(no=no, fate=answer.fate, at=answer.at)


def outcome_of(message: Any) -> CommitOutcome | Exception:
    """Return the outcome in a message, or the error that prevented the commit."""
    if message.HasField("problem"):
        error = to_error(message.problem)
        if isinstance(error, WriteRefused) and error.rule == TEXT_RULE:
            return Rejected(error.fact)  # as an embedded worker's store does
        return error
    try:
        return CommitOutcome(Fate(message.fate), message.at)
    except ValueError:
        fact = f"{message.fate!r} is not one of its values"
        return Undecodable("Fate", fact, advice=USE_COMPATIBLE_VERSIONS)
