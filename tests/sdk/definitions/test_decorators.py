"""What can be a workflow, a step or an effect, and which options are refused where they stand."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, effect, step, workflow
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


async def add(first: int, second: int) -> int:
    return first + second


async def count(most: int) -> AsyncIterator[int]:
    for number in range(most):
        yield number


def count_plainly(most: int) -> Iterator[int]:
    yield from range(most)


KINDS = pytest.mark.parametrize("kind", [step, workflow, effect])


@KINDS
@pytest.mark.parametrize("fn", [count, count_plainly])
def test_what_yields_is_refused(kind: Callable[..., Any], fn: Callable[..., Any]) -> None:
    with pytest.raises(BadInput, match=r"'count\w*' is a generator.* Return a list"):
        kind(fn)


@KINDS
def test_what_has_no_name_is_asked_for_one(kind: Callable[..., Any]) -> None:
    with pytest.raises(BadInput, match=r"made from a partial has no name.*name="):
        kind(partial(add, 1))


@KINDS
def test_what_cannot_be_called_is_refused(kind: Callable[..., Any]) -> None:
    with pytest.raises(BadInput, match=r"given 3, .* Decorate a function"):
        kind(3)


async def test_a_partial_with_a_name_is_a_step() -> None:
    assert await step(name="add one")(partial(add, 1))(2) == 3


def test_a_method_cannot_be_a_workflow() -> None:
    with pytest.raises(BadInput, match=r"'serve' is a method of Cafe.* steps may be methods"):

        class Cafe:
            @workflow
            async def serve(self) -> None: ...


async def test_a_workflow_may_stand_in_a_class_without_belonging_to_an_object() -> None:
    class Cafe:
        @staticmethod
        @workflow
        async def serve(what: str) -> str:
            return what

    assert await Cafe().serve("tea") == "tea"


@workflow
async def nothing() -> None: ...


def test_a_run_starts_at_one_time() -> None:
    later = nothing.options(delay="1h")
    with pytest.raises(BadInput, match="Pass one of them"):
        later.options(at=datetime.now(UTC))


@pytest.mark.parametrize("priority", ["high", 1.5, True])
async def test_a_priority_is_a_whole_number(priority: Any) -> None:
    async with App(":memory:") as app:
        with pytest.raises(BadInput, match="is not a whole number"):
            await app.start(nothing.options(priority=priority))


@pytest.mark.parametrize(
    "declare",
    [
        lambda: step(timeout=0)(add),
        lambda: step(add).options(timeout="0s"),
        lambda: effect(timeout=0)(add),
        lambda: effect(add).options(timeout=0),
    ],
)
def test_no_time_at_all_is_no_time_limit(declare: Callable[[], object]) -> None:
    with pytest.raises(BadInput, match=r"timeout=.* leaves no time"):
        declare()


def test_a_key_is_refused_for_a_database() -> None:
    App(":memory:", key=None)
    with pytest.raises(BadInput, match="key= applies to onward:// servers"):
        App(":memory:", key="secret")
