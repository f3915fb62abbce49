"""The text of an API key: `onw_<id>_<secret>_<checksum>`.

The id names the row of the key, the secret proves that its holder may use it. Prefix and checksum
let scanners for leaked secrets recognise a key, and let a mistyped one be refused without a look at
the database. No message here quotes any part of a key that was given: the wrong part may be the
secret.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from binascii import crc32
from typing import Final

from onward.errors import Unauthenticated

PREFIX: Final = "onw"
ID_BITS: Final = 60
SECRET_BITS: Final = 256

_BASE32: Final = "abcdefghijklmnopqrstuvwxyz234567"
_BASE62: Final = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH: Final = 12
_SECRET_LENGTH: Final = 43
_CHECKSUM_LENGTH: Final = 6
_ID = re.compile(f"[{_BASE32}]{{{_ID_LENGTH}}}", re.ASCII)
_KEY = re.compile(
    rf"{PREFIX}_([{_BASE32}]{{{_ID_LENGTH}}})_([0-9A-Za-z]{{{_SECRET_LENGTH}}})"
    rf"_([0-9A-Za-z]{{{_CHECKSUM_LENGTH}}})",
    re.ASCII,
)
_ADVICE = "Check that you copied the whole key; it begins with onw_"


class ApiKey:
    """An API key. It never shows its secret, except by `reveal`."""

    __slots__ = ("_secret", "id")

    def __init__(self, key_id: str, secret: str) -> None:
        self.id = key_id
        self._secret = secret

    def __repr__(self) -> str:
        return f"ApiKey(id={self.id!r})"

    @property
    def secret(self) -> str:
        """The part that is hashed, and compared with the stored hash."""
        return self._secret

    def reveal(self) -> str:
        """Return the whole text, which the holder of the key sends."""
        body = f"{PREFIX}_{self.id}_{self._secret}"
        return f"{body}_{_checksum(body)}"


def make_key(id_bits: int, secret_bits: int) -> ApiKey:
    """Return a key that is made of random bits.

    Args:
        id_bits: An integer of `ID_BITS` random bits.
        secret_bits: An integer of `SECRET_BITS` random bits.

    Raises:
        ValueError: one of them has more bits than that.
    """
    if not (0 <= id_bits < 1 << ID_BITS and 0 <= secret_bits < 1 << SECRET_BITS):
        raise ValueError("the random bits of a key do not fit")  # never say which they were
    return ApiKey(
        _written(id_bits, _BASE32, _ID_LENGTH), _written(secret_bits, _BASE62, _SECRET_LENGTH)
    )


def parse_key(text: str) -> ApiKey:
    """Parse the text of a key.

    Raises:
        Unauthenticated: it is none. The message quotes nothing of the text.
    """
    match = _KEY.fullmatch(text)
    if match is None:
        raise Unauthenticated("the API key is malformed", _ADVICE)
    body, _, checksum = text.rpartition("_")
    if not hmac.compare_digest(_checksum(body), checksum):
        raise Unauthenticated("the checksum of the API key is wrong", _ADVICE)
    return ApiKey(match[1], match[2])


def is_key_id(text: str) -> bool:
    """Return whether a text could be the id of a key."""
    return _ID.fullmatch(text) is not None


def hash_secret(key: ApiKey, pepper: str | None = None) -> str:
    """Return the hash that is stored for the secret of a key.

    A fast hash is right for 256 random bits: they cannot be guessed, and with a slow hash wrong
    keys would keep a server busy.

    Args:
        key: The key.
        pepper: A secret of the server that is not in the database; with it, the hash is an HMAC.
    """
    if pepper:
        return f"hmac-sha256:{hmac.digest(pepper.encode(), key.secret.encode(), 'sha256').hex()}"
    return f"sha256:{hashlib.sha256(key.secret.encode()).hexdigest()}"


def is_secret_of(key: ApiKey, stored: str, pepper: str | None = None) -> bool:
    """Return whether a key has the secret whose hash is stored.

    A hash that was made without a pepper still counts once there is one.
    """
    needs_pepper = stored.startswith("hmac-")
    if needs_pepper and not pepper:
        return False
    return hmac.compare_digest(hash_secret(key, pepper if needs_pepper else None), stored)


def _checksum(body: str) -> str:
    return _written(crc32(body.encode()), _BASE62, _CHECKSUM_LENGTH)


def _written(number: int, alphabet: str, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(alphabet))
        digits.append(alphabet[digit])
    return "".join(reversed(digits))
