"""The one rule for every id and name that users give.

Two ids are the same if their bytes are: nothing is trimmed, folded or normalised.
"""

from __future__ import annotations

import re
from typing import Final

from onward.errors import BadInput

MAX_ID_BYTES: Final = 512

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def check_id(text: object, what: str) -> str:
    """Return the id if it can be one.

    Args:
        text: What the user gave.
        what: What messages call it: `run id`, `topic name`.

    Raises:
        BadInput: it is not text, empty, longer than 512 bytes, or has characters no id may have.
    """
    if not isinstance(text, str):
        raise BadInput(what, f"is of type {type(text).__name__}, not str", "Pass a str.")
    if not text:
        raise BadInput(what, "is empty", "Use at least one character.")
    if text.isascii() and text.isprintable() and len(text) <= MAX_ID_BYTES:
        return str.__str__(text)
    if _CONTROL.search(text):
        raise BadInput(
            what, "contains a control character (NUL, CR, LF, …)", "Use printable characters."
        )
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise BadInput(
            what, "contains a lone surrogate, which is half a character", "Remove or replace it."
        ) from None
    if size > MAX_ID_BYTES:
        raise BadInput(
            what,
            f"is {size:,} bytes long; the limit is {MAX_ID_BYTES}",
            "Use a shorter text, such as a hash of this one.",
        )
    return str.__str__(text)


def check_name(name: str, what: str) -> str:
    """Return the name of a workflow or step, if it can be distinguished from others.

    Raises:
        BadInput: it looks like the name of something else.
    """
    if name == "<lambda>":
        raise BadInput(what, "is '<lambda>', which all lambdas share", "Use def, or pass name=")
    for kind in ("step", "map", "producer", "consumer"):
        if name.startswith(f"{kind} "):
            fact = f'begins with "{kind} ", which is reserved for other kinds of runs'
            raise BadInput(f"the name {name!r}", fact, "Use another name")
    if name.startswith("onward."):
        raise BadInput(
            f"the name {name!r}", 'begins with "onward.", which is reserved', "Use another name"
        )
    return check_id(name, what)
