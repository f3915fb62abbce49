"""The one place where plain data becomes JSON bytes and comes back.

Two encoders: one keeps the order of keys, for what is stored; one sorts them, for what is compared.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from onward.codec.shapes.refusal import Misfit, ValueRefused, key_step

write: Final = msgspec.json.Encoder().encode
write_sorted: Final = msgspec.json.Encoder(order="deterministic").encode

_read: Final = msgspec.json.Decoder().decode


def read(data: bytes | str) -> Any:
    """Return the plain data in a JSON text.

    Raises:
        Misfit: it is not JSON, or nested too deeply.
    """
    try:
        return _read(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Misfit("is not JSON") from None
    except RecursionError:
        raise Misfit("is nested too deeply") from None


def surrogate(tree: Any) -> ValueRefused:
    """Return the refusal of a tree in which some text is no Unicode, with the place."""
    refused = ValueRefused(
        "contains a lone surrogate, which is half a character",
        "Pass bytes, or clean the text with errors='replace'.",
    )
    refused.steps = _steps_to_surrogate(tree) or []
    return refused


def _steps_to_surrogate(tree: Any) -> list[str] | None:
    """Return the steps from the broken text outwards, or None if there is none."""
    if type(tree) is str:
        return [] if _is_broken(tree) else None
    items: list[tuple[str, Any]] = []
    if type(tree) is dict:
        if any(map(_is_broken, tree)):
            return []
        items = [(key_step(key, n), item) for n, (key, item) in enumerate(tree.items())]
    elif type(tree) is list:
        items = [(f"[{index}]", item) for index, item in enumerate(tree)]
    for step, item in items:
        steps = _steps_to_surrogate(item)
        if steps is not None:
            return [*steps, step]
    return None


def _is_broken(text: str) -> bool:
    return any("\ud800" <= character <= "\udfff" for character in text)
