"""The input and the result of a chunk of a map: what is held back, and what older code wrote."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest

from onward import step
from onward.codec import Payload, decode_error, encode_error
from onward.errors import UnreadableRow
from onward.runtime.body import chunk_data
from onward.runtime.body.chunk_data import (
    JSON,
    CallOptions,
    Item,
    ResultPlace,
    StoredOutcome,
    fitting,
    shortened,
)
from onward.runtime.body.chunks import ChunkShape
from onward.runtime.body.held_results import LastHistory, read_results
from onward.runtime.definition import StepDefinition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.model.records import RecordRow


@step
async def shout(text: str) -> str:
    return text.upper()


assert isinstance(shout.mapped, StepDefinition)
SHOUT = shout.mapped


def outcome(size: int, number: int, *, is_placed: bool = True) -> StoredOutcome:
    place = ResultPlace("chunk", f"shout={number}") if is_placed else None
    return StoredOutcome(True, msgspec.Raw(b'"' + b"x" * (size - 2) + b'"'), None, place)


def test_what_is_returned_fits_and_the_rest_has_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_data, "OVERHEAD", 0)
    given = [outcome(50, 0), outcome(60, 1), outcome(40, 2), None]
    kept = fitting(given, 120)
    assert [each and each.is_good for each in kept] == [True, None, True, None]
    assert kept[1] is not None
    assert kept[1].place == ResultPlace("chunk", "shout=1")


def test_a_result_without_a_place_is_always_returned() -> None:
    given = [outcome(500, 0), outcome(500, 1, is_placed=False)]
    assert [each and each.is_good for each in fitting(given, 100)] == [None, True]


def test_an_outcome_without_a_place_is_stored_as_before() -> None:
    stored = ChunkShape(SHOUT).encode_result([outcome(4, 0, is_placed=False), None])
    assert json.loads(stored.data) == [[True, "xx", None], None]


def test_a_result_of_older_code_is_read() -> None:
    found = ChunkShape(SHOUT).decode_result(Payload(JSON, b'[[true,"A",null],[true,"B","b"],null]'))
    assert [each and (each.value, each.key, each.place) for each in found] == [
        ("A", None, None),
        ("B", "b", None),
        None,
    ]


def test_a_chunk_of_older_code_holds_nothing_back() -> None:
    shape = ChunkShape(SHOUT)
    given = json.loads(shape.encode([Item(b'{"text":"a"}', "hash")], 1, CallOptions()).data)
    assert given.pop("holds_back") is True
    (work,), _ = shape.decode(Payload(JSON, json.dumps(given).encode()))
    assert not work.holds_back


def test_a_shortened_error_keeps_its_type_and_the_beginning_of_its_message() -> None:
    error = decode_error(shortened(encode_error(OSError("no room " * 1000))))
    assert isinstance(error, OSError)
    assert "no room no room" in str(error)
    assert len(str(error)) < 2000


async def test_a_result_that_is_gone_is_an_error_that_names_it() -> None:
    async def nothing(run: str) -> Sequence[RecordRow]:
        assert run == "chunk"
        return ()

    with pytest.raises(UnreadableRow, match="shout=1 in run chunk"):
        await read_results(nothing, [ResultPlace("chunk", "shout=1")])


async def test_the_history_of_a_chunk_is_read_once_for_all_of_its_results() -> None:
    reads: list[str] = []

    async def read(run: str) -> Sequence[RecordRow]:
        reads.append(run)
        return ()

    histories = LastHistory(read)
    for run in ("first", "first", "second", "second", "first"):
        await histories(run)
    assert reads == ["first", "second", "first"]
