"""Pydantic models are written and read by themselves, and must be able to."""

from __future__ import annotations

import subprocess
import sys
import traceback
from datetime import date, datetime
from decimal import Decimal
from types import GenericAlias
from typing import Annotated, Any, Generic, Literal, TypeVar

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, SecretStr

from onward.codec import Payload, decode, encode, signature_of
from onward.errors import Undecodable, Unencodable
from tests.unit.codec.exactness import exact

T = TypeVar("T")


class Line(BaseModel):
    name: str
    price: Decimal = Decimal("1.10")


class Order(BaseModel):
    model_config = ConfigDict(frozen=True)
    when: datetime
    lines: list[Line]
    tags: frozenset[str] = frozenset()
    size: tuple[int, int] = (1, 2)
    extra: dict[int, Line | None] = {}


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    when: date
    pair: tuple[int, int]


class Aliased(BaseModel):
    full_name: str = Field(validation_alias="fullName", serialization_alias="name")


class Box(BaseModel, Generic[T]):
    item: T


class Names(RootModel[set[str]]):
    pass


class Upper(BaseModel):
    text: str

    @pydantic.model_serializer
    def as_text(self) -> str:
        return self.text

    @pydantic.model_validator(mode="before")
    @classmethod
    def from_text(cls, data: Any) -> Any:
        return {"text": data} if isinstance(data, str) else data


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


NOON = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - naive moments are values like others

CASES: list[tuple[Any, Any]] = [
    (Line(name="a"), Line),
    (Order(when=NOON, lines=[Line(name="a")], tags=frozenset("cab"), extra={1: None}), Order),
    ([Line(name="a")], list[Line]),
    ({"a": Line(name="a")}, dict[str, Line]),
    (Strict(when=NOON.date(), pair=(1, 2)), Strict),
    (Aliased.model_validate({"fullName": "Ada"}), Aliased),
    (Box[datetime](item=NOON), Box[datetime]),
    (Names({"b", "a"}), Names),
    (Upper(text="a"), Upper),
    (Owner(pet=Dog()), Owner),
    (None, Line | None),
    (Line(name="a"), Line | None),
    (Line(name="a"), Line | Cat),
    (Upper(text="a"), Upper | str),
    ("a", Upper | str),
    (None, Names | None),
]


@pytest.mark.parametrize(
    ("value", "annotation"), CASES, ids=[f"{n}-{case[1]}" for n, case in enumerate(CASES)]
)
def test_a_model_comes_back_exactly(value: Any, annotation: Any) -> None:
    assert exact(decode(encode(value, annotation=annotation), annotation)) == exact(value)


def test_a_model_is_stored_by_field_name() -> None:
    assert (
        encode(Aliased.model_validate({"fullName": "Ada"}), annotation=Aliased).data
        == b'{"full_name":"Ada"}'
    )


class Password(BaseModel):
    secret: SecretStr


class Rounded(BaseModel):
    n: int

    @pydantic.field_validator("n")
    @classmethod
    def up(cls, n: int) -> int:
        return n + 1


class Loose(BaseModel):
    anything: Any


class Hidden(BaseModel):
    x: int = Field(default=0, exclude=True)


class Broken(BaseModel):
    x: int

    @pydantic.field_serializer("x")
    def fail(self, x: int) -> int:
        raise RuntimeError


class NotYet:
    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


class Compared(RootModel[Any]):
    def __eq__(self, other: object) -> Any:
        return NotYet()


@pytest.mark.parametrize(
    "model",
    [
        Password(secret=SecretStr("hunter2")),
        Rounded(n=1),
        Loose(anything=NOON),
        Loose(anything=(1, 2)),
        Loose(anything=float("nan")),
        Hidden(x=1),
        Broken(x=1),
        Compared(1),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_model_that_cannot_read_what_it_writes_is_refused(model: BaseModel) -> None:
    with pytest.raises(Unencodable, match="does not read back what it writes") as caught:
        encode(
            {"a": [model]}, annotation=GenericAlias(dict, (str, GenericAlias(list, (type(model),))))
        )

    assert caught.value.path == "value.a[0]"
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


def test_an_int_beyond_64_bits_is_refused_with_its_place() -> None:
    with pytest.raises(Unencodable, match="does not fit in 64 bits") as caught:
        encode(Loose(anything={"a": [2**70]}), annotation=Loose)

    assert caught.value.path == "value.anything.a[0]"


def test_a_subclass_is_refused() -> None:
    class Special(Line):
        discount: int = 0

    with pytest.raises(Unencodable, match="annotation is the base class Line"):
        encode(Special(name="a"), annotation=Line)


def test_stored_data_that_the_model_refuses_is_undecodable_without_showing_it() -> None:
    payload = Payload("json", b'[{"name": "a"}, {"name": ["hunter2"]}]')
    with pytest.raises(Undecodable) as caught:
        decode(payload, list[Line])

    assert caught.value.fact == "value[1].name was refused by Line (string_type)"
    assert "hunter2" not in "".join(traceback.format_exception(caught.value))


class Picky(BaseModel):
    rows: list[int]

    @pydantic.model_validator(mode="before")
    @classmethod
    def fail(cls, data: Any) -> Any:
        if data == {"rows": []}:
            raise RuntimeError(data)
        return data


def test_a_model_may_refuse_in_other_ways() -> None:
    def fact(text: bytes) -> str:
        with pytest.raises(Undecodable) as caught:
            decode(Payload("json", text), Picky)
        return caught.value.fact

    assert fact(b'{"rows": []}') == "value was refused by Picky (RuntimeError)"
    assert fact(b'{"rows": [1, "x"]}') == "value.rows[1] was refused by Picky (int_parsing)"


def test_sets_in_a_model_are_stored_in_one_order() -> None:
    class Deep(BaseModel):
        groups: list[dict[str, set[frozenset[str]]]]

    def fill(words: list[str]) -> Deep:
        return Deep(groups=[{"a": {frozenset(words), frozenset(words[:3])}}])

    words = [f"word {n}" for n in range(20)]

    assert encode(fill(words), annotation=Deep) == encode(
        fill(words[:3] + words[:2:-1]), annotation=Deep
    )


def test_a_pydantic_dataclass_is_a_dataclass() -> None:
    @pydantic.dataclasses.dataclass
    class Point:
        x: int

    assert decode(encode(Point(1), annotation=Point), Point) == Point(1)


def test_a_model_as_an_argument() -> None:
    def ship(order: Order, *, by: Line | None = None) -> Order:
        return order

    shape = signature_of(ship)
    order = Order(when=NOON, lines=[])

    assert shape.decode(shape.encode((order,), {"by": Line(name="a")})) == (
        (order,),
        {"by": Line(name="a")},
    )


def test_nothing_of_the_users_is_imported_before_it_is_used() -> None:
    script = (
        "import sys, onward.codec\nprint(sorted({'pydantic', 'attr', 'attrs'} & set(sys.modules)))"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert done.stdout.strip() == "[]"
