"""What would be lost or changed is refused at the call, with the place and without the value."""

from __future__ import annotations

import asyncio
import io
import math
import sys
import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag, StrEnum
from fractions import Fraction
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, Protocol, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
import pytest

from onward.codec import decode, encode
from onward.errors import Unencodable


class Colour(Enum):
    RED = "red"


class Word(StrEnum):
    YES = "yes"


class Level(IntEnum):
    LOW = 1


class Wide(IntFlag):
    LAST = 2**70


class Name(str):
    __slots__ = ()


@dataclass
class Point:
    x: int


class Point3(Point):
    pass


@attrs.define
class Account:
    owner: str


class Cat(msgspec.Struct):
    name: str


class Model(pydantic.BaseModel):
    x: int


class Pair(NamedTuple):
    left: int


class Film(TypedDict):
    title: str


@dataclass
class Order:
    when: Any
    lines: list[Any]


@dataclass
class Initialised:
    x: int
    seed: InitVar[int]


@dataclass
class Rows(list[int]):
    name: str


class Speaker(Protocol):
    def speak(self) -> str: ...


def numbers() -> Iterator[int]:
    yield 1


def refusal(value: object, annotation: Any = Any) -> Unencodable:
    with pytest.raises(Unencodable) as caught:
        encode(value, annotation=annotation)
    return caught.value


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


NOON = datetime(2026, 3, 1, 12)


# --- types that plain data cannot tell ----------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "shown", "back"),
    [
        (NOON, "a datetime", "text"),
        (NOON.date(), "a date", "text"),
        (NOON.time(), "a time", "text"),
        (timedelta(1), "a timedelta", "text"),
        (Decimal(1), "a Decimal", "text"),
        (UUID(int=1), "a UUID", "text"),
        (b"a", "a bytes", "text"),
        ((1,), "a tuple", "a list"),
        ({1}, "a set", "a list"),
        (frozenset(), "a frozenset", "a list"),
        (Pair(1), "a Pair", "a list"),
        (Colour.RED, "a Colour", "its bare value"),
        (Word.YES, "a Word", "its bare value"),
        (Level.LOW, "a Level", "its bare value"),
        (Point(1), "a Point", "a dict"),
        (Account("ada"), "an Account", "a dict"),
        (Cat("Tom"), "a Cat", "a dict"),
        (Model(x=1), "a Model", "a dict"),
        (Name("ada"), "a Name", "a plain str"),
        (OrderedDict(), "an OrderedDict", "a plain dict"),
    ],
)
def test_a_type_that_any_would_lose_is_refused(value: Any, shown: str, back: str) -> None:
    refused = refusal({"orders": [{}, {"when": value}]})

    assert refused.path == "value.orders[1].when"
    assert refused.fact == (
        f"is {shown}, but the annotation there is Any: it would come back as {back}"
    )
    assert refused.advice == "Annotate it."


def test_the_message_is_one_sentence_with_a_next_move() -> None:
    assert str(refusal([NOON])) == (
        "value[0] is a datetime, but the annotation there is Any: it would come back as text. "
        "Annotate it."
    )


def test_a_key_that_is_not_text_is_refused_without_an_annotation() -> None:
    refused = refusal({"a": {1: "x", "1": "y"}})

    assert refused.path == "value.a"
    assert refused.fact.startswith("has a key that is an int, but the annotation there is Any")


def test_the_path_leads_through_typed_fields() -> None:
    assert refusal([Order("now", [1, {2}])], list[Order]).path == "value[0].lines[1]"


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        ("1", int),
        (1, str),
        (1, bool),
        (None, int),
        (1.0, int),
        (Word.YES, str),
        (Level.LOW, int),
        (Name("ada"), str),
        ((1,), list[int]),
        ([1], tuple[int, ...]),
        ([1], tuple[int]),
        ([1], set[int]),
        ({1}, frozenset[int]),
        ([1], dict[str, int]),
        ([1], Film),
        (OrderedDict(a=1), dict[str, int]),
        (NOON, date),
        (NOON.date(), datetime),
        ("red", Colour),
        ("HERE", Literal["here"]),
        ([], Literal["here"]),
        (Level.LOW, Wide),
        (1, Colour | None),
        (Point3(1), Point),
        ({"x": 1}, Point),
        (Point(1), Cat),
        ({"x": 1}, Model),
        (1, list[int] | list[str]),
        ([None], list[int] | list[str]),
    ],
)
def test_a_value_that_is_not_what_its_annotation_says_is_refused(
    value: Any, annotation: Any
) -> None:
    assert "annotation there is" in refusal(value, annotation).fact or "allows" in str(
        refusal(value, annotation)
    )


