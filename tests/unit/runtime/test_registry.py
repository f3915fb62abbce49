"""Names that several functions share: a worker runs none of them until one is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from onward.codec import signature_of
from onward.errors import BadInput
from onward.runtime.definition import StepDefinition, WorkflowDefinition
from onward.runtime.registry import Registry, define

if TYPE_CHECKING:
    from collections.abc import Callable


async def one() -> str:
    return "one"


async def other() -> str:
    return "other"


def a_workflow(fn: Callable[..., Any], name: str = "w") -> WorkflowDefinition:
    return WorkflowDefinition(name, fn, signature_of(fn))


def a_step(fn: Callable[..., Any], name: str = "s") -> StepDefinition:
    return StepDefinition(name, fn, signature_of(fn), is_async=True)


def test_a_name_that_two_workflows_share_is_not_taken() -> None:
    registry = Registry([a_workflow(one), a_workflow(other), a_workflow(one, "clear")])
    assert registry.names == ("clear", "map clear")
    places = registry.unclear["w"]
    assert f"{__name__}.one (test_registry.py:" in places
    assert f" and {__name__}.other (test_registry.py:" in places


def test_a_name_is_taken_when_one_of_its_workflows_is_started() -> None:
    registry = Registry([a_workflow(one), a_workflow(other)])
    registry.check_start("w", other)
    assert registry.names == ("map w", "w")
    assert registry.workflows["w"].fn is other
    assert registry.unclear == {}


def test_the_other_workflow_of_a_name_is_refused_after_that() -> None:
    registry = Registry([a_workflow(one), a_workflow(other)])
    registry.check_start("w", other)
    with pytest.raises(BadInput, match="the workflow name 'w' is used by"):
        registry.check_start("w", one)


def test_the_names_are_the_same_object_until_one_becomes_clear() -> None:
    registry = Registry([a_workflow(one), a_workflow(other), a_workflow(one, "clear")])
    before = registry.names
    assert registry.names is before
    registry.check_start("w", one)
    assert registry.names == ("clear", "map clear", "map w", "w")


def test_the_function_that_a_body_calls_is_what_the_name_means() -> None:
    registry = Registry([], [a_step(one, "called"), a_step(other, "called")])
    assert "called" not in registry.steps
    registry.check("step", "called", other)
    assert registry.names == ("map called", "step called")
    assert registry.steps["called"].fn is other
    with pytest.raises(BadInput, match="the step name 'called' is used by"):
        registry.check("step", "called", one)


def test_a_name_that_is_not_fixed_means_what_the_process_used_last() -> None:
    first, second = (
        Registry([], [a_step(one, "shared"), a_step(other, "shared")]) for _ in range(2)
    )
    first.check("step", "shared", one)
    assert second.names == ("map shared", "step shared")
    assert second.steps["shared"].fn is one
    second.check("step", "shared", other)
    assert (first.steps["shared"].fn, second.steps["shared"].fn) == (one, other)


def test_two_workflows_of_a_name_in_a_list_are_refused() -> None:
    with pytest.raises(BadInput, match="the workflow name 'w' is used by"):
        Registry([a_workflow(one), a_workflow(other)], is_list=True)


def test_a_function_that_is_listed_twice_is_one() -> None:
    registry = Registry([a_workflow(one), a_workflow(one)], is_list=True)
    assert registry.workflows["w"].fn is one


def test_a_function_that_is_defined_again_replaces_the_earlier_one() -> None:
    def made(answer: int) -> Callable[..., Any]:
        async def local() -> int:
            return answer

        return local

    table: dict[str, list[WorkflowDefinition]] = {}
    definitions = [a_workflow(made(1)), a_workflow(one), a_workflow(made(2))]
    for each in definitions:
        define(table, each)
    assert table == {"w": definitions[1:]}
