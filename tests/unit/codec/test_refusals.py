"""What would be lost or changed is refused at the call, with the place and without the value."""

# Users write naive moments and the old spellings of types too.
# ruff: noqa: DTZ001, UP006, UP035, UP044, UP045

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag, StrEnum
from pathlib import Path
from typing import (
    Annotated,
    Any,
    Generic,
    List,
    Literal,
    NamedTuple,
    Optional,
    Tuple,
    TypedDict,
    TypeVarTuple,
    Unpack,
)
from uuid import UUID

import attrs
import msgspec
import pydantic
import pytest

from onward.codec import encode, signature_of
from onward.errors import Unencodable


class Colour(Enum):
    RED = "red"


class Place(Enum):
    HERE = (1, 2)


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


NOON = datetime(2026, 3, 1, 12)


def refusal(value: object, annotation: Any = Any) -> Unencodable:
    with pytest.raises(Unencodable) as caught:
        encode(value, annotation=annotation)
    return caught.value


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
    ],
)
def test_a_type_that_any_would_lose_is_refused(value: Any, shown: str, back: str) -> None:
    refused = refusal({"orders": [{}, {"when": value}]})

    assert refused.path == "value.orders[1].when"
    assert refused.fact == (f"is {shown}, but its annotation is Any: it would come back as {back}")
    assert refused.advice == "Annotate it with its type."


@pytest.mark.parametrize(
    ("value", "back"), [(Name("ada"), "a plain str"), (OrderedDict(a=1), "a plain dict")]
)
def test_a_special_kind_of_plain_data_is_refused(value: Any, back: str) -> None:
    refused = refusal([value])

    assert refused.fact.endswith(f": it would come back as {back}")
    assert refused.advice == f"Pass {back}."


def test_the_message_is_one_sentence_with_a_next_move() -> None:
    assert str(refusal([NOON])) == (
        "value[0] is a datetime, but its annotation is Any: it would come back as text. "
        "Annotate it with its type."
    )


def test_a_key_that_is_not_text_is_refused_without_an_annotation() -> None:
    refused = refusal({"a": {1: "x", "1": "y"}})

    assert refused.path == "value.a"
    assert refused.fact.startswith("has a key that is an int, but its annotation is Any")


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
        ("HERE", Place),
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
    assert "annotation is" in refusal(value, annotation).fact or "allows" in str(
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


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (list[Annotated[int, "metadata"]], "list[int]"),
        (dict[str, Callable[[int, str], None]], "dict[str, Callable[[int, str], None]]"),
        (Optional[Point], "Point | None"),
        (str | int | None, "int | str | None"),
        (tuple[()], "tuple[]"),
        (Tuple[int, ...], "tuple[int, ...]"),
        (List, "list"),
        (Literal["a", 1], "Literal['a', 1]"),
        (list["Nowhere"], "list[Nowhere]"),  # type: ignore[name-defined]  # noqa: F821
        (List["Nowhere"], "list[Nowhere]"),  # type: ignore[name-defined]  # noqa: F821
    ],
)
def test_annotations_are_named_as_people_write_them(annotation: Any, name: str) -> None:
    assert refusal(b"", annotation).fact == f"is a bytes, but its annotation is {name}"


@pytest.mark.parametrize(
    "annotation",
    [list["Nowhere"], List["Nowhere"]],  # type: ignore[name-defined]  # noqa: F821
)
def test_a_name_that_is_not_there_is_called_that(annotation: Any) -> None:
    unresolved = refusal([NOON], annotation)

    assert unresolved.path == "value[0]"
    assert "its annotation, Nowhere, cannot be resolved at run time" in unresolved.fact


Pack = TypeVarTuple("Pack")


@dataclass
class Packed(Generic[Unpack[Pack]]):
    items: tuple[Unpack[Pack]]


def test_a_parameter_pack_has_no_known_shape() -> None:
    assert "cannot be resolved" in refusal(Packed((1, "a")), Packed[int, str]).fact


def test_a_tuple_of_another_length_is_refused() -> None:
    assert "has 3 items" in refusal((1, 2, 3), tuple[int, int]).fact


def test_a_typed_dict_has_its_keys_and_no_others() -> None:
    assert "lacks the key title" in refusal({}, Film).fact
    assert "does not have" in refusal({"title": "M", "year": 1}, Film).fact
    assert "does not have" in refusal({"title": "M", 1: 1}, Film).fact


def test_a_field_without_a_value_is_refused() -> None:
    point = Point(1)
    del point.x

    assert "has no value in its field x" in refusal(point, Point).fact


def test_no_value_is_shown() -> None:
    secret = "hunter2-secret"
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


class Animal(pydantic.BaseModel):
    name: str


class Dog(Animal):
    breed: str


@dataclass
class Shape:
    sides: int


@dataclass
class Square(Shape):
    width: int


class Login(pydantic.BaseModel):
    password: pydantic.SecretStr


def takes_path(path: Path) -> None: ...
def takes_animal(animal: Animal) -> None: ...
def takes_shape(shape: Shape) -> None: ...
def takes_secret(secret: pydantic.SecretStr) -> None: ...
def takes_login(login: Login) -> None: ...
def takes_anything(value: Any) -> None: ...


@pytest.mark.parametrize(
    ("fn", "value", "way_out"),
    [
        (takes_path, Path("x"), "Annotate it with str, pass str(path)"),
        (takes_anything, Path("x"), "Annotate it with str, pass str(path)"),
        (
            takes_animal,
            Dog(name="Rex", breed="pug"),
            "Annotate it with Animal | Dog, or pass an Animal",
        ),
        (takes_shape, Square(4, 2), "Annotate it with Shape | Square, or pass a Shape"),
        (takes_secret, pydantic.SecretStr("x"), "Pass the name of the secret"),
        (
            takes_login,
            Login(password=pydantic.SecretStr("x")),
            "Pydantic writes the secret 'password' as asterisks",
        ),
    ],
)
def test_a_refusal_says_what_to_pass_instead(fn: Any, value: Any, way_out: str) -> None:
    with pytest.raises(Unencodable) as refused:
        signature_of(fn).encode((value,), {})
    assert way_out in str(refused.value)
