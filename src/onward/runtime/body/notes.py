"""What a run notes of itself for others to see: attributes and counters.

Notes are records without a position: nothing awaits them. What a step notes is written together
with its result, so an attempt that fails leaves nothing; what a body notes is written once, however
often it is replayed.

Each knows its place: after the call that the body was handed last, and within that by number. What
a step notes comes with its own call. So the last word is the same one in every replay, and in a run
that begins with a part of the history.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.replay import escaped
from onward.engine.notes import read_attributes, read_noted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from onward.core.replay import Record
    from onward.engine.notes import Noted

    Place = tuple[int, int]


class Notes:
    """The notes of one run, as its body sees them.

    Args:
        kept: The notes that are in its history, by identity.
        attributes: What the run began with.
        write: Writes a note under an identity.
    """

    def __init__(
        self,
        kept: Mapping[str, bytes],
        attributes: bytes | None,
        write: Callable[[str, bytes], None],
    ) -> None:
        self.seen = read_attributes(attributes)
        """What the body can know by now."""
        self._kept = dict(kept)
        self._place: Place = (0, 0)
        self._write = write
        self._held: list[tuple[str, bytes]] | None = []
        self._own: dict[str, int] = {}

    def note(self, noted: Noted, branch: str) -> None:
        """Take note of something that the body says in one of its branches."""
        about = ".".join(escaped(name) for name in (*noted.attributes, *noted.counters))
        what = f"{branch}:{about}"
        nth = self._own[what] = self._own.get(what, 0) + 1
        identity = f"=note.{what}#{nth}"
        self.seen.take(noted)
        position, number = self._place
        self._place = position, number + 1
        if identity in self._kept:
            return
        kept = noted.kept(self._place)
        if self._held is None:
            self._write(identity, kept)
        else:
            self._held.append((identity, kept))

    def release(self) -> None:
        """Write what was noted while history was being read, and everything from now on."""
        held, self._held = self._held, None
        for identity, kept in held or ():
            self._write(identity, kept)

    def keep(self, identity: str, noted: Noted, seq: int) -> bytes:
        """Return what a step has noted as a record keeps it; the body sees it with the result."""
        kept = self._kept[step_notes(identity)] = noted.kept((seq, 0))
        return kept

    def come(self, record: Record) -> None:
        """Let the body see what a step noted, now that it is handed the step's result."""
        self._place = record.seq or 0, 0
        payload = self._kept and self._kept.get(step_notes(record.identity))
        if payload:
            self.seen.take(read_noted(payload)[1])


def step_notes(identity: str) -> str:
    """Return the identity of the notes of a step."""
    return f"=note.of.{identity}"
