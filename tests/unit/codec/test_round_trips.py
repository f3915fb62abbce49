"""What is encoded with an annotation comes back equal, and of the same type at every depth."""

# Users write naive moments and the old spellings of types too.
# ruff: noqa: DTZ001, DTZ901, PYI061, UP006, UP007, UP035, UP045

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from types import GenericAlias
from typing import (
    Annotated,
    Any,
    Dict,
    Final,
    FrozenSet,
    Generic,
    List,
    Literal,
    LiteralString,
    NamedTuple,
    NewType,
    NotRequired,
    Optional,
    Required,
    Set,
    Tuple,
    TypedDict,
    TypeVar,
    Union,
)
from uuid import UUID
from zoneinfo import ZoneInfo

import attrs
import msgspec
import pydantic
import pytest
from typing_extensions import ReadOnly, TypeAliasType
from typing_extensions import TypedDict as ExtendedTypedDict

from onward.codec import decode, encode
from tests.unit.codec.exactness import exact

T = TypeVar("T")
K = TypeVar("K", bound=str)
C = TypeVar("C", int, datetime)


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    TEXT = "1"
    NUMBER = 1


class Place(Enum):
    HERE = (1, 2)
    THERE = (3, 4)


class Huge(Enum):
    BIG = 2**70


class Word(StrEnum):
    YES = "yes"


class Right(Flag):
    READ = auto()
    WRITE = auto()


class Bit(IntFlag):
    ONE = 1
    TWO = 2


@dataclass
class Point:
    x: int
    y: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    id: UUID
    when: datetime
    lines: list[Point]
    by_name: dict[str, Point] = field(default_factory=dict)
    note: str | None = None


@dataclass
class Node:
    value: int
    children: list[Node] = field(default_factory=list)
    parent_name: str | None = None


@dataclass
class Box(Generic[T]):
    item: T


@dataclass
class Boxes(Box[list[T]], Generic[T]):
    spare: T


@dataclass
class MomentBox(Box[datetime]):
    pass


@dataclass
class Dated:
    date: date | None = None


@dataclass
class Measured:
    when: Annotated[datetime, pydantic.Field(description="x")]
    rows: dict[str, list[Annotated[int, pydantic.Field(gt=0)]]]


@attrs.define
class Account:
    _owner: str
    opened: date
    tags: set[str] = attrs.field(factory=set)


@attrs.frozen
class Money:
    amount: Decimal


class Cat(msgspec.Struct, tag="cat"):
    name: str
    born: date


class Dog(msgspec.Struct, tag="dog", frozen=True, array_like=True, rename="camel"):
    full_name: str
    owner: Cat | None = None


class Pair(NamedTuple):
    left: int
    right: datetime


class Movie(TypedDict, total=False):
    title: Required[str]
    when: date


class Film(TypedDict):
    title: str
    when: NotRequired[date]


class Song(ExtendedTypedDict):
    title: ReadOnly[str]


class Listing(TypedDict, Generic[T]):
    items: list[T]


UserId = NewType("UserId", UUID)
Json = TypeAliasType("Json", "bool | int | float | str | list[Json] | dict[str, Json] | None")
PairOf = TypeAliasType("PairOf", tuple[T, T], type_params=(T,))

ID = UUID("12345678-1234-5678-1234-567812345678")
BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 3, 1, 12, 30, 15, 123456)
TWICE = datetime(2026, 10, 25, 2, 30)  # twice in Berlin
NEVER = datetime(2026, 3, 29, 2, 30)  # never in Berlin

