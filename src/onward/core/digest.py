"""A short, stable hash of texts, for ids that must come out the same everywhere."""

from __future__ import annotations

import hashlib


def digest(*parts: str) -> str:
    """Return 128 bits as hex text; other parts, or parts cut elsewhere, give another one."""
    hashed = hashlib.blake2b(digest_size=16)
    for part in parts:
        raw = part.encode("utf-8", "surrogatepass")
        hashed.update(len(raw).to_bytes(8, "big"))
        hashed.update(raw)
    return hashed.hexdigest()
