"""A union stores which member a value was, where JSON alone cannot tell, and never guesses."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from types import SimpleNamespace
from typing import Any, Literal, NewType
from uuid import UUID

import msgspec
import pytest
from typing_extensions import TypeAliasType

from onward.codec import Payload, decode, encode
from onward.errors import Undecodable, Unencodable


@dataclass
class Circle:
    size: int


@dataclass
class Square:
    size: int


@dataclass
class Line:
    start: int
    end: int


class Cat(msgspec.Struct, tag="cat"):
    name: str


class Dog(msgspec.Struct, tag=7):
    name: str


Moment = NewType("Moment", datetime)
NOON = datetime(2026, 3, 1, 12)  # noqa: DTZ001 - naive moments are values like others


def stored(text: str) -> Payload:
    return Payload("json", text.encode())


@pytest.mark.parametrize(
    ("value", "annotation", "text"),
    [
        (NOON, datetime | None, '"2026-03-01T12:00:00"'),
        (None, datetime | None, "null"),
        ("a", str | int | float | bool | None, '"a"'),
        (Circle(1), Circle | str, '{"size":1}'),
        (NOON, datetime | Moment, '"2026-03-01T12:00:00"'),
        ([1], list[int] | dict[str, int], "[1]"),
        (NOON, datetime | type, '"2026-03-01T12:00:00"'),
        (["a"], Any | None, '["a"]'),
        (None, Any | None, "null"),
        ("a", Any | int | Literal["a"], '"a"'),
        ("a", Literal["a"] | str, '"a"'),  # noqa: PYI051 - users write it
        ("b", Literal["a"] | str | None, '"b"'),  # noqa: PYI051
        ("a", Literal["a"] | int, '"a"'),
    ],
)
def test_members_that_json_tells_apart_are_stored_as_they_are(
    value: Any, annotation: Any, text: str
) -> None:
    assert encode(value, annotation=annotation).data.decode() == text


@pytest.mark.parametrize(
    ("value", "annotation", "text"),
    [
        (NOON, datetime | str, '{"$":"datetime","of":"2026-03-01T12:00:00"}'),
        ("a", datetime | str, '{"$":"plain","of":"a"}'),
        (1, datetime | str | int, "1"),
        (Circle(1), Circle | Square, '{"$":"Circle","of":{"size":1}}'),
        (Circle(1), datetime | str | Circle, '{"$":"Circle","of":{"size":1}}'),
        (Cat("Tom"), Cat | Dog, '{"$":"cat","of":{"name":"Tom"}}'),
        (Dog("Rex"), Cat | Dog, '{"$":"Dog","of":{"name":"Rex"}}'),
        ([NOON], list[datetime] | list[str], '{"$":"list[datetime]","of":["2026-03-01T12:00:00"]}'),
    ],
)
def test_members_that_json_confuses_are_stored_by_name(
    value: Any, annotation: Any, text: str
) -> None:
    assert encode(value, annotation=annotation).data.decode() == text


def test_the_order_of_members_does_not_matter() -> None:
    one, other = list[int] | list[str], list[str] | list[int]

    assert encode(["a"], annotation=one) == encode(["a"], annotation=other)


def test_what_was_stored_before_the_annotation_was_widened_is_read_if_only_one_member_fits() -> (
    None
):
    assert decode(encode(Line(1, 2), annotation=Line), Line | Circle) == Line(1, 2)
    assert decode(encode("hello", annotation=str), str | datetime) == "hello"


def test_what_was_stored_before_the_annotation_was_widened_is_never_guessed() -> None:
    with pytest.raises(Undecodable, match=r"matches several members of Circle \| Square"):
        decode(encode(Square(1), annotation=Square), Circle | Square)
    with pytest.raises(Undecodable, match="matches several members"):
        decode(encode(NOON, annotation=datetime), datetime | str)


def test_data_that_no_member_takes_is_refused() -> None:
    with pytest.raises(Undecodable, match=r"value is text, not a UUID \| date"):
        decode(stored('"hello"'), date | UUID)


@pytest.mark.parametrize("label", ['"Triangle"', "[]", "1"])
def test_a_member_that_the_union_does_not_have_is_refused(label: str) -> None:
    with pytest.raises(Undecodable, match=r"has a type that Circle \| Square does not contain"):
        decode(stored(f'{{"$": {label}, "of": {{"size": 1}}}}'), Circle | Square)


def test_two_members_of_one_name_are_refused() -> None:
    def twin() -> type:
        @dataclass
        class Twin:
            x: int

        return Twin

    first, second = twin(), twin()

    with pytest.raises(Unencodable, match="which has two members with the same name"):
        encode(first(1), annotation=first | second)


def test_a_union_of_what_cannot_be_stored_cannot_be_stored() -> None:
    with pytest.raises(Unencodable, match="which has no known JSON form"):
        encode(SimpleNamespace(), annotation=SimpleNamespace | type)


Nest = TypeAliasType("Nest", "list[Nest | None]")


@pytest.mark.parametrize("value", [[], [None], [[None, []], None]])
def test_an_alias_may_name_itself_in_a_union(value: Any) -> None:
    assert decode(encode(value, annotation=Nest), Nest) == value