CASES: list[tuple[Any, Any]] = [
    (None, None),
    (True, bool),
    (0, int),
    (2**63 - 1, int),
    (-(2**63), int),
    (2**53 + 1, int),
    (True, int),
    (1.5, float),
    (1, float),
    (-0.0, float),
    (5e-324, float),
    (1e22, float),
    (math.pi, float),
    ("", str),
    ("a\0b\r\n\u2028\U0001f600é", str),
    ("text", LiteralString),
    (b"", bytes),
    (b"\0\xff", bytes),
    (bytearray(b"\x01"), bytearray),
    (NOON, datetime),
    (NOON.replace(tzinfo=UTC), datetime),
    (NOON.replace(tzinfo=timezone(timedelta(hours=-3, minutes=-30, seconds=1))), datetime),
    (datetime.min, datetime),
    (datetime.max, datetime),
    (NOON.replace(tzinfo=BERLIN), datetime),
    (NOON.replace(tzinfo=ZoneInfo("UTC")), datetime),
    (TWICE.replace(tzinfo=BERLIN, fold=0), datetime),
    (TWICE.replace(tzinfo=BERLIN, fold=1), datetime),
    (NEVER.replace(tzinfo=BERLIN), datetime),
    (date(1, 1, 1), date),
    (time(23, 59, 59, 1), time),
    (time(1, tzinfo=UTC), time),
    (time(1, tzinfo=UTC, fold=1), time),
    (NOON.replace(tzinfo=UTC, fold=1), datetime),
    (timedelta(0), timedelta),
    (timedelta(days=-1, microseconds=1), timedelta),
    (timedelta(hours=1, milliseconds=5), timedelta),
    (timedelta.max, timedelta),
    (timedelta.min, timedelta),
    (Decimal("1.10"), Decimal),
    (Decimal("-0"), Decimal),
    (Decimal("1E+50"), Decimal),
    (Decimal("0." + "3" * 60), Decimal),
    (ID, UUID),
    (ID, UserId),
    (Colour.RED, Colour),
    (Level.HIGH, Level),
    (Mixed.TEXT, Mixed),
    (Mixed.NUMBER, Mixed),
    (Place.THERE, Place),
    (Huge.BIG, Huge),
    (Word.YES, Word),
    (Right.READ | Right.WRITE, Right),
    (Right(0), Right),
    (Bit.ONE | Bit.TWO, Bit),
    ([], list),
    ([1, "a", None, {"b": [True]}], list),
    ([1, 2], list[int]),
    ([1, 2], List[int]),
    ([1], List),
    ([1, 2], Sequence[int]),
    ([1, 2], Iterable[int]),
    ((1, "a"), tuple),
    ((1, "a"), Tuple),
    ((), tuple[()]),
    ((), Tuple[()]),
    ((1, 2, 3), tuple[int, ...]),
    ((1, NOON), tuple[int, datetime]),
    ({"b", "a"}, set[str]),
    ({1, "a"}, set),
    ({1}, Set),
    ({1}, AbstractSet[int]),
    (frozenset({(1, 2)}), frozenset[tuple[int, int]]),
    (frozenset(), FrozenSet[int]),
    ({"z": 1, "a": 2}, dict),
    ({"z": 1, "a": 2}, dict[str, int]),
    ({"z": 1}, Dict[str, int]),
    ({"z": 1}, Mapping[str, int]),
    ({"z": 1}, dict[Any, Any]),
    ({1: "a", -2: "b"}, dict[int, str]),
    ({ID: NOON}, dict[UUID, datetime]),
    ({date(2026, 1, 1): 1}, dict[date, int]),
    ({Colour.RED: 1}, dict[Colour, int]),
    ({Level.LOW: 1}, dict[Level, int]),
    ({(1, "a"): 1}, dict[tuple[int, str], int]),
    ({1.5: 1, None: 2, True: 3}, dict[float | None, int]),
    ({1: "a", "1": "b"}, dict[int | str, str]),
    ({frozenset({1}): 1}, dict[frozenset[int], int]),
    ({"a": {"b": {1}}}, dict[str, dict[str, set[int]]]),
    (Point(1), Point),
    (Point(1, 2), Point),
    (Order(id=ID, when=NOON, lines=[Point(1)], by_name={"a": Point(2)}), Order),
    ([Point(1)], list[Point]),
    ({"a": Point(1)}, dict[str, Point]),
    ({1: [Point(1)]}, dict[int, list[Point]]),
    (Node(1, [Node(2), Node(3, [Node(4)])]), Node),
    (Box(NOON), Box[datetime]),
    (Box([1]), Box),
    (Boxes([NOON], NOON), Boxes[datetime]),
    (MomentBox(NOON), MomentBox),
    (Dated(date(2026, 1, 1)), Dated),
    (Account("ada", date(2026, 1, 1), {"a"}), Account),
    (Money(Decimal("1.10")), Money),
    (Cat("Tom", date(2026, 1, 1)), Cat),
    (Dog("Rex", Cat("Tom", date(2026, 1, 1))), Dog),
    (Cat("Tom", date(2026, 1, 1)), Cat | Dog),
    (Dog("Rex"), Cat | Dog),
    (Pair(1, NOON), Pair),
    ({"title": "M"}, Movie),
    ({"when": date(1931, 1, 1), "title": "M"}, Movie),
    ({"title": "M"}, Film),
    ({"title": "M"}, Song),
    ({"items": [NOON]}, Listing[datetime]),
    (None, Optional[datetime]),
    (NOON, Optional[datetime]),
    ("2026-03-01T12:30:15", str | datetime),
    (NOON, str | datetime),
    (1, int | str | None),
    (1.0, Union[int, float]),
    ([1], list[int] | tuple[int, ...]),
    ((1,), list[int] | tuple[int, ...]),
    ({1}, list[int] | set[int]),
    ([], list[int] | list[str]),
    (["a"], list[int] | list[str]),
    (Point(1), Point | Order),
    (Point(1), dict[str, int] | Point),
    ({"x": 1}, dict[str, int] | Point),
    ({"$": "Point", "of": 1}, dict[str, Any] | Point),
    ({"$": "plain", "of": 1}, dict[str, Any] | str | UUID),
    (Colour.RED, Colour | str),
    ("red", Colour | str),
    (Box(1), Box[int] | Box[str]),
    (Box("1"), Box[int] | Box[str]),
    ({"a": [1, None]}, Any | datetime),
    (NOON, Any | datetime),
    ("a", Literal["a", "b"]),
    (True, Literal[1, True]),
    (None, Literal["a", None]),
    (Colour.RED, Literal[Colour.RED, "red"]),
    ("red", Literal[Colour.RED, "red"]),
    (b"a", Literal[b"a"]),
    (5, Annotated[int, "metadata"]),
    (5, Annotated[int, ["no hash"]]),
    ([5], list[Annotated[int, ["no hash"]]]),
    ({"a": (NOON,)}, dict[str, tuple[Annotated[datetime, ["no hash"]], ...]]),
    (Box(NOON), Box[Annotated[datetime, ["no hash"]]]),
    (Measured(NOON, {"a": [1]}), Measured),
    (5, Final[int]),
    (5, T),
    ("a", K),
    (NOON, C),
    ([1], GenericAlias(list, (T,))),
    ({"a": [None, True, 1, 1.5, "b", {}]}, Json),
    ((NOON, NOON), PairOf[datetime]),
    (1, object),
]


