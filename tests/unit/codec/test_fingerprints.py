"""Equal arguments have equal fingerprints, in every process; different ones have not."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import pytest

from onward.codec import encode, fingerprint, signature_of
from onward.errors import Undecodable


@dataclass
class Options:
    names: set[str]
    sizes: dict[str, int]


def fn(
    a: int,
    b: float | bool | str = 2,
    *,
    c: Options | None = None,
    d: Any = None,
    e: tuple[int, ...] = (),
) -> None: ...


SHAPE = signature_of(fn)


def of(*args: Any, **kwargs: Any) -> str:
    return SHAPE.fingerprint(args, kwargs)


def test_it_is_128_bits_as_text() -> None:
    assert len(of(1)) == 32
    assert int(of(1), 16) >= 0


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (of(1, b=3), of(a=1, b=3)),
        (of(1, 3), of(b=3, a=1)),
        (of(1), of(1, 2)),
        (of(1), of(1, b=2, c=None, d=None, e=())),
        (of(1, d={"x": 1, "y": [2]}), of(1, d={"y": [2], "x": 1})),
        (
            of(1, c=Options({"a", "b"}, {"x": 1, "y": 2})),
            of(1, c=Options({"b", "a"}, {"y": 2, "x": 1})),
        ),
    ],
    ids=["keyword", "order", "default", "all defaults", "keys", "set"],
)
def test_the_spelling_of_a_call_does_not_matter(one: str, other: str) -> None:
    assert one == other


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (of(1), of(2)),
        (of(1), of(1, 3)),
        (of(1, 2), of(1, 2.0)),
        (of(1, 1), of(1, True)),
        (of(1, "1"), of(1, 1)),
        (of(1, d=[1, 2]), of(1, d=[2, 1])),
        (of(1, d={"x": None}), of(1, d={})),
        (of(1, d=[[]]), of(1, d=[])),
        (of(1, e=(1,)), of(1, e=(True,))),
    ],
)
def test_different_arguments_differ(one: str, other: str) -> None:
    assert one != other


def test_a_new_parameter_with_a_default_changes_nothing() -> None:
    def before(a: int) -> None: ...

    def after(a: int, b: int = 5) -> None: ...

    assert signature_of(before).fingerprint((1,), {}) == signature_of(after).fingerprint((1,), {})


def test_a_changed_default_changes_nothing_for_calls_that_left_it_out() -> None:
    def before(a: int, b: int = 5) -> None: ...

    def after(a: int, b: int = 6) -> None: ...

    assert signature_of(before).fingerprint((1,), {}) == signature_of(after).fingerprint((1,), {})


def test_a_default_that_cannot_be_stored_is_no_obstacle() -> None:
    def call(a: int = object()) -> None: ...  # type: ignore[assignment]

    shape = signature_of(call)

    assert shape.fingerprint((), {}) != shape.fingerprint((1,), {})


def test_a_default_equal_in_python_but_not_in_json_is_an_argument() -> None:
    def call(flags: list[int] = [1]) -> None: ...  # noqa: B006 - never mutated

    shape = signature_of(call)

    assert shape.fingerprint(([1],), {}) == shape.fingerprint((), {})
    assert shape.fingerprint(([True],), {}) != shape.fingerprint((), {})


def test_a_default_that_the_function_changes_stays_what_it_was() -> None:
    default: list[int] = []

    def call(rows: list[int] = default) -> None: ...

    shape = signature_of(call)
    before = shape.fingerprint(([1],), {})
    default.append(1)

    assert shape.fingerprint(([1],), {}) == before


def test_the_fingerprint_of_a_payload_ignores_the_order_of_keys() -> None:
    assert fingerprint(encode({"a": 1, "b": 2})) == fingerprint(encode({"b": 2, "a": 1}))
    assert fingerprint(encode([1, 2])) != fingerprint(encode([2, 1]))


def test_the_fingerprint_of_broken_bytes_is_an_error() -> None:
    with pytest.raises(Undecodable):
        fingerprint(type(encode(1))("json", b"{"))


SCRIPT = """
from dataclasses import dataclass
import pydantic
from onward.codec import encode, fingerprint, signature_of

class Model(pydantic.BaseModel):
    names: set[str]
    groups: set[frozenset[str]]

WORDS = [f"word {n}" for n in range(50)]

def fn(words: set[str], by: dict[tuple[str, int], frozenset[str]], model: Model) -> None: ...

by = {(word, 1): frozenset(WORDS) for word in set(WORDS)}
model = Model(names=set(WORDS), groups={frozenset(WORDS), frozenset(WORDS[:9])})
print(list(set(WORDS))[:5])
print(signature_of(fn).fingerprint((set(WORDS), by, model), {}))
print(fingerprint(encode({word: 1 for word in set(WORDS)})))
"""


def run_with(seed: str) -> list[str]:
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


def test_fingerprints_are_the_same_in_every_process() -> None:
    order, *prints = run_with("1")
    other_order, *other_prints = run_with("2")

    assert order != other_order, "the seeds made no difference, so nothing was tested"
    assert prints == other_prints
