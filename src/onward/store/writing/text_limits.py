"""Which texts every database can store.

Postgres takes no NUL and no key longer than a third of a page, SQLite takes both; none takes half
of a surrogate pair. Values are checked where users give them. This is the last gate: it refuses
before anything is sent, so that a batch of others, or a caller's own transaction, never meets them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.errors import Rejected

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.model.commits import Commit
    from onward.model.following import Following
    from onward.model.messages import NewMessage
    from onward.model.pipelines import NewEvent, NewInput, PipelineWrite
    from onward.model.runs import Move, NewRun
    from onward.store.row_values import RowValues

MAX_KEY_BYTES = 1000
"""Two texts of this length, a namespace and a uid still fit into one key of Postgres."""

MAX_PART_BYTES = 400
"""Texts of which up to four are part of one key, such as that of an input."""

# The message about the end of a child contains the identity of the call.
_MAX_BYTES = {"message": MAX_KEY_BYTES + len("child "), "flow_key": 512}
_NO_KEYS = frozenset({"title", "tags", "trace", "wakes", "retry", "failed_call", "parked_by"})


def check_run(run: NewRun) -> None:
    """Refuse a new run that some database could not store.

    Raises:
        Rejected: it holds such a text.
    """
    _check_row(run._fields, run)


def check_message(message: NewMessage) -> None:
    """Refuse a message that some database could not store.

    Raises:
        Rejected: it holds such a text.
    """
    _check_row(message._fields, message)


def check_commit(commit: Commit) -> None:
    """Refuse a commit that some database could not store.

    Raises:
        Rejected: it holds such a text.
    """
    for record in commit.records:
        texts = record.identity + record.name + (record.version or "") + (record.args_hash or "")
        if not _is_plain(texts):
            _check_row(record._fields, record)  # finds the field
    if commit.is_plain:
        return
    attached, written = commit.attached, commit.attached.pipeline
    if commit.move is not None and not _is_plain(_texts(commit.move)):
        _check_row(commit.move._fields, commit.move)
    for entry in attached.cached:
        _check_row(entry._fields, entry)
    rows: tuple[RowValues, ...] = (*commit.messages, *commit.starts, *attached.effects)
    if written is not None:
        rows += (*written.published, *written.inputs)
    for row in rows:
        _check_row(row._fields, tuple(row))
    if written is not None:
        _check_pipeline(written)


def _check_pipeline(written: PipelineWrite) -> None:
    check_key("handler", written.handler)
    check_key("key", written.key)
    if written.prepared is not None:
        check_key("origin", written.prepared.origin)
        for event, _ in written.prepared.reserve:
            check_key("event", event)


def check_following(following: Following) -> None:
    """Refuse a run that is to follow another if some database could not store it.

    Raises:
        Rejected: it holds such a text.
    """
    for row in (following, following.edited, following.end):
        if row is not None:
            _check_row(row._fields, row)


def check_key(field: str, text: str) -> None:
    """Refuse a text that some database could not have as a key.

    Raises:
        Rejected: it is one.
    """
    _check_text(field, text)


def check_published(events: Iterable[NewEvent], inputs: Iterable[NewInput]) -> None:
    """Refuse events and inputs that some database could not store.

    Raises:
        Rejected: one of them holds such a text.
    """
    for event in events:
        if not _is_plain(event.topic + event.message + event.key + (event.input or "")):
            _check_row(event._fields, event)
        _check_short("topic", event.topic)
        _check_short("key", event.key)
    for each in inputs:
        _check_row(each._fields, each)
        for field in ("pipeline", "source", "type"):
            _check_short(field, getattr(each, field))


def _check_short(field: str, text: str) -> None:
    if len(text) * 4 > MAX_PART_BYTES and len(text.encode()) > MAX_PART_BYTES:
        size = len(text.encode())
        raise Rejected(f"{field} is {size:,} bytes long; the limit is {MAX_PART_BYTES:,}")


def is_storable(text: str) -> bool:
    """Return whether a text can be a key on every database."""
    try:
        _check_text("it", text)
    except Rejected:
        return False
    return True


def _texts(move: Move) -> str:
    return (
        (move.reason or "")
        + (move.phase or "")
        + (move.failed_call or "")
        + (move.parked_by or "")
        + move.error_type
        + move.failed_step
    )


def _is_plain(texts: str) -> bool:
    return texts.isascii() and "\0" not in texts and len(texts) <= MAX_KEY_BYTES


def _check_row(fields: Iterable[str], row: tuple[object, ...]) -> None:
    if _is_plain("".join([value for value in row if isinstance(value, str)])):
        return
    for field, value in zip(fields, row, strict=True):
        if isinstance(value, str):
            _check_text(field, value)


def _check_text(field: str, text: str) -> None:
    if "\0" in text:
        raise Rejected(f"{field} contains a NUL character")
    try:
        size = len(text) if text.isascii() else len(text.encode())
    except UnicodeEncodeError:
        raise Rejected(f"{field} contains half of a surrogate pair") from None
    maximum = _MAX_BYTES.get(field, MAX_KEY_BYTES)
    if size > maximum and field not in _NO_KEYS:
        raise Rejected(f"{field} is {size:,} bytes long; the limit is {maximum:,}")