@pytest.mark.parametrize(
    ("value", "annotation", "path"),
    [
        ([1, "2"], list[int], "value[1]"),
        ((1, 2), tuple[int, str], "value[1]"),
        ({"a": 1, "b": "2"}, dict[str, int], "value.b"),
        ({"a": 1, "not a name": "2"}, dict[str, int], "value[key 1]"),
        ({1: 1, "2": 2}, dict[int, int], "value{key}"),
        ({"1"}, set[int], "value{…}"),
        ({"title": 1}, Film, "value.title"),
        (Point("1"), Point, "value.x"),  # type: ignore[arg-type]
        ([[(1, 2), (3, "4")]], list[list[tuple[int, int]]], "value[0][1][1]"),
    ],
)
def test_the_path_leads_to_the_item(value: Any, annotation: Any, path: str) -> None:
    assert refusal(value, annotation).path == path


def test_a_tuple_of_another_length_is_refused() -> None:
    assert "has 3 items" in refusal((1, 2, 3), tuple[int, int]).fact


def test_a_typed_dict_has_its_keys_and_no_others() -> None:
    assert "lacks the key title" in refusal({}, Film).fact
    assert "does not name" in refusal({"title": "M", "year": 1}, Film).fact
    assert "does not name" in refusal({"title": "M", 1: 1}, Film).fact


def test_a_field_without_a_value_is_refused() -> None:
    point = Point(1)
    del point.x

    assert "has no value in its field x" in refusal(point, Point).fact


# --- numbers, text, moments ---------------------------------------------------------------------


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("annotation", [Any, dict[str, list[float]], dict[str, Any]])
def test_a_number_that_json_does_not_have_is_refused(number: float, annotation: Any) -> None:
    refused = refusal({"rates": [1.0, number]}, annotation)

    assert refused.path == "value.rates[1]"
    assert "NaN or infinite" in refused.fact


@pytest.mark.parametrize("number", [2**63, -(2**63) - 1, 2**70])
@pytest.mark.parametrize("annotation", [Any, int, float])
def test_an_int_beyond_64_bits_is_refused(number: int, annotation: Any) -> None:
    assert "does not fit 64 bits" in refusal(number, annotation).fact


def test_a_flag_beyond_64_bits_is_refused() -> None:
    assert "beyond 64 bits" in refusal(Wide.LAST, Wide).fact


