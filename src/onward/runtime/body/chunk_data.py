"""The input and the result of a chunk of a map, as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from onward.codec import Payload, read_error
from onward.engine.payloads import pack, unpack
from onward.model.flow import DeclaredLimits  # noqa: TC001 - msgspec reads the annotation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.model.runs import NewRun

JSON = "json"

MAX_RETURNED = 7 * 1024 * 1024
"""How large the outcomes may be that a chunk returns: less than a server takes in one commit."""

MAX_TEXT = 1000
"""How much is left of the message of an error that is shortened."""


class CallOptions(msgspec.Struct, frozen=True, omit_defaults=True):
    """The options of each call of a map; the function itself has the rest.

    For a step: how it is retried, and where it runs. For a workflow: how its runs are started.
    """

    limits: str | None = None
    queue: str | None = None
    tags: tuple[str, ...] = ()
    limit: int | None = None
    is_sent: bool = False
    priority: int = 0
    delay: int = 0
    deadline: int | None = None
    retry: str | None = None
    key: str | None = None
    declares: DeclaredLimits | None = None


class Item(NamedTuple):
    """One call of a map, as it is stored."""

    data: bytes
    args_hash: str
    key: str | None = None


class ResultPlace(NamedTuple):
    """Where a result is kept: the chunk that has it in its history, and the identity there."""

    run: str
    identity: str


class StoredOutcome(msgspec.Struct, array_like=True, frozen=True):
    """The outcome of one item: whether it succeeded, its result or error, and its key."""

    is_good: bool | None
    """None: it succeeded, and its result is only at its place. Older code cannot read that."""
    data: msgspec.Raw
    key: str | None = None
    place: ResultPlace | None = None
    """Where its result is kept, if that is large."""

    @property
    def size(self) -> int:
        """How many bytes it takes, or a little more."""
        return len(self.data) + len(self.key or "") + OVERHEAD

    def held_back(self) -> StoredOutcome:
        """Return it without its result, if that is kept elsewhere."""
        return self if self.place is None else StoredOutcome(None, NOTHING, self.key, self.place)

    def stored(self) -> object:
        """Return what is encoded: nearly all have no place."""
        return self if self.place is not None else (self.is_good, self.data, self.key)


OVERHEAD = 200
"""How many bytes an outcome takes at most beside its data and its key."""

NOTHING = msgspec.Raw(b"null")


class ChunkInput(msgspec.Struct, omit_defaults=True):
    """The input of a chunk: the arguments of each call, and how many may be under way."""

    limit: int
    items: list[msgspec.Raw]
    keys: list[str] | None = None
    is_step: bool = True
    options: CallOptions = CallOptions()
    known: list[StoredOutcome | None] | None = None
    """Outcomes of the items in the run that its parent retries."""
    holds_back: bool = False
    """Whether the parent reads results that are too large together from the chunk's history."""


class Outcome:
    """The outcome of one item in the parent; with a place, its value is still to be read there."""

    __slots__ = ("error", "key", "place", "value")

    def __init__(
        self,
        value: Any = None,
        error: BaseException | None = None,
        key: str | None = None,
        place: ResultPlace | None = None,
    ) -> None:
        self.value = value
        self.error = error
        self.key = key
        self.place = place


def failed_items(result: object) -> list[BaseException]:
    """Return the errors in the result of a chunk, which succeeds even if its items fail."""
    items = result if isinstance(result, list) else []
    return [item.error for item in items if isinstance(item, Outcome) and item.error is not None]


def with_known_outcomes(start: NewRun, kept: bytes) -> NewRun:
    """Return the run of a chunk so that it does not repeat what an earlier one has done."""
    given = msgspec.json.decode(unpack(start.input).data, type=ChunkInput)
    known = msgspec.json.decode(unpack(kept).data, type=list[StoredOutcome | None])
    size = sum(map(len, given.items))
    given.known = fitting(map(_without_error, known), MAX_RETURNED - size)
    return start._replace(input=pack(Payload(JSON, msgspec.json.encode(given))))


def _without_error(outcome: StoredOutcome | None) -> StoredOutcome | None:
    is_failed = outcome is not None and outcome.is_good is False
    return StoredOutcome(False, NOTHING) if is_failed else outcome  # noqa: FBT003


def fitting(outcomes: Iterable[StoredOutcome | None], max_bytes: int) -> list[StoredOutcome | None]:
    """Hold back results that are kept elsewhere, from where all would be too large together."""
    found = list(outcomes)
    size = sum(each.held_back().size for each in found if each is not None)
    for index, each in enumerate(found):
        if each is not None and each.place is not None:
            size += len(each.data)
            if size > max_bytes:
                size -= len(each.data)
                found[index] = each.held_back()
    return found


def shortened(error: Payload) -> Payload:
    """Return an error with its type and the beginning of its message."""
    failure = read_error(error)
    is_large = len(msgspec.json.encode(failure.data)) > MAX_TEXT
    short = msgspec.structs.replace(
        failure,
        name=None if is_large else failure.name,
        data=None if is_large else failure.data,
        message=failure.message[:MAX_TEXT],
        traceback="",
        notes=(
            "Shortened, because this map chunk has many errors. The chunk's history contains the "
            "full error.",
        ),
        cause=None,
        context=None,
        members=(),
    )
    return Payload(JSON, msgspec.json.encode(short))
