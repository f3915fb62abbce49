"""What a server knows of a worker when it checks what the worker wants to write."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from onward.core.instant import MAX_DURATION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from onward.model.runs import ClaimedRun

_MIB: Final = 1024 * 1024
MAX_NUMBER: Final = 1 << 61
"""Numbers up to this fit every database, even if a thousand years are added to them."""


class FrameRefusal(NamedTuple):
    """Why a write of a worker is refused: the rule, which never changes, and a sentence."""

    rule: str
    text: str


class FrameLimits(NamedTuple):
    """How large the writes of a worker may be.

    A single value has at most 2 MiB, but a chunk of a map has many of them in one payload.
    """

    payload_bytes: int = 8 * _MIB
    commit_bytes: int = 8 * _MIB
    rows: int = 10_000
    text_chars: int = 64 * 1024
    """The length of a text of a run that is part of no key."""


DEFAULT_LIMITS: Final = FrameLimits()


class KnownEffect(NamedTuple):
    """What the ledger has of an effect.

    Attributes:
        version: Its version.
        approved: Whether it may be sent.
        fixed: Its title, arguments and their hash if an operator has approved them, and the next
            version would replace them.
    """

    version: int
    approved: int
    fixed: tuple[str, bytes, str] | None = None


@dataclass(frozen=True, slots=True)
class HeldRun:
    """A run that a worker owns, as far as checks need it.

    Attributes:
        uid: The run.
        fence: The fence of its claim.
        kind: Its kind.
        parent: The run that started it.
        parent_identity: The call of that run.
        root: The first run of the family.
        origin: What the keys of its effects are made of, unless it is the run itself.
        handler: The handler whose run it is.
        handler_key: The key of that.
        topics: The topics to which that handler may publish; None: this is not known.
        effects: Effects of the run that were written here under this fence, which the server keeps
            up to date.
    """

    uid: str
    fence: int
    kind: str = "workflow"
    parent: str | None = None
    parent_identity: str | None = None
    root: str | None = None
    origin: str | None = None
    handler: str | None = None
    handler_key: str = ""
    topics: frozenset[str] | None = None
    effects: dict[str, KnownEffect] = field(default_factory=dict)

    @classmethod
    def of(cls, run: ClaimedRun, topics: frozenset[str] | None = None) -> HeldRun:
        """Return a run as it is held since its claim."""
        return cls(
            run.uid,
            run.fence,
            run.kind,
            run.parent,
            run.parent_identity,
            run.root,
            run.origin,
            run.handler,
            run.handler_key,
            topics,
        )


@dataclass(frozen=True, slots=True)
class KnownWorker:
    """A worker as a server knows it.

    Attributes:
        worker: Its id, under which its key has joined.
        queues: The queues that it serves.
        runs: The runs that it owns, which the server keeps up to date.
        limits: How large its writes may be.
        may_replace: Whether it may end another run by starting one in its place, which needs the
            scope `run:control`.
    """

    worker: str
    queues: frozenset[str]
    runs: Mapping[str, HeldRun]
    limits: FrameLimits = DEFAULT_LIMITS
    may_replace: bool = False


class KnownEvent(NamedTuple):
    """An event as the handler of a run sees it: how often it was made pending, and replayed."""

    attempt: int
    replays: int


class NeededFacts(NamedTuple):
    """What a server must read before it checks a commit; both are empty for nearly all commits."""

    events: tuple[str, ...] = ()
    effects: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.events or self.effects)


NOTHING_NEEDED: Final = NeededFacts()


@dataclass(frozen=True, slots=True)
class FrameFacts:
    """What a server has read for a commit.

    Attributes:
        events: The events that are to be reserved, by uid, whatever became of them.
        effects: Rows of the ledger by their keys; one that is missing does not exist.
    """

    events: Mapping[str, KnownEvent] = field(default_factory=lambda: MappingProxyType({}))
    effects: Mapping[str, KnownEffect] = field(default_factory=lambda: MappingProxyType({}))


NO_FACTS: Final = FrameFacts()


def number_problems(what: str, numbers: Iterable[int | None]) -> Iterator[FrameRefusal]:
    """Yield a refusal if a number does not fit the database, whose batch would fail by it."""
    for number in numbers:
        if number is not None and not -MAX_NUMBER <= number <= MAX_NUMBER:
            yield FrameRefusal("number", f"{what} contains a number that is too large: {number}")


def length_problems(what: str, lengths: Iterable[int | None]) -> Iterator[FrameRefusal]:
    """Yield a refusal if a length of time, which is added to the time, is longer than allowed."""
    for length in lengths:
        if length is not None and not -MAX_DURATION <= length <= MAX_DURATION:
            yield FrameRefusal("number", f"{what} has a duration of over a thousand years")


def size_problems(
    what: str, payloads: Iterable[bytes | None], limits: FrameLimits
) -> Iterator[FrameRefusal]:
    """Yield a refusal if a payload is too large."""
    for payload in payloads:
        if payload is not None and len(payload) > limits.payload_bytes:
            yield FrameRefusal(
                "size",
                f"{what} has a payload of {len(payload):,} bytes; the limit is "
                f"{limits.payload_bytes:,}",
            )


def weight_problems(
    what: str, values: Iterable[object], limits: FrameLimits
) -> Iterator[FrameRefusal]:
    """Yield a refusal if the texts and payloads of a row are together larger than a commit.

    A server sends all of them in one message.
    """
    size = weight(values)
    if size > limits.commit_bytes:
        yield FrameRefusal(
            "size",
            f"{what} has {size:,} bytes of text and payloads; the limit is {limits.commit_bytes:,}",
        )


def weight(values: Iterable[object]) -> int:
    """Return the size of all texts and bytes among the values of a row."""
    size = 0
    for value in values:
        if isinstance(value, str):
            size += len(value) if value.isascii() else len(value.encode(errors="replace"))
        elif isinstance(value, bytes):
            size += len(value)
    return size
