"""Errors cross the wire and arrive as the same types."""

import inspect
from dataclasses import fields, is_dataclass
from typing import Any

import pytest

from onward import errors
from onward.engine.abbreviation import Unclear
from onward.errors import InvariantBroken, OnwardError, Unavailable
from onward.wire.messages import messages
from onward.wire.problems import from_json, to_error, to_json_problem, to_problem

ALL: list[Any] = [kind for _, kind in inspect.getmembers(errors, inspect.isclass)]
OURS = [kind for kind in (*ALL, Unclear) if issubclass(kind, OnwardError) and is_dataclass(kind)]


def an_error(kind: Any) -> OnwardError:
    """Return an error with a value of the right type in each field."""
    values: dict[str, Any] = {"str": "text", "int": 7, "bool": True, "str | None": None}
    given = {}
    for field in fields(kind):
        hint = str(field.type)
        if hint in values:
            given[field.name] = values[hint]
        elif "list" in hint or "tuple" in hint or "Sequence" in hint:
            given[field.name] = ["a", "b"]
        elif "dict" in hint or "Mapping" in hint:
            given[field.name] = {"a": "b"}
    made: OnwardError = kind(**given)
    return made


@pytest.mark.parametrize("kind", OURS)
def test_every_error_of_ours_arrives_as_the_same_type_with_the_same_text(kind: Any) -> None:
    error = an_error(kind)
    arrived = to_error(messages.Problem.FromString(to_problem(error).SerializeToString()))
    assert type(arrived) is kind
    assert str(arrived) == str(error)


@pytest.mark.parametrize("kind", OURS)
def test_every_error_of_ours_arrives_in_json_too(kind: Any) -> None:
    arrived = from_json(to_json_problem(an_error(kind)))
    assert type(arrived) is kind


@pytest.mark.parametrize("error", [TimeoutError("late"), ValueError("bad"), LookupError("none")])
def test_a_built_in_error_that_interfaces_name_arrives_as_it_was(error: Exception) -> None:
    arrived = to_error(to_problem(error))
    assert type(arrived) is type(error)
    assert str(arrived) == str(error)


def test_an_unexpected_error_is_not_quoted() -> None:
    problem = to_problem(ZeroDivisionError("secret"))
    assert problem.code == "internal"
    assert "secret" not in str(problem)
    assert isinstance(to_error(problem), InvariantBroken)


def test_an_error_that_this_version_does_not_know_becomes_the_nearest() -> None:
    passing = messages.Problem(code="overloaded", message="too busy", is_retryable=True)
    assert isinstance(to_error(passing), Unavailable)
    lasting = messages.Problem(code="forbidden_moon", message="not today")
    assert isinstance(to_error(lasting), InvariantBroken)


def test_an_error_with_fields_of_a_newer_version_becomes_the_nearest() -> None:
    problem = messages.Problem(code="not_found", message="gone", fields=b'{"planet": "x"}')
    assert "gone" in str(to_error(problem))
