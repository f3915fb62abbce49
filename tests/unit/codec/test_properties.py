"""Whatever encodes, decodes equal; whatever does not, is refused with a typed error."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import GenericAlias
from typing import TYPE_CHECKING, Any, Union
from uuid import UUID

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from onward.codec import (
    Payload,
    decode,
    decode_error,
    encode,
    encode_error,
    fingerprint,
    signature_of,
)
from onward.errors import UserError
from tests.unit.codec.exactness import exact

if TYPE_CHECKING:
    from collections.abc import Callable

examples = settings(deadline=None, max_examples=100)


class Colour(Enum):
    RED = "red"
    BLUE = 2


@dataclass
class Point:
    x: int
    y: float


@dataclass
class Order:
    id: UUID
    when: datetime | None
    lines: list[Point]
    by: dict[int, tuple[Decimal, ...]]
    tags: frozenset[str] = frozenset()
    either: Point | str | timedelta | None = None
    rest: dict[str, Any] = field(default_factory=dict)


texts = st.text()  # hypothesis leaves surrogates out of it unless asked
ints = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    st.none() | st.booleans() | ints | floats | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=20,
)
moments = st.datetimes() | st.datetimes(timezones=st.timezones())
durations = st.timedeltas()
decimals = st.decimals(allow_nan=False, allow_infinity=False)
points = st.builds(Point, ints, floats)
orders = st.builds(
    Order,
    st.uuids(),
    st.none() | moments,
    st.lists(points, max_size=3),
    st.dictionaries(ints, st.lists(decimals, max_size=2).map(tuple), max_size=3),
    st.frozensets(texts, max_size=3),
    st.none() | points | texts | durations,
    st.dictionaries(texts, plain, max_size=3),
)

Typed = tuple[Any, st.SearchStrategy[Any]]

LEAVES: list[Typed] = [
    (None, st.none()),
    (bool, st.booleans()),
    (int, ints),
    (float, floats),
    (str, texts),
    (bytes, st.binary()),
    (datetime, moments),
    (date, st.dates()),
    (time, st.times()),
    (timedelta, durations),
    (Decimal, decimals),
    (UUID, st.uuids()),
    (Colour, st.sampled_from(Colour)),
    (Point, points),
    (Any, plain),
]
HASHED = [leaf for leaf in LEAVES if leaf[0] not in (Point, Any)]


def wrapping(inner: st.SearchStrategy[Typed]) -> st.SearchStrategy[Typed]:
    """Return annotations one level deeper, each with the values that it takes."""

    def listed(kind: type) -> Callable[[Typed], Typed]:
        more = (...,) if kind is tuple else ()
        return lambda item: (
            GenericAlias(kind, (item[0], *more)),
            st.lists(item[1], max_size=3).map(kind),
        )

    keys = st.sampled_from(HASHED)
    return (
        inner.map(listed(list))
        | inner.map(listed(tuple))
        | keys.map(listed(set))
        | st.lists(inner, max_size=3).map(
            lambda items: (
                GenericAlias(tuple, tuple(item[0] for item in items)),
                st.tuples(*(item[1] for item in items)),
            )
        )
        | st.tuples(keys, inner).map(
            lambda pair: (
                GenericAlias(dict, (pair[0][0], pair[1][0])),
                st.dictionaries(pair[0][1], pair[1][1], max_size=3),
            )
        )
        | st.lists(inner, min_size=2, max_size=3).map(
            lambda items: (
                Union[tuple(item[0] for item in items)],  # noqa: UP007 - known at run time
                st.one_of(*(item[1] for item in items)),
            )
        )
    )


typed = st.recursive(st.sampled_from(LEAVES), wrapping, max_leaves=6)


@st.composite
def annotated_values(draw: st.DrawFn) -> tuple[Any, Any]:
    annotation, values = draw(typed)
    return annotation, draw(values)


def has_fold(value: Any) -> bool:
    """Return whether a naive moment with fold=1, which is refused on purpose, is in the value."""
    if isinstance(value, dict):
        return any(map(has_fold, [*value, *value.values()]))
    if isinstance(value, list | tuple | set | frozenset):
        return any(map(has_fold, value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return any(has_fold(getattr(value, f.name)) for f in dataclasses.fields(value))
    return isinstance(value, datetime | time) and bool(value.fold) and value.tzinfo is None


@examples
@given(plain)
def test_plain_data_comes_back(value: Any) -> None:
    assert exact(decode(encode(value))) == exact(value)


@examples
@given(orders)
def test_a_dataclass_comes_back(order: Order) -> None:
    assume(not has_fold(order))

    assert exact(decode(encode(order, annotation=Order), Order)) == exact(order)


@examples
@given(annotated_values())
def test_a_value_of_any_annotation_comes_back(case: tuple[Any, Any]) -> None:
    annotation, value = case
    assume(not has_fold(value))

    back = decode(encode(value, annotation=annotation), annotation)

    assert exact(back) == exact(value)


anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(exclude_categories=()))
    | st.binary()
    | moments
    | st.decimals()
    | st.uuids()
    | st.sampled_from([object(), len, int, Colour.RED, ..., NotImplemented]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts | ints, inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
    ),
    max_leaves=10,
)


@examples
@given(anything, typed)
def test_what_does_not_come_back_is_refused(value: Any, case: Typed) -> None:
    for annotation in (Any, case[0]):
        try:
            payload = encode(value, annotation=annotation)
        except UserError:
            continue
        assert exact(decode(payload, annotation)) == exact(value)


@examples
@given(plain | st.dictionaries(st.sampled_from(["$", "of", "x", "id"]), plain), typed)
def test_stored_data_is_read_or_refused_with_a_typed_error(data: Any, case: Typed) -> None:
    for annotation in (case[0], Order):
        try:
            value = decode(encode(data), annotation)
        except UserError:
            continue
        # What can be read can be written, and is then the same.
        again = decode(encode(value, annotation=annotation), annotation)
        assert exact(again) == exact(value)


@examples
@given(st.binary())
def test_any_bytes_are_read_or_refused_with_a_typed_error(data: bytes) -> None:
    for read in (decode, decode_error, fingerprint):
        try:
            read(Payload("json", data))
        except UserError:
            continue


def call(a: Any, b: int = 0, *rest: float, c: str = "", **more: Any) -> None: ...


@examples
@given(plain, st.lists(floats, max_size=2), texts, st.dictionaries(texts, plain, max_size=2))
def test_arguments_come_back(a: Any, rest: list[float], c: str, more: dict[str, Any]) -> None:
    assume(not more.keys() & {"a", "b", "c"})
    shape = signature_of(call)
    args, kwargs = (a, 1, *rest), {"c": c, **more}

    assert exact(shape.decode(shape.encode(args, kwargs))) == exact((args, kwargs))


@examples
@given(st.dictionaries(texts, plain, max_size=5), st.randoms())
def test_a_fingerprint_does_not_see_the_order_of_keys(value: dict[str, Any], random: Any) -> None:
    items = list(value.items())
    random.shuffle(items)

    assert fingerprint(encode(dict(items))) == fingerprint(encode(value))


@examples
@given(plain, plain)
def test_fingerprints_differ_when_data_differs(one: Any, other: Any) -> None:
    same = fingerprint(encode(one)) == fingerprint(encode(other))

    assert same == (encode(one).data == encode(other).data) or one == other


@examples
@given(anything, st.lists(st.text(st.characters(exclude_categories=())), max_size=3))
def test_any_exception_is_stored(arg: Any, notes: list[str]) -> None:
    error = ValueError(arg)
    for note in notes:
        error.add_note(note)
    payload = encode_error(error)

    back = decode_error(payload)

    assert encode_error(back) == payload
