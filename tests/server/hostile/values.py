"""Messages made from the descriptors: valid structure, hostile values.

Where the name of a field says what it refers to, its values come from a pool of what there is:
runs and fences of the worker and of others, keys of effects, ids of workers, queues. The rest are
extreme: empty, huge, negative, unknown words, texts that a database refuses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from onward.core.effect import EffectState
from onward.core.inbox import MessageKind
from onward.core.replay import RecordKind, RecordState
from onward.core.run import Reason, RunKind, RunState

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

STATES: Final = (*RunState, *RecordState, *EffectState, "approved", "nonsense", "")
KINDS: Final = (*RunKind, *RecordKind, *MessageKind, "nonsense", "")
REASONS: Final = (*Reason, "nonsense", "")
NUMBERS: Final = (0, 1, 2, 3, 7, -1, 1000, 1 << 31, -(1 << 31), 1 << 40, 1 << 61)
EXTREMES: Final = (1 << 62, (1 << 63) - 1, -(1 << 63), 253_402_300_800_000_000)
TEXTS: Final = (
    "",
    "a",
    "a#1",
    "x y",
    "line\nbreak",
    "nul\0",
    "\u202e\U0001f4a5",
    "'; DROP TABLE--",
)
PAYLOADS: Final = (b"", b"json:1", b"json:[]", b"json:{", b"\x00\xff", b"pickle:\x80\x04.")

_RARELY: Final = 0.01
_UNSIGNED: Final = (1 << 64) - 1
_MANY: Final = 3_000


@dataclass
class Pool:
    """What a hostile worker knows of a database: its own things, and those of others."""

    worker: str
    runs: dict[str, Any] = field(default_factory=dict)
    """Its own runs, as they were claimed, by uid."""
    others: Sequence[tuple[str, int]] = ()
    """Runs of others with their fences."""
    keys: Sequence[str] = ()
    """Keys of effects, cached results and events."""
    workers: Sequence[str] = ()
    queues: Sequence[str] = ("hostile",)
    names: Sequence[str] = ("attack",)


class Forger:
    """Fills messages with hostile values.

    Args:
        rng: Decides on everything.
        pool: What fields may refer to.
        max_bytes: How large a huge value is at most.
    """

    def __init__(self, rng: Random, pool: Pool, max_bytes: int) -> None:
        self.rng = rng
        self.pool = pool
        self._max_bytes = max_bytes

    def forge(self, message: Any, density: float = 0.5) -> Any:
        """Fill some of the fields of a message."""
        for each in message.DESCRIPTOR.fields:
            # Without its parts, a message is refused before it says anything.
            part = each.message_type is not None and not each.is_repeated
            if self.rng.random() < (max(density, 0.9) if part else density):
                self.forge_field(message, each)
        return message

    def mutate(self, message: Any) -> Any:
        """Change one field anywhere in a message."""
        descriptors = [each for each in message.DESCRIPTOR.fields if _is_mutable(each)]
        if not descriptors:
            return message
        each = self.rng.choice(descriptors)
        if each.message_type is not None and self.rng.random() < 0.8:
            if each.is_repeated and len(getattr(message, each.name)):
                self.mutate(self.rng.choice(getattr(message, each.name)))
                return message
            if not each.is_repeated and message.HasField(each.name):
                self.mutate(getattr(message, each.name))
                return message
        message.ClearField(each.name)
        if self.rng.random() < 0.8:
            self.forge_field(message, each)
        return message

    def forge_field(self, message: Any, each: Any) -> None:
        """Fill one field of a message."""
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            self._forge_map(getattr(message, each.name), each)
        elif each.is_repeated:
            for _ in range(self._count()):
                if each.message_type is not None:
                    self.forge(getattr(message, each.name).add())
                else:
                    getattr(message, each.name).append(self.value(each))
        elif each.message_type is not None:
            self.forge(getattr(message, each.name))
        else:
            setattr(message, each.name, self.value(each))

    def _forge_map(self, given: Any, each: Any) -> None:
        value = each.message_type.fields_by_name["value"]
        for _ in range(self._count()):
            name = self.rng.choice([self._run()[0], self.text()])
            if value.message_type is not None:
                self.forge(given[name])
            else:
                given[name] = self.value(value)

    def _count(self) -> int:
        if self.rng.random() < _RARELY / 2:
            return self.rng.randrange(_MANY)
        return self.rng.choice((0, 1, 1, 2, 3))

    def value(self, each: Any) -> Any:
        """Return a value for a field that is no message."""
        if each.cpp_type == each.CPPTYPE_BOOL:
            return self.rng.random() < 0.5
        if each.cpp_type == each.CPPTYPE_STRING:
            return self.payload() if each.type == each.TYPE_BYTES else self.word(each.name)
        return self._number(each)

    def _number(self, each: Any) -> int:
        if each.name == "fence" and self.rng.random() < 0.7:
            return self._run()[1] + self.rng.choice((0, 0, 0, 1, -1))
        extreme = self.rng.random() < 0.2
        number = self.rng.choice(EXTREMES if extreme else NUMBERS)
        if each.cpp_type == each.CPPTYPE_UINT32:
            return abs(number) & 0xFFFF_FFFF
        return number & _UNSIGNED if each.cpp_type == each.CPPTYPE_UINT64 else number

    def word(self, name: str) -> str:
        """Return a text for a field of this name."""
        pools: dict[str, Sequence[str]] = {
            "state": STATES,
            "kind": KINDS,
            "reason": REASONS,
            "key": self.pool.keys,
            "event": self.pool.keys,
            "worker": self.pool.workers,
            "queue": self.pool.queues,
            "queues": self.pool.queues,
            "name": self.pool.names,
            "names": self.pool.names,
            "on_conflict": ("return", "reject", "replace", "nonsense"),
        }
        if name in RUN_FIELDS and self.rng.random() < 0.8:
            return self._run()[0]
        if name in pools and pools[name] and self.rng.random() < 0.8:
            return str(self.rng.choice(pools[name]))
        return self.text()

    def text(self) -> str:
        """Return any text."""
        roll = self.rng.random()
        if roll < _RARELY / 4:
            return "x" * self.rng.randrange(self._max_bytes)
        if roll < 4 * _RARELY:
            return "k" * self.rng.choice((399, 401, 999, 1001, 5000))
        return self.rng.choice(TEXTS)

    def payload(self) -> bytes:
        """Return any bytes."""
        if self.rng.random() < _RARELY / 4:
            return b"json:" + b"1" * self.rng.randrange(self._max_bytes)
        return self.rng.choice(PAYLOADS)

    def _run(self) -> tuple[str, int]:
        own = [(uid, run.fence) for uid, run in self.pool.runs.items()]
        if own and (not self.pool.others or self.rng.random() < 0.5):
            return self.rng.choice(own)
        return self.rng.choice(self.pool.others) if self.pool.others else ("", 0)


RUN_FIELDS: Final = frozenset(
    {"run", "uid", "parent", "root", "follows", "origin", "id", "children", "histories", "known"}
)
"""Fields that refer to runs."""


def _is_mutable(each: Any) -> bool:
    return bool(each.message_type is None or not each.message_type.GetOptions().map_entry)
