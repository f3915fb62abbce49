"""Stored bytes are read back by what the code says today, or refused with the place."""

from __future__ import annotations

import traceback
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from typing import Any, Literal, NamedTuple, NotRequired, TypedDict
from uuid import UUID

import attrs
import msgspec
import pytest

from onward.codec import Payload, UnknownTag, decode, encode
from onward.errors import Undecodable


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1

    @classmethod
    def _missing_(cls, value: object) -> Level | None:
        return cls.LOW if value == "low" else None


class Place(Enum):
    HERE = (1, 2)


class Right(Flag):
    READ = 1


@dataclass
class Point:
    x: int
    y: int = 0
    tags: list[str] = field(default_factory=list)


class Film(TypedDict):
    title: str
    year: NotRequired[int]


def stored(text: str | bytes) -> Payload:
    return Payload("json", text.encode() if isinstance(text, str) else text)


def misfit(text: str | bytes, annotation: Any) -> str:
    with pytest.raises(Undecodable) as caught:
        decode(stored(text), annotation)
    return caught.value.fact


@pytest.mark.parametrize(
    ("text", "annotation", "fact"),
    [
        ('"a"', int, "value is text, not an int"),
        ("null", str, "value is null, not a str"),
        ("1", bool, "value is a number, not a bool"),
        ("1.5", int, "value is a number, not an int"),
        ("true", str, "value is a boolean, not a str"),
        ("[]", float, "value is a list, not a float"),
        ("{}", str | None, "value is an object, not a str | None"),
        ('{"a": [1, "x"]}', dict[str, list[int]], "value.a[1] is text, not an int"),
        ("1", datetime, "value is a number, not a datetime"),
        ('"soon"', datetime, "value is text that cannot be read as datetime"),
        (
            '"2026-01-01T00:00:00+01:00[Not/There]"',
            datetime,
            "value is text that cannot be read as",
        ),
        ('"2026-01-01T00:00:00+01:00[../etc]"', datetime, "value is text that cannot be read as"),
        ('"2026-01-01T00:00:00+01:00[Europe]"', datetime, "value is text that cannot be read as"),
        ('"1"', date, "value is text that cannot be read as date"),
        ('"x"', time, "value is text that cannot be read as time"),
        ('"P1D"', timedelta, "value is text that cannot be read as timedelta"),
        ('"PT999999999999999S"', timedelta, "value is text that cannot be read as timedelta"),
        ('"x"', Decimal, "value is text that cannot be read as Decimal"),
        ('"NaN"', Decimal, "value is text that cannot be read as Decimal"),
        ('"x"', UUID, "value is text that cannot be read as UUID"),
        ('"x"', bytes, "value is text that cannot be read as bytes"),
        ('"=AA="', bytearray, "value is text that cannot be read as bytearray"),
        ('"green"', Colour, "value is not a value of Colour"),
        ("[]", Colour, "value is not a value of Colour"),
        ("true", Level, "value is not a value of Level"),
        ("2", Level, "value is not a value of Level"),
        ('"THERE"', Place, "value is not the name of a member of Place"),
        ("1", Place, "value is not the name of a member of Place"),
        ('"1"', Right, "value is not a value of Right"),
        ("64", Right, "value is not a value of Right"),
        ('"c"', Literal["a", "b"], "value is text, not a value that Literal['a', 'b'] allows"),
        ("[]", Literal["a"], "value is a list, not a value that Literal['a'] allows"),
        ("{}", list[int], "value is an object, not a list[int]"),
        ("{}", set[int], "value is an object, not a set[int]"),
        ("{}", tuple[int], "value is an object, not a tuple[int]"),
        ("[1, 2]", tuple[int], "value has 2 items, not 1"),
        ('["a"]', tuple[int], "value[0] is text, not an int"),
        ('["a"]', set[int], "value[0] is text, not an int"),
        ("[[]]", set[Any], "value has an item that cannot be in a set"),
        ("[]", dict[str, int], "value is a list, not a dict[str, int]"),
        ('{"x": 1}', dict[int, int], "value{key} is not JSON"),
        ('{"[]": 1}', dict[Any | datetime, int], "value has a key that cannot be in a dict"),
        ("[]", Film, "value is a list, not a Film"),
        ("{}", Film, "value lacks title"),
        ('{"title": 1}', Film, "value.title is a number, not a str"),
        ("[]", Point, "value is a list, not a Point"),
        ("{}", Point, "value lacks x"),
        ('{"x": "1"}', Point, "value.x is text, not an int"),
        ("1", type, "value is annotated with type, which has no known JSON form"),
        ("", int, "value is not JSON"),
        ("{", int, "value is not JSON"),
        ("NaN", float, "value is not JSON"),
        (b'"\xff"', str, "value is not JSON"),
        ("[" * 100_000, Any, "value is nested too deeply"),
    ],
)
def test_data_that_does_not_fit_is_refused_with_its_place(
    text: str | bytes, annotation: Any, fact: str
) -> None:
    assert misfit(text, annotation).startswith(fact)


def test_the_message_names_the_annotation_and_the_next_move() -> None:
    with pytest.raises(Undecodable) as caught:
        decode(stored('{"x": "secret"}'), list[Point] | None)

    assert str(caught.value) == (
        "a stored value does not match list[Point] | None: "
        "value is an object, not a list[Point] | None. "
        "Widen the annotation so that it accepts values that older code wrote."
    )


@dataclass
class Guarded:
    name: str

    def __post_init__(self) -> None:
        raise ValueError(self.name)


