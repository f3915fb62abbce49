"""Identity: the name of a durable call within its run, the same in every replay.

    branch : name # n      the n-th call of that name in the branch
    name = key             a call with a key, wherever it is made

Branches are paths: "" is the body itself, "0" its first task, "0.2" the third task of that one.
A task that was given a name has it as its segment instead of a number ("0.@fetch"). Separators
within names, keys and seeds are escaped, so that two different calls never share an identity.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache
from urllib.parse import unquote

ROOT = ""

_ESCAPES = {ord(mark): f"%{ord(mark):02X}" for mark in "%:#=.@~"}


def escaped(text: str) -> str:
    """Return `text` without any separator; different texts stay different."""
    return text if text.isalnum() else text.translate(_ESCAPES)


_escaped_name = lru_cache(maxsize=1024)(escaped)  # names are few, and asked for with every call


def keyed(name: str, key: str) -> str:
    """Return the identity of a call with a key."""
    return f"{escaped(name)}={escaped(key)}"


def branch_of(identity: str) -> str | None:
    """Return the branch in which a call was made; None for one with a key."""
    branch, colon, _ = identity.partition(":")
    return branch if colon else None


def name_in(identity: str) -> str:
    """Return the name of the call that has an identity."""
    _, colon, numbered = identity.partition(":")
    name = numbered.rpartition("#")[0] if colon else identity.partition("=")[0]
    return unquote(name)


class Naming:
    """Hands out branch paths and identities, in the order in which a body asks for them."""

    __slots__ = ("_calls", "_tasks")

    def __init__(self) -> None:
        self._calls: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._tasks: defaultdict[tuple[str, str | None], int] = defaultdict(int)

    def branch(self, parent: str, seed: str | None = None) -> str:
        """Return the path of a new task of `parent`; with a seed it does not depend on order."""
        nth = self._tasks[parent, seed]
        self._tasks[parent, seed] = nth + 1
        again = f"~{nth + 1}" if nth else ""
        segment = str(nth) if seed is None else f"@{escaped(seed)}{again}"
        return f"{parent}.{segment}" if parent else segment

    def call(self, branch: str, name: str) -> str:
        """Return the identity of the next call of `name` in `branch`."""
        nth = self._calls[branch, name] + 1
        self._calls[branch, name] = nth
        return f"{branch}:{_escaped_name(name)}#{nth}"


def patch_identity(patch: str) -> str:
    """Return the identity of the mark that a change of code leaves; no call can have it."""
    return f"=patch.{escaped(patch)}"


def clock_identity(position: int) -> str:
    """Return the identity of the clock record at a position; no call can have it."""
    return f"=clock.{position}"


# The cancel of a run is in its history too, though no call asked for it.
CANCEL_IDENTITY = "=cancel"
