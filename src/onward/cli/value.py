"""Values as people write them on a command line."""

from __future__ import annotations

import json
from typing import Any

import click


def from_json(option: str, text: str) -> Any:
    """Return the value that an option holds.

    Raises:
        click.BadParameter: it is no JSON.
    """
    try:
        return json.loads(text)
    except ValueError as error:
        advice = f"""expected JSON; put text in double quotes: {option} '"text"'."""
        raise click.BadParameter(f"{error}. {advice}", param_hint=option) from None


def read_value(text: str) -> Any:
    """Return the value of a text: what it is as JSON, or else the text itself."""
    return readings(text)[-1]


def kind_of(value: Any) -> str:
    """Return what JSON calls such a value."""
    match value:
        case None | bool():
            return json.dumps(value)
        case int() | float():
            return f"the number {json.dumps(value)}"
        case str():
            return f"the text {json.dumps(value, ensure_ascii=False)}"
    return json.dumps(value, ensure_ascii=False)


def readings(text: str) -> tuple[Any, ...]:
    """Return the values that a text may stand for: itself, and what it is as JSON."""
    try:
        return (text, json.loads(text, parse_constant=_no_json))
    except ValueError:
        return (text,)


def _no_json(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def named(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> Any:
    """Return the values of an option that is given as NAME=VALUE, by name."""
    pairs = [text.partition("=") for text in given]
    for name, sign, _ in pairs:
        if not (name and sign):
            raise click.BadParameter(
                f"{name!r} is not a pair. Write NAME=VALUE, such as customer=42.",
                context,
                parameter,
            )
    return {name: readings(text) for name, _, text in pairs}
