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
        advice = f"""JSON is wanted; text goes in quotes of its own: {option} '"text"'."""
        raise click.BadParameter(f"{error}. {advice}", param_hint=option) from None