# Named by number and annotation: how a set prints differs from process to process.
NAMES = [f"{number}-{str(case[1])[:60]}" for number, case in enumerate(CASES)]


@pytest.mark.parametrize(("value", "annotation"), CASES, ids=NAMES)
def test_a_value_comes_back_exactly(value: Any, annotation: Any) -> None:
    payload = encode(value, annotation=annotation)

    assert exact(decode(payload, annotation)) == exact(value)


@pytest.mark.parametrize(
    "value",
    [None, True, False, 0, -1, 2**63 - 1, 1.5, "", "a\0b", [], {}, [[1], {"a": None}], {"": {}}],
)
def test_plain_data_needs_no_annotation(value: Any) -> None:
    assert exact(decode(encode(value))) == exact(value)


def test_the_order_of_a_dict_is_kept() -> None:
    value = {"z": 1, "a": 2, "m": 3}

    assert list(decode(encode(value))) == ["z", "a", "m"]
    assert list(decode(encode(value, annotation=dict[str, int]), dict[str, int])) == ["z", "a", "m"]


def test_what_comes_back_shares_nothing_with_what_was_given() -> None:
    inner = [1]
    value = decode(encode({"a": inner}))

    value["a"].append(2)

    assert inner == [1]


def test_decoding_without_an_annotation_gives_the_stored_json() -> None:
    order = Order(id=ID, when=NOON, lines=[Point(1)])

    assert decode(encode(order, annotation=Order)) == {
        "id": str(ID),
        "when": "2026-03-01T12:30:15.123456",
        "lines": [{"x": 1, "y": 0.0}],
        "by_name": {},
        "note": None,
    }


def test_an_instant_outlives_a_change_of_its_zone() -> None:
    payload = encode("2026-07-01T12:00:00+05:00[Europe/Berlin]", annotation=str)

    back = decode(payload, datetime)

    assert back == datetime(2026, 7, 1, 7, tzinfo=UTC)
    assert back.tzinfo is BERLIN
