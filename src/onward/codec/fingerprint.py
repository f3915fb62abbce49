"""A short text that is equal for equal data, in every process and every version.

It is a hash of the JSON with sorted keys. Sets are sorted when they are lowered, so the order of
neither matters. `1`, `1.0` and `True` are three different things, as they are in JSON.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from onward.codec import document
from onward.codec.values import unpack

if TYPE_CHECKING:
    from onward.codec.payload import Payload

FINGERPRINT_BYTES: Final = 16


def fingerprint(payload: Payload) -> str:
    """Return the fingerprint of an encoded value: 32 hexadecimal digits.

    Raises:
        Undecodable: the payload cannot be read here.
    """
    return fingerprint_of_json(document.write_sorted(unpack(payload, "Any")))


def fingerprint_of_json(text: bytes) -> str:
    """Return the fingerprint of JSON with sorted keys."""
    return blake2b(text, digest_size=FINGERPRINT_BYTES).hexdigest()