@pytest.mark.parametrize(
    "annotation", [datetime, date, Decimal, UUID, Colour, int, Literal["a"], Guarded, bytes]
)
def test_stored_data_is_not_shown_by_any_error_in_the_chain(annotation: Any) -> None:
    text = '{"name": "hunter2"}' if annotation is Guarded else '"hunter2"'
    with pytest.raises(Undecodable) as caught:
        decode(stored(text), annotation)

    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


@dataclass
class Tree:
    inner: Tree | None = None


def test_a_typed_value_nested_beyond_reason_is_refused() -> None:
    text = '{"inner": ' * 900 + "null" + "}" * 900

    assert misfit(text, Tree) == "value is nested too deeply"


# --- what older and newer code wrote ------------------------------------------------------------


def test_a_new_field_gets_its_default() -> None:
    assert decode(stored('{"x": 1}'), Point) == Point(1, 0, [])


def test_a_field_that_is_gone_is_ignored() -> None:
    assert decode(stored('{"x": 1, "z": 2}'), Point) == Point(1)
    assert decode(stored('{"title": "M", "stars": 5}'), Film) == {"title": "M"}


def test_defaults_are_not_shared() -> None:
    one, other = (decode(stored('{"x": 1}'), Point) for _ in range(2))

    assert one.tags is not other.tags


class Pair(NamedTuple):
    left: int
    right: int = 5


class Cat(msgspec.Struct, kw_only=True):
    lives: int = 9
    name: str
    toys: list[str] = []


@attrs.define
class Account:
    owner: str
    limit: int = 3
    tags: list[str] = attrs.field(factory=list)
    title: str = attrs.Factory(lambda self: self.owner.title(), takes_self=True)


@pytest.mark.parametrize(
    ("text", "annotation", "value"),
    [
        ('{"left": 1}', Pair, Pair(1, 5)),
        ('{"name": "Tom"}', Cat, Cat(name="Tom")),
        ('{"owner": "ada"}', Account, Account("ada", 3, [], "Ada")),
    ],
)
def test_every_family_of_classes_fills_in_defaults(text: str, annotation: Any, value: Any) -> None:
    assert decode(stored(text), annotation) == value


@pytest.mark.parametrize(("text", "annotation"), [("{}", Pair), ("{}", Cat), ("{}", Account)])
def test_every_family_of_classes_asks_for_what_has_no_default(text: str, annotation: Any) -> None:
    assert misfit(text, annotation).startswith("value lacks")


def test_an_enum_may_say_what_became_of_old_values() -> None:
    assert decode(stored('"low"'), Level) is Level.LOW


def test_an_int_is_read_where_a_float_is_asked_for_now() -> None:
    assert decode(encode(1, annotation=int), float) == 1


def test_plain_data_is_read_by_any_annotation_that_fits() -> None:
    assert decode(encode({"x": 1})) == {"x": 1}
    assert decode(encode({"x": 1}), Point) == Point(1)


# --- hooks of the class -------------------------------------------------------------------------


@dataclass
class Priced:
    net: int
    gross: int = field(init=False)

    def __post_init__(self) -> None:
        self.gross = self.net * 2
        self.net += 1
        self.cache: dict[str, int] = {}


class Struct(msgspec.Struct, frozen=True):
    net: int

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "net", self.net + 1)


@attrs.frozen
class Attrs:
    net: int
    gross: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "gross", self.net * 2)
        object.__setattr__(self, "net", self.net + 1)


@pytest.mark.parametrize("value", [Priced(1), Struct(1), Attrs(1)])
def test_a_constructor_that_changes_its_input_changes_nothing_twice(value: Any) -> None:
    assert value.net == 2

    assert decode(encode(value, annotation=type(value)), type(value)) == value


def test_a_hook_still_sets_what_is_no_field() -> None:
    back = decode(encode(Priced(1), annotation=Priced), Priced)

    assert back.cache == {}


@pytest.mark.parametrize("kind", [Priced, Attrs])
def test_a_hook_computes_a_field_that_was_not_stored(kind: Any) -> None:
    assert decode(stored('{"net": 5}'), kind).gross == 10


@dataclass
class Positive:
    n: int

    def __post_init__(self) -> None:
        if self.n < 0:
            raise ValueError(self.n)


def test_a_hook_may_refuse_stored_data() -> None:
    assert misfit('{"n": -1}', Positive) == "value was refused by Positive (ValueError)"


# --- tags ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tag", "move"),
    [
        ("json+zstd", "install onward[zstd]"),
        ("json+aes256gcm", "install onward[crypto]"),
        ("json+zstd+aes256gcm", "install onward[zstd,crypto]"),
        ("msgpack", "it was written by a newer version of Onward; upgrade this one"),
        ("json+brotli", "it was written by a newer version of Onward; upgrade this one"),
        ("", "it was written by a newer version of Onward; upgrade this one"),
    ],
)
def test_an_unknown_tag_says_what_to_install(tag: str, move: str) -> None:
    with pytest.raises(UnknownTag) as caught:
        decode(Payload(tag, b"1"), int)

    assert str(caught.value) == (
        f"a stored value cannot be read: its codec tag is {tag!r}; {move}."
    )


def test_a_payload_does_not_show_its_data() -> None:
    assert repr(encode("secret")) == "<Payload json, 8 bytes>"


def test_a_payload_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        encode(1).data = b"2"  # type: ignore[misc]


def test_payloads_are_equal_by_content() -> None:
    assert encode([1]) == encode([1])
    assert len({encode([1]), encode([1])}) == 1
