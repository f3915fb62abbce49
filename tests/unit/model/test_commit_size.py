"""The size of a commit: every text and every value in its rows counts."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

from onward.model.cache import CacheWrite
from onward.model.commits import Attachments, Commit
from onward.model.effects import EffectWrite
from onward.model.messages import NewMessage
from onward.model.pipelines import (
    Completion,
    NewEvent,
    NewInput,
    PipelineWrite,
    Preparation,
    Reservation,
)
from onward.model.records import NewRecord
from onward.model.runs import Move, NewRun

LENGTH = 5000

SHORT = {
    (NewRecord, "run"),
    (NewRecord, "kind"),
    (NewRecord, "state"),
    (NewRecord, "args_hash"),
    (Move, "state"),
    (Move, "phase"),
    (PipelineWrite, "handler"),
}
"""Fields that hold a word of a fixed set, a hash, or the name of a run or a handler."""


def prepared(row: Any) -> PipelineWrite:
    return PipelineWrite(prepared=Preparation((row,), 0, None, ""))


WRITTEN: dict[Any, Any] = {
    NewRecord: lambda row: Commit("r", 1, (row,)),
    Move: lambda row: Commit("r", 1, move=row),
    NewMessage: lambda row: Commit("r", 1, messages=(row,)),
    NewRun: lambda row: Commit("r", 1, starts=(row,)),
    EffectWrite: lambda row: attaching(effects=(row,)),
    CacheWrite: lambda row: attaching(cached=(row,)),
    PipelineWrite: lambda row: attaching(pipeline=row),
    Preparation: lambda row: attaching(pipeline=PipelineWrite(prepared=row)),
    Reservation: lambda row: attaching(pipeline=prepared(row)),
    Completion: lambda row: attaching(pipeline=PipelineWrite(completed=row)),
    NewInput: lambda row: attaching(pipeline=PipelineWrite(inputs=(row,))),
    NewEvent: lambda row: attaching(pipeline=PipelineWrite(published=(row,))),
}
"""A commit that writes a row of each type that a commit can contain."""


def attaching(**given: Any) -> Commit:
    return Commit("r", 1, attached=Attachments(**given))


def kinds(hint: Any) -> set[Any]:
    """Return the types in an annotation, at any depth."""
    return {hint}.union(*map(kinds, get_args(hint)))


def empty(row: Any) -> dict[str, Any]:
    """Return a value for each field of a row that weighs nothing."""
    nothing: dict[Any, Any] = {str: "", bytes: b"", int: 0, bool: False}
    hints = get_type_hints(row)
    return {
        name: next((nothing[each] for each in kinds(hint) if each in nothing), ())
        for name, hint in hints.items()
        if type(None) not in kinds(hint)
    } | {name: None for name, hint in hints.items() if type(None) in kinds(hint)}


def sized(row: Any) -> list[tuple[str, Any]]:
    """Return the fields of a row that hold a text or bytes, with a long value."""
    return [
        (name, b"x" * LENGTH if bytes in kinds(hint) else "x" * LENGTH)
        for name, hint in get_type_hints(row).items()
        if {str, bytes} & kinds(hint)
    ]


FIELDS = [(row, name, value) for row in WRITTEN for name, value in sized(row)]


@pytest.mark.parametrize(
    ("row", "name", "value"),
    [field for field in FIELDS if field[:2] not in SHORT],
    ids=lambda given: given if isinstance(given, str) and len(given) < LENGTH else None,
)
def test_every_value_of_a_commit_counts_in_its_size(row: Any, name: str, value: Any) -> None:
    _, before = WRITTEN[row](row(**empty(row))).weigh()
    _, after = WRITTEN[row](row(**empty(row) | {name: value})).weigh()
    assert after - before == LENGTH


def test_every_type_of_row_in_a_commit_is_looked_at() -> None:
    hints = [*get_type_hints(Commit).values(), *get_type_hints(Attachments).values()]
    hints += get_type_hints(PipelineWrite).values()
    rows = {each for hint in hints for each in kinds(hint) if hasattr(each, "_fields")}
    assert rows <= WRITTEN.keys()