@pytest.mark.parametrize("number", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_a_decimal_that_is_no_number_is_refused(number: str) -> None:
    assert "NaN or infinite" in refusal(Decimal(number), Decimal).fact


@pytest.mark.parametrize(
    ("value", "annotation", "path"),
    [
        ("\ud800", Any, "value"),
        ({"a": [1, "x", "\udfffx"]}, Any, "value.a[2]"),
        ({"a": {"\ud800": 1}}, Any, "value.a"),
        ({"\ud800": 1}, dict[str, int], "value"),
        ({("\ud800",): 1}, dict[tuple[str], int], "value{key}[0]"),
        ({"\ud800"}, set[str], "value[0]"),
        ([{"\ud800"}], list[set[str]], "value[0][0]"),
        (Order("\ud800", []), Order, "value.when"),
        (Model.model_construct(x="\ud800"), Model, "value.x"),
    ],
)
def test_half_a_character_is_refused(value: Any, annotation: Any, path: str) -> None:
    refused = refusal(value, annotation)

    assert refused.path == path
    assert "lone surrogate" in refused.fact


class Elsewhere(tzinfo):
    def utcoffset(self, moment: datetime | None) -> timedelta:
        return timedelta(hours=1)


def unnamed_zone() -> ZoneInfo:
    # The smallest file that is a time zone: version 1, one type, UTC.
    counts = b"".join(n.to_bytes(4, "big") for n in (0, 0, 0, 0, 1, 4))
    return ZoneInfo.from_file(
        io.BytesIO(b"TZif" + b"\0" * 16 + counts + b"\0\0\0\0\0\0" + b"UTC\0")
    )


@pytest.mark.parametrize("zone", [Elsewhere(), unnamed_zone()])
def test_a_zone_that_has_no_name_is_refused(zone: tzinfo) -> None:
    assert "has a time zone of type" in refusal(NOON.replace(tzinfo=zone), datetime).fact


def test_a_time_in_a_zone_is_refused() -> None:
    assert "depends on the date" in refusal(time(1, tzinfo=ZoneInfo("UTC")), time).fact


@pytest.mark.parametrize("value", [NOON.replace(fold=1), time(1, fold=1), time(1, fold=1, tzinfo=UTC)])
def test_a_fold_without_a_zone_is_refused(value: Any) -> None:
    assert "fold=1" in refusal(value, type(value)).fact


# --- depth and cycles ---------------------------------------------------------------------------


def test_64_levels_are_taken_and_65_are_not() -> None:
    assert decode(encode(nested(64))) == nested(64)
    assert "more than 64 levels" in refusal(nested(65)).fact


@dataclass
class Chain:
    next: Chain | None = None


def chain(length: int) -> Chain:
    link = Chain()
    for _ in range(length - 1):
        link = Chain(link)
    return link


def lists(depth: int) -> Any:
    return list[Any] if depth == 1 else list[lists(depth - 1)]  # type: ignore[misc]


def wrapped(depth: int, wrap: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(depth):
        inner = wrap(inner)
    return inner


@pytest.mark.parametrize(
    ("value", "annotation"),
    [
        (nested(10_000), Any),
        (wrapped(10_000, lambda inner: {"a": inner}, 1), Any),
        (chain(10_000), Chain),
        (wrapped(70, lambda inner: (inner,), 1), wrapped(70, lambda a: tuple[a], int)),
        (wrapped(70, lambda inner: (inner,), 1), wrapped(70, lambda a: tuple[a, ...], int)),
        (wrapped(70, lambda inner: frozenset({inner}), 1), wrapped(70, lambda a: frozenset[a], int)),
        (wrapped(70, lambda inner: {"a": inner}, 1), wrapped(70, lambda a: dict[str, a], int)),
        (wrapped(70, lambda inner: [inner], 1), wrapped(70, lambda a: list[a] | list[str], int)),
    ],
    ids=["list", "dict", "dataclass", "fixed", "tuple", "frozenset", "typed dict", "union"],
)
def test_bottomless_nesting_is_refused(value: Any, annotation: Any) -> None:
    refused = refusal(value, annotation)

    assert "more than 64 levels" in refused.fact
    assert len(refused.path) < 200


class Loop(TypedDict):
    inner: Loop | None


def test_typed_dicts_have_the_same_bottom() -> None:
    value = wrapped(70, lambda inner: {"inner": inner}, None)

    assert "more than 64 levels" in refusal(value, Loop).fact


def test_a_cycle_is_called_a_cycle() -> None:
    inner: dict[str, Any] = {"leaf": [1.0]}
    inner["self"] = [inner]
    link = Chain()
    link.next = link

    assert refusal({"a": inner}).fact == "leads back to itself"
    assert refusal(link, Chain).fact == "leads back to itself"


# --- what is not data ---------------------------------------------------------------------------


async def coroutine() -> None: ...


def things() -> dict[str, Any]:
    unused = coroutine()
    unused.close()
    return {
        "lambda": lambda: None,
        "function": numbers,
        "built-in": len,
        "method": [].append,
        "generator": numbers(),
        "coroutine": unused,
        "module": sys,
        "type": Point,
        "file": io.BytesIO(),
    }


@pytest.mark.parametrize("name", list(things()))
@pytest.mark.parametrize("annotation", [Any, Callable[[], None], Point | None, Speaker])
def test_code_and_open_things_are_refused(name: str, annotation: Any) -> None:
    refused = refusal({"do": [things()[name]]}, dict[str, list[annotation]])

    assert refused.path == "value.do[0]"
    assert "code and open things" in refused.fact or "the annotation there is Point" in refused.fact


@pytest.mark.parametrize(
    "value",
    [
        threading.Lock(),
        asyncio.Event(),
        object(),
        Fraction(1, 3),
        1j,
        range(3),
        deque([1]),
        PurePosixPath("a"),
        memoryview(b"a"),
        ValueError("x"),
        msgspec.UNSET,
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_object_without_a_known_shape_is_refused(value: Any) -> None:
    assert "no known shape" in refusal(value).fact
    assert "no known shape" in refusal(value, type(value)).fact


@pytest.mark.parametrize(
    "annotation",
    [Speaker, Callable[[], int], type, PurePosixPath, deque[int], Rows, Literal[()], 5],
    ids=str,
)
def test_an_annotation_without_a_known_shape_refuses_even_plain_data(annotation: Any) -> None:
    assert "no known shape" in refusal(1, annotation).fact


def test_a_class_that_needs_what_it_does_not_keep_is_refused() -> None:
    assert "InitVar" in refusal(Initialised(1, 2), Initialised).fact


def test_no_value_is_shown() -> None:
    secret = "hunter2-secret"  # noqa: S105 - a canary
    values = [
        {secret: 1.0, "a b": {secret: math.nan}},
        [secret, {1: secret}],
        Name(secret),
        {secret: "\ud800"},
    ]
    for value in values:
        refused = refusal(value)
        assert "hunter2" not in str(refused) + repr(refused)


def test_cause_of_a_refusal_is_not_our_own_unwinding() -> None:
    refused = refusal({"a": [NOON]})

    assert refused.__cause__ is None
    assert refused.__suppress_context__
