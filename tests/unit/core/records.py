"""Builders of asks and records."""

from __future__ import annotations

from onward.core.replay import Ask, Record, RecordKind, RecordState

STEP = RecordKind.STEP


def a_step(name: str, key: str | None = None, args: str | None = "args", branch: str = "") -> Ask:
    return Ask(branch, STEP, name, key, args)


def a_record(
    identity: str,
    seq: int | None,
    kind: RecordKind = STEP,
    *,
    attempt: int = 1,
    state: RecordState | None = None,
    name: str | None = None,
) -> Record:
    if state is None:
        state = RecordState.OPEN if seq is None else RecordState.SUCCEEDED
    called = name or identity.partition("=")[0].rpartition(":")[2].partition("#")[0]
    return Record(identity, attempt, seq, kind, called, state, "args")
