"""Shapes of dicts: with keys of one type, and with named keys (`TypedDict`).

A key must be text in JSON. Where the stored form of a key is always text, that is the key; any
other is written as JSON in the key, so `{1: …}` and `{(1, 2): …}` become `{"1": …}` and
`{"[1,2]": …}`, and two different keys never become one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from onward.codec import document
from onward.codec.shapes.refusal import (
    MAX_DEPTH,
    Misfit,
    TooDeep,
    ValueRefused,
    key_step,
    misfit,
    mismatch,
)
from onward.codec.shapes.shape import Kind, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

_OBJECT: Final = frozenset({Kind.OBJECT})
_TEXT: Final = frozenset({Kind.STRING})


class Dict(Shape):
    """A dict whose keys have one shape and whose values have one shape."""

    __slots__ = ("_item", "_key", "_text_keys")

    def __init__(self, name: str, key: Shape, item: Shape) -> None:
        super().__init__(name, _OBJECT, frozenset({dict}), label="dict")
        self._key = key
        self._item = item
        self._text_keys = key.kinds == _TEXT

    def lower(self, value: Any, depth: int) -> dict[str, Any]:
        """Return an object with keys made text."""
        if type(value) is not dict:
            raise mismatch(value, self.name)
        if depth >= MAX_DEPTH:
            raise TooDeep
        lower, depth = self._item.lower, depth + 1
        lowered: dict[str, Any] = {}
        for key, item in value.items():
            text = self._lower_key(key, value, depth)
            try:
                lowered[text] = lower(item, depth)
            except ValueRefused as refused:
                raise refused.under(key_step(key, len(lowered)), value) from None
        return lowered

    def _lower_key(self, key: Any, value: object, depth: int) -> str:
        try:
            lowered = self._key.lower(key, depth)
            return lowered if self._text_keys else document.write_sorted(lowered).decode()
        except ValueRefused as refused:
            raise refused.under("{key}", value) from None
        except UnicodeEncodeError:
            raise document.surrogate(lowered).under("{key}", value) from None

    def lift(self, data: Any) -> dict[Any, Any]:
        """Return the dict with its own keys."""
        if type(data) is not dict:
            raise misfit(data, self.name)
        lifted: dict[Any, Any] = {}
        for text, item in data.items():
            key = self._lift_key(text)
            try:
                lifted[key] = self._item.lift(item)
            except Misfit as wrong:
                raise wrong.under(key_step(text, len(lifted))) from None
        return lifted

    def _lift_key(self, text: str) -> Any:
        try:
            key = self._key.lift(text if self._text_keys else document.read(text))
            hash(key)
        except Misfit as wrong:
            raise wrong.under("{key}") from None
        except TypeError:
            raise Misfit("has a key that cannot be in a dict") from None
        return key


class NamedKeys(Shape):
    """A `TypedDict`: a plain dict with a shape for each of its keys."""

    __slots__ = ("_items", "_required")

    def __init__(self, name: str, required: frozenset[str]) -> None:
        super().__init__(name, _OBJECT, frozenset({dict}))
        self._required = required
        self._items: Mapping[str, Shape] = {}

    def fill(self, items: Mapping[str, Shape]) -> None:
        """Give the keys their shapes; apart from the start, so that a type may hold itself."""
        self._items = items

    def lower(self, value: Any, depth: int) -> dict[str, Any]:
        """Return an object with the same keys."""
        if type(value) is not dict:
            raise mismatch(value, self.name)
        if depth >= MAX_DEPTH:
            raise TooDeep
        self._check_keys(value)
        lowered: dict[str, Any] = {}
        for key, item in value.items():
            try:
                lowered[key] = self._items[key].lower(item, depth + 1)
            except ValueRefused as refused:
                raise refused.under(key_step(key, len(lowered)), value) from None
        return lowered

    def _check_keys(self, value: dict[Any, Any]) -> None:
        for name in sorted(self._required):
            if name not in value:
                raise ValueRefused(
                    f"lacks the key {name} of {self.name}", "Set it, or mark it NotRequired."
                )
        for key in value:
            if type(key) is not str or key not in self._items:
                raise ValueRefused(
                    f"has a key that {self.name} does not have", "Add the key to the annotation."
                )

    def lift(self, data: Any) -> dict[str, Any]:
        """Return the dict, without keys that the type no longer has."""
        if type(data) is not dict:
            raise misfit(data, self.name)
        lifted: dict[str, Any] = {}
        for key, item in data.items():
            shape = self._items.get(key)
            if shape is None:
                continue  # written by other code that knew more keys
            try:
                lifted[key] = shape.lift(item)
            except Misfit as wrong:
                raise wrong.under(f".{key}") from None
        for name in sorted(self._required):
            if name not in lifted:
                raise Misfit(f"lacks {name}")
        return lifted
