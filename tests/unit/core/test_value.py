"""Values: frozen, with slots, equal by type and fields; and structs, which may be changed."""

from __future__ import annotations

import copy
import pickle
from typing import Generic, TypeVar

import pytest

from onward.core.value import Struct, Value, changed

T = TypeVar("T")


class Point(Value):
    x: int
    y: int = 0


class Other(Value):
    x: int
    y: int = 0


class Nothing(Value):
    """A value without fields."""


class Boxed(Value, Generic[T]):
    content: T


class Even(Value):
    number: int

    def __post_init__(self) -> None:
        if self.number % 2:
            raise ValueError(self.number)


class Counter(Struct):
    name: str
    count: int = 0


def test_a_value_is_made_by_position_or_by_name_and_has_defaults() -> None:
    assert (Point(1).x, Point(1).y) == (1, 0)
    assert Point(1, 2) == Point(y=2, x=1)


def test_values_are_equal_by_type_and_fields() -> None:
    assert Point(1) == Point(1, 0)
    assert Point(1) != Point(2)
    assert Point(1) != Other(1)
    assert Point(1) != (1, 0)
    assert Nothing() == Nothing()


def test_equal_values_hash_alike() -> None:
    assert len({Point(1), Point(1, 0), Point(2), Other(1), Nothing(), Nothing()}) == 4


def test_a_value_shows_its_fields() -> None:
    assert repr(Point(1)) == "Point(x=1, y=0)"
    assert repr(Nothing()) == "Nothing()"


def test_a_value_cannot_be_changed() -> None:
    point = Point(1)

    with pytest.raises(AttributeError, match="immutable"):
        point.x = 2  # type: ignore[misc]  # what must fail
    with pytest.raises(AttributeError, match="immutable"):
        del point.x
    with pytest.raises(AttributeError, match="immutable"):
        point.z = 2  # type: ignore[attr-defined]  # what must fail
    assert point == Point(1)
    assert not hasattr(point, "__dict__")


def test_a_changed_value_is_another_one() -> None:
    point = Point(1, 2)

    assert changed(point, y=3) == Point(1, 3)
    assert point == Point(1, 2)


def test_a_field_that_there_is_not_is_refused() -> None:
    with pytest.raises(TypeError, match="Unexpected keyword argument 'z'"):
        Point(1, z=2)  # type: ignore[call-arg]  # what must fail
    with pytest.raises(TypeError):
        changed(Point(1), z=2)  # type: ignore[call-arg]  # what must fail
    with pytest.raises(TypeError):
        Nothing(1)  # type: ignore[call-arg]  # what must fail


def test_a_value_is_matched_by_its_fields() -> None:
    match Point(1, 2):
        case Point(x, y=2):
            assert x == 1
        case _:
            pytest.fail("the fields are in order")


def test_a_value_may_be_generic() -> None:
    box: Boxed[int] = Boxed(3)

    assert box == Boxed(3)


def test_a_value_may_check_itself() -> None:
    assert Even(2).number == 2
    with pytest.raises(ValueError, match="3"):
        Even(3)


def test_a_value_survives_being_copied_and_sent_to_another_process() -> None:
    assert copy.deepcopy(Point(1, 2)) == Point(1, 2)
    assert pickle.loads(pickle.dumps(Point(1, 2))) == Point(1, 2)


def test_a_struct_can_be_changed_in_its_fields_alone() -> None:
    counter = Counter("a")

    counter.count = 2

    assert (counter.name, counter.count) == ("a", 2)
    with pytest.raises(AttributeError):
        counter.other = 1  # type: ignore[attr-defined]  # what must fail


def test_a_struct_equals_only_itself() -> None:
    counter = Counter("a")

    assert counter == counter
    assert counter != Counter("a")
    assert len({counter, Counter("a")}) == 2
