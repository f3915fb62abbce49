"""Stored forms never change: what is in `golden.json` was written once and is read for ever.

A new case may be added; the failing test shows its line. An old line is never edited.
"""

# ruff: noqa: DTZ001

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
import pytest

from onward.codec import Payload, decode, decode_error, encode, fingerprint, signature_of
from tests.unit.codec.exactness import exact

GOLDEN: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("golden.json").read_text("utf-8")
)


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Place(Enum):
    HERE = (1, 2)


class Right(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Point:
    x: int
    y: float = 0.5


@dataclass
class Order:
    id: UUID
    lines: list[Point]
    by: dict[int, Point | None] = field(default_factory=dict)
    either: Point | Colour | str = ""


@attrs.define
class Account:
    _owner: str
    tags: frozenset[str] = frozenset()


class Cat(msgspec.Struct, tag="cat", rename="camel"):
    full_name: str


class Dog(msgspec.Struct, tag="dog"):
    full_name: str


class Pair(NamedTuple):
    left: int
    right: datetime


class Model(pydantic.BaseModel):
    when: datetime
    price: Decimal = pydantic.Field(alias="Price")
    names: set[str] = set()


def call(a: int, /, b: Decimal, *rest: date, c: Point | None = None, **more: str) -> None: ...


ID = UUID("12345678-1234-5678-1234-567812345678")
NOON = datetime(2026, 3, 1, 12, 30, 15, 123456)
NUMBERS = [
    0,
    -1,
    2**63 - 1,
    -(2**63),
    1.0,
    -0.0,
    1e16,
    1e-7,
    1e22,
    5e-324,
    1.7976931348623157e308,
    0.1,
]

VALUES: dict[str, tuple[Any, Any]] = {
    "null": (None, Any),
    "truth": ([True, False], Any),
    "numbers": (NUMBERS, Any),
    "text": ('é\U0001f600"\\/\b\f\n\r\t\0\x1f\x7f\u2028', Any),
    "object": ({"z": 1, "a": [], "é": {}}, Any),
    "bytes": (b"\0\xff~", bytes),
    "bytearray": (bytearray(b"\0"), bytearray),
    "naive datetime": (NOON, datetime),
    "whole datetime": (NOON.replace(microsecond=0), datetime),
    "datetime in UTC": (NOON.replace(tzinfo=UTC), datetime),
    "datetime with offset": (NOON.replace(tzinfo=timezone(timedelta(hours=-3.5))), datetime),
    "datetime in a zone": (NOON.replace(tzinfo=ZoneInfo("Europe/Berlin")), datetime),
    "date": (date(2026, 3, 1), date),
    "time": (time(1, 2, 3, 4), time),
    "timedelta": (timedelta(days=1, seconds=2, microseconds=3), timedelta),
    "negative timedelta": (timedelta(seconds=-1.5), timedelta),
    "whole timedelta": (timedelta(days=3), timedelta),
    "Decimal": ([Decimal("1.10"), Decimal("-1E+50")], list[Decimal]),
    "UUID": (ID, UUID),
    "enums": ((Colour.RED, Level.LOW, Place.HERE), tuple[Colour, Level, Place]),
    "flags": (Right.READ | Right.WRITE, Right),
    "set": ({"b", "a", "é", "aa"}, set[str]),
    "set of numbers": ({10, 9, -1}, set[int]),
    "tuple": ((1, "a"), tuple[int, str]),
    "int keys": ({1: "a", -2: "b"}, dict[int, str]),
    "tuple keys": ({(1, "a"): 1}, dict[tuple[int, str], int]),
    "mixed keys": ({1: 1, "1": 2}, dict[int | str, int]),
    "UUID keys": ({ID: 1}, dict[UUID, int]),
    "dataclass": (
        Order(ID, [Point(1)], {1: None, 2: Point(2, 3)}, either=Colour.RED),
        Order,
    ),
    "attrs": (Account("ada", frozenset({"b", "a"})), Account),
    "Struct": (Cat("Tom"), Cat),
    "NamedTuple": (Pair(1, NOON), Pair),
    "pydantic": (Model(when=NOON, Price=Decimal("1.10"), names={"b", "a"}), Model),
    "optional": ([None, NOON], list[datetime | None]),
    "union of text": (["a", NOON], list[str | datetime]),
    "union of classes": ([Cat("Tom"), Dog("Rex")], list[Cat | Dog]),
    "union of lists": (["a"], list[int] | list[str]),
}


def golden(name: str, data: bytes, print_: str) -> dict[str, str]:
    line = {"data": data.decode(), "fingerprint": print_}
    assert name in GOLDEN, f"add to golden.json: {json.dumps({name: line}, ensure_ascii=False)}"
    return GOLDEN[name]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_written_as_ever(name: str) -> None:
    value, annotation = VALUES[name]

    payload = encode(value, annotation=annotation)
    line = golden(name, payload.data, fingerprint(payload))

    assert payload.tag == "json"
    assert payload.data.decode() == line["data"]
    assert fingerprint(payload) == line["fingerprint"]


@pytest.mark.parametrize("name", VALUES)
def test_a_value_is_read_as_ever(name: str) -> None:
    value, annotation = VALUES[name]

    payload = Payload("json", GOLDEN[name]["data"].encode())

    assert exact(decode(payload, annotation)) == exact(value)


def test_a_call_is_written_and_read_as_ever() -> None:
    args = (1, Decimal("2.50"), date(2026, 3, 1))
    kwargs = {"c": Point(1), "z": "last", "a": "shadow"}
    arguments = signature_of(call).bind(args, kwargs)

    line = golden("call", arguments.payload().data, arguments.fingerprint())

    assert arguments.payload().data.decode() == line["data"]
    assert arguments.fingerprint() == line["fingerprint"]
    assert signature_of(call).decode(arguments.payload()) == (args, kwargs)


def test_an_error_is_read_as_ever() -> None:
    error: Any = decode_error(Payload("json", GOLDEN["error"]["data"].encode()))

    assert str(error) == "shop.CardDeclined: no funds"
    assert error.traceback == '  File "shop.py", line 5, in charge\n'
    assert error.notes == ("order 5",)
    assert str(error.cause) == "OSError: down"
    assert str(error.cause.__context__.exceptions[0]) == "KeyError: 'x'"


def test_every_line_is_still_tested() -> None:
    assert set(GOLDEN) == {*VALUES, "call", "error"}
