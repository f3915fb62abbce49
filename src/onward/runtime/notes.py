"""What a run notes of itself for others to see: attributes and counters.

Notes are records without a position: nobody waits for them. What a step notes is written together
with its result, so an attempt that fails leaves nothing; what a body notes is written once, however
often it is replayed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from onward.codec import decode, encode
from onward.core.replay import RecordKind, escaped
from onward.engine.payloads import pack, unpack

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from onward.store.rows import RecordRow


class Noted:
    """Attributes and counts, as they add up."""

    def __init__(self) -> None:
        self.attributes: dict[str, Any] = {}
        self.counters: dict[str, int | float] = {}

    def __bool__(self) -> bool:
        return bool(self.attributes or self.counters)

    def take(self, other: Noted) -> None:
        """Add what another has."""
        self.attributes.update(other.attributes)
        for name, count in other.counters.items():
            self.counters[name] = self.counters.get(name, 0) + count

    def kept(self, place: int) -> bytes:
        """Return it as a record keeps it; `place` is its place among the notes of the run."""
        tree = {"n": place, "attributes": self.attributes, "counters": self.counters}
        return pack(encode(tree, path="notes"))


def read_noted(payload: bytes) -> tuple[int, Noted]:
    """Return the place and content of notes that were kept."""
    tree: Mapping[str, Any] = decode(unpack(payload))
    noted = Noted()
    noted.attributes.update(tree["attributes"])
    noted.counters.update(tree["counters"])
    return tree["n"], noted


def in_order(payloads: Iterable[bytes], attributes: bytes | None = None) -> Noted:
    """Return what notes add up to, with the attributes that the run began with."""
    noted = Noted()
    if attributes is not None:
        noted.attributes.update(decode(unpack(attributes)))
    for _, each in sorted(map(read_noted, payloads), key=lambda placed: placed[0]):
        noted.take(each)
    return noted


class Notes:
    """The notes of one run, as its body sees them.

    Args:
        history: The records of the run; its notes are among them.
        attributes: What the run began with.
        write: Writes a note under an identity.
    """

    def __init__(
        self,
        history: Iterable[RecordRow],
        attributes: bytes | None,
        write: Callable[[str, bytes], None],
    ) -> None:
        self.seen = Noted()
        """What the body can know by now."""
        if attributes is not None:
            self.seen.attributes.update(decode(unpack(attributes)))
        self._kept: dict[str, bytes] = {
            row.identity: row.payload
            for row in history
            if row.kind == RecordKind.NOTE and row.payload is not None
        }
        self._written = len(self._kept)
        self._write = write
        self._held: list[tuple[str, Noted]] | None = []
        self._own: Counter[str] = Counter()

    def note(self, noted: Noted, branch: str) -> None:
        """Take note of something that the body says in one of its branches."""
        about = ".".join(escaped(name) for name in (*noted.attributes, *noted.counters))
        self._own[f"{branch}:{about}"] += 1
        identity = f"=note.{branch}:{about}#{self._own[f'{branch}:{about}']}"
        self.seen.take(noted)
        if identity in self._kept:
            return
        if self._held is None:
            self._write(identity, self.keep(noted))
        else:
            self._held.append((identity, noted))

    def release(self) -> None:
        """Write what was noted while history was being read, and everything from now on."""
        held, self._held = self._held, None
        for identity, noted in held or ():
            self._write(identity, self.keep(noted))

    def keep(self, noted: Noted) -> bytes:
        """Return new notes as a record keeps them."""
        self._written += 1
        return noted.kept(self._written)

    def add(self, identity: str, payload: bytes) -> None:
        """Take note of what a step has noted, which its body sees with the result."""
        self._kept[step_notes(identity)] = payload

    def come(self, identity: str) -> None:
        """Let the body see what a step noted, now that it is handed the step's result."""
        payload = self._kept.get(step_notes(identity))
        if payload is not None:
            self.seen.take(read_noted(payload)[1])


def step_notes(identity: str) -> str:
    """Return the identity of the notes of a step."""
    return f"=note.of.{identity}"
