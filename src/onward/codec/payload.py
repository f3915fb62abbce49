"""A value as bytes, with the tag that says how to read them.

A tag is a format, and what was done to its bytes afterwards, in that order: `json`, and later
`msgpack`, `json+zstd`, `json+zstd+aes256gcm`. Every stored value has one,
so tags never change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

import msgspec

from onward.errors import Undecodable

JSON: Final = "json"
MAX_PAYLOAD: Final = 2 * 1024 * 1024

_EXTRAS: Final = {"zstd": "zstd", "aes256gcm": "crypto"}


class Payload(msgspec.Struct, frozen=True):
    """An encoded value.

    Attributes:
        tag: How to read the data.
        data: The bytes.
    """

    tag: str
    data: bytes

    def __repr__(self) -> str:
        # The data is the user's and has no place in a log.
        return f"<Payload {self.tag}, {len(self.data)} bytes>"


@dataclass(eq=False, repr=False)
class UnknownTag(Undecodable):
    """Stored bytes in a form that this installation cannot read."""

    code: ClassVar[str] = "unknown_tag"

    def __str__(self) -> str:
        return f"a stored value cannot be read: {self.fact}."


def unknown_tag(tag: str, annotation: str) -> UnknownTag:
    """Return the error for a tag that nothing here can read, with what to install."""
    extras = [_EXTRAS[part] for part in tag.split("+")[1:] if part in _EXTRAS]
    if extras:
        move = f"install onward[{','.join(extras)}]"
    else:
        move = "it was written by a newer version of Onward; upgrade this one"
    return UnknownTag(annotation, f"its codec tag is {tag[:80]!r}; {move}")
