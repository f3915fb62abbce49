"""Why a value cannot be stored or read back, with the place where it happens.

The walk itself keeps no path, because nearly every value is fine. When one is not, the innermost
shape raises, and every container on the way out adds its own step. What users gave is never part
of the text: only types, field names, positions and keys that look like field names. Nor is it in
a cause: foreign errors quote what they could not read, so they are named and cut off.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Final

MAX_DEPTH: Final = 64
MAX_STEPS_SHOWN: Final = 12
MAX_KEY_CHARS: Final = 40
NO_SECRETS: Final = (
    "Onward does not store secrets, because arguments and results are stored as plain text. Pass "
    "the name of the secret, and read the secret in the step that needs it."
)


class _Located(Exception):  # never leaves this package
    """Something wrong at a place that becomes known while the walk unwinds."""

    def __init__(self, fact: str) -> None:
        super().__init__(fact)
        self.fact = fact
        self.steps: list[str] = []

    def place(self, start: str) -> str:
        """Return where it happened, as an expression that begins with `start`."""
        steps = self.steps[::-1]
        if len(steps) > MAX_STEPS_SHOWN:
            steps = [*steps[: MAX_STEPS_SHOWN - 4], "…", *steps[-4:]]
        return start + "".join(steps)


class ValueRefused(_Located):
    """A value cannot be stored without loss or change."""

    def __init__(self, fact: str, advice: str) -> None:
        super().__init__(fact)
        self.advice = advice

    def under(self, step: str, container: object) -> ValueRefused:
        """Add the step that led here from `container`, and return the same exception."""
        del container
        self.steps.append(step)
        return self


class TooDeep(ValueRefused):
    """Nesting without a reasonable end; a cycle looks the same until the containers are known."""

    def __init__(self) -> None:
        super().__init__(
            f"is nested more than {MAX_DEPTH} levels deep",
            "Flatten it, or keep the data elsewhere and pass a reference to it.",
        )
        self._containers: set[int] = set()

    def under(self, step: str, container: object) -> ValueRefused:
        """Add the step, and call it a cycle if `container` was on the way before."""
        if id(container) in self._containers:
            self.fact = "contains itself"
            self.advice = "Break the cycle: refer to the other object by an id."
        self._containers.add(id(container))
        return super().under(step, container)


class Misfit(_Located):
    """Stored data that the annotation does not take."""

    def under(self, step: str) -> Misfit:
        """Add the step that led here, and return the same exception."""
        self.steps.append(step)
        return self


def key_step(key: object, position: int) -> str:
    """Return the step to an item of a dict: its key if it reads like a field name."""
    if type(key) is str and key.isidentifier() and len(key) <= MAX_KEY_CHARS and key.isascii():
        return f".{key}"
    return f"[key {position}]"


def a_value(value: object) -> str:
    """Return what a value is, without showing it: `None`, `an int`, `a datetime`."""
    return "None" if value is None else with_article(type(value).__name__)


def with_article(noun: str) -> str:
    """Return the noun with `a` or `an`; a `UUID` and a `User` begin with a consonant."""
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun[:80]}"


def mismatch(value: object, annotation: str) -> ValueRefused:
    """Return the refusal of a value that is not what its annotation says."""
    return not_awaited(value) or ValueRefused(
        f"is {a_value(value)}, but its annotation is {annotation}",
        "Pass exactly what the annotation says, or change the annotation.",
    )


def not_awaited(value: object) -> ValueRefused | None:
    """Return the refusal of a coroutine: in nearly every case `await` was forgotten."""
    if not isinstance(value, Coroutine):
        return None
    return ValueRefused("is a coroutine, not its result", "Put await before the call.")


def not_of_class(value: object, kind: type, annotation: str) -> ValueRefused:
    """Return the refusal of a value that is no instance of a class, or one of a subclass."""
    if not isinstance(value, kind):
        return mismatch(value, annotation)
    name = type(value).__name__
    return ValueRefused(
        f"is {a_value(value)}, but its annotation is the base class {annotation}",
        f"Annotate it with {annotation} | {name}, or pass {with_article(annotation)}.",
    )


_JSON_NAMES: Final[dict[type, str]] = {
    str: "text",
    int: "a number",
    float: "a number",
    bool: "a boolean",
    type(None): "null",
    list: "a list",
    dict: "an object",
}


def misfit(data: Any, wanted: str) -> Misfit:
    """Return the complaint about stored data of another kind than `wanted`."""
    what = wanted if wanted == "None" else with_article(wanted)
    return Misfit(f"is {_JSON_NAMES[type(data)]}, not {what}")
