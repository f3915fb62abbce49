"""Code, open things and objects without a known shape are refused."""

from __future__ import annotations

import asyncio
import io
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass
from fractions import Fraction
from pathlib import PurePosixPath
from types import GenericAlias
from typing import Any, Literal, Protocol

import msgspec
import pytest

from onward.codec import encode
from onward.errors import Unencodable


@dataclass
class Point:
    x: int


@dataclass
class Initialised:
    x: int
    seed: InitVar[int]


@dataclass
class BareInitialised:
    x: int
    seed: InitVar  # type: ignore[type-arg]


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


async def coroutine() -> None: ...


def things() -> dict[str, Any]:
    return {
        "lambda": lambda: None,
        "function": numbers,
        "built-in": len,
        "method": [].append,
        "generator": numbers(),
        "module": sys,
        "type": Point,
        "file": io.BytesIO(),
    }


@pytest.mark.parametrize("name", list(things()))
@pytest.mark.parametrize("annotation", [Any, Callable[[], None], Point | None, Speaker])
def test_code_and_open_things_are_refused(name: str, annotation: Any) -> None:
    refused = refusal(
        {"do": [things()[name]]}, GenericAlias(dict, (str, GenericAlias(list, (annotation,))))
    )

    assert refused.path == "value.do[0]"
    assert (
        "open resources cannot be stored" in refused.fact
        or "its annotation is Point" in refused.fact
    )


@pytest.mark.parametrize("annotation", [Any, int, Callable[[], None], Point | None, Speaker])
def test_a_coroutine_is_refused_with_what_was_forgotten(annotation: Any) -> None:
    forgotten = coroutine()
    forgotten.close()
    refused = refusal(forgotten, annotation)
    assert str(refused) == "value is a coroutine, not its result. Put await before the call."


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
    assert "no known JSON form" in refusal(value).fact
    assert "no known JSON form" in refusal(value, type(value)).fact


@pytest.mark.parametrize(
    "annotation",
    [
        Speaker,
        Callable[[], int],
        type,
        PurePosixPath,
        deque[int],
        Rows,
        Literal[()],
        Literal[[]],
        5,
    ],
    ids=str,
)
def test_an_annotation_without_a_known_shape_refuses_even_plain_data(annotation: Any) -> None:
    assert "no known JSON form" in refusal(1, annotation).fact


def test_a_class_that_needs_what_it_does_not_keep_is_refused() -> None:
    assert "InitVar" in refusal(Initialised(1, 2), Initialised).fact
    assert "InitVar" in refusal(BareInitialised(1, 2), BareInitialised).fact
