"""Names that several functions have: none is meant before one of them is used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from onward.codec import signature_of
from onward.errors import BadInput
from onward.runtime.definition import StepDefinition, WorkflowDefinition
from onward.runtime.registry import Names, Registry

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


def test_a_name_that_two_workflows_have_is_not_taken() -> None:
    registry = Registry([a_workflow(one), a_workflow(other), a_workflow(one, "clear")])
    assert registry.names == ("clear", "map clear")
    assert registry.unclear == {"w": f"{__name__}.one and {__name__}.other"}


def test_a_name_is_taken_when_one_of_its_workflows_is_used() -> None:
    registry = Registry([a_workflow(one), a_workflow(other)])
    registry.choose("workflow", "w", other)
    assert registry.names == ("map w", "w")
    assert registry.workflows["w"].fn is other
    assert registry.unclear == {}


def test_the_other_workflow_of_a_name_is_refused_then() -> None:
    registry = Registry([a_workflow(one), a_workflow(other)])
    registry.choose("workflow", "w", other)
    with pytest.raises(BadInput, match="the workflow name 'w' is used by"):
        registry.choose("workflow", "w", one)


def test_what_a_body_calls_is_what_the_name_means() -> None:
    registry = Registry([], [a_step(one), a_step(other)])
    assert "s" not in registry.steps
    names = Names(registry)
    names.check("step", "s", other)
    assert registry.names == ("map s", "step s")
    assert registry.steps["s"].fn is other
    with pytest.raises(BadInput, match="the step name 's' is used by"):
        names.check("step", "s", one)


def test_who_is_given_two_workflows_of_a_name_refuses_them() -> None:
    with pytest.raises(BadInput, match="the workflow name 'w' is used by"):
        Registry([a_workflow(one), a_workflow(other)]).check_clear()


def test_a_function_that_is_registered_twice_is_one() -> None:
    registry = Registry([a_workflow(one), a_workflow(one)])
    registry.check_clear()
    assert registry.workflows["w"].fn is one
