"""Payloads as stored bytes, which begin with the tag of their codec."""

from __future__ import annotations

from onward.codec import Payload

_JSON = "json"
JSON_MARK = b"json:"
"""What begins stored JSON."""


def pack(payload: Payload) -> bytes:
    """Return a payload as stored bytes."""
    if payload.tag == _JSON:
        return JSON_MARK + payload.data
    return payload.tag.encode() + b":" + payload.data


def unpack(kept: bytes | None) -> Payload:
    """Return the payload in stored bytes.

    Raises:
        ValueError: there is none.
    """
    if kept is None:
        raise ValueError("the payload is missing")
    if kept.startswith(JSON_MARK):
        return Payload(_JSON, kept[len(JSON_MARK) :])
    tag, _, data = kept.partition(b":")
    return Payload(tag.decode(errors="backslashreplace"), data)
