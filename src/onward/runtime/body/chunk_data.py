"""The input and the result of a chunk of a map, as they are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from onward.codec import Payload
from onward.engine.payloads import pack, unpack
from onward.model.flow import DeclaredLimits  # noqa: TC001 - msgspec reads the annotation

if TYPE_CHECKING:
    from onward.model.runs import NewRun

JSON = "json"


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


class StoredOutcome(msgspec.Struct, array_like=True):
    """The outcome of one item: whether it succeeded, its result or error, and its key."""

    is_good: bool
    data: msgspec.Raw
    key: str | None = None


class ChunkInput(msgspec.Struct, omit_defaults=True):
    """The input of a chunk: the arguments of each call, and how many may be under way."""

    limit: int
    items: list[msgspec.Raw]
    keys: list[str] | None = None
    is_step: bool = True
    options: CallOptions = CallOptions()
    known: list[StoredOutcome | None] | None = None
    """Outcomes of the items in the run that its parent retries."""


class Outcome:
    """The outcome of one item; its value is a payload in the chunk, and decoded in the parent."""

    __slots__ = ("error", "key", "value")

    def __init__(
        self, value: Any = None, error: BaseException | None = None, key: str | None = None
    ) -> None:
        self.value = value
        self.error = error
        self.key = key


def failed_items(result: object) -> list[BaseException]:
    """Return the errors in the result of a chunk, which succeeds even if its items fail."""
    items = result if isinstance(result, list) else []
    return [item.error for item in items if isinstance(item, Outcome) and item.error is not None]


def with_known_outcomes(start: NewRun, kept: bytes) -> NewRun:
    """Return the run of a chunk so that it does not repeat what an earlier one has done."""
    given = msgspec.json.decode(unpack(start.input).data, type=ChunkInput)
    given.known = msgspec.json.decode(unpack(kept).data, type=list[StoredOutcome | None])
    return start._replace(input=pack(Payload(JSON, msgspec.json.encode(given))))
