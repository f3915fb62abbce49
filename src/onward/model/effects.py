"""Rows of the effect ledger as they are written and read."""

from __future__ import annotations

import json
from typing import NamedTuple

from onward.core.effect import AttemptEntry, Attempts
from onward.core.instant import Duration, Instant


class EffectWrite(NamedTuple):
    """A row of the ledger to write. It is written only if the stored version is one less."""

    key: str
    run: str
    identity: str
    name: str
    title: str
    args: bytes
    args_hash: str
    state: str
    version: int
    attempt: int = 0
    asks: int = 0
    approved: int = 1
    reconciler: str = ""
    tries: int | None = None
    reach: Duration = 0
    start_by_in: Duration | None = None
    settle_in: Duration | None = None
    known_in: Duration | None = None
    due_in: Duration | None = None
    result: bytes | None = None
    error: bytes | None = None
    asked: int = 0
    returns: str = ""
    attempts: bytes | None = None


class EffectRow(NamedTuple):
    """A row of the ledger as it stands."""

    key: str
    run: str
    identity: str
    name: str
    title: str
    args: bytes
    args_hash: str
    state: str
    version: int
    attempt: int
    asks: int
    approved: int
    reconciler: str
    tries: int | None
    reach: Duration
    start_by: Instant | None
    settle_until: Instant | None
    known_until: Instant | None
    due: Instant | None
    result: bytes | None
    error: bytes | None
    verdict: str | None
    decided_by: str | None
    decided_why: str | None
    decided_at: Instant | None
    created_at: Instant
    updated_at: Instant
    returns: str
    attempts: bytes | None
    read_at: Instant
    """What time the database had when this was read."""


class Ruling(NamedTuple):
    """What an operator's word makes of a row, and who said it and why."""

    state: str
    attempt: int
    asks: int
    approved: int
    due: Instant | None
    result: bytes | None
    verdict: str
    decided_by: str
    decided_why: str


def attempts_bytes(attempts: Attempts) -> bytes | None:
    """Return the attempts of an effect as its row keeps them."""
    return json.dumps(attempts, separators=(",", ":")).encode() if attempts else None


def read_attempts(kept: bytes | None) -> Attempts:
    """Return the attempts of an effect from its row.

    Raises:
        ValueError, TypeError: the row is damaged.
    """
    return tuple(AttemptEntry(*each) for each in json.loads(kept)) if kept else ()
