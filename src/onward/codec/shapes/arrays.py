"""Shapes that are stored as lists: list, tuple, set, frozenset, and tuples of fixed length."""

from __future__ import annotations

from typing import Any, Final

from onward.codec import document
from onward.codec.shapes.refusal import (
    MAX_DEPTH,
    Misfit,
    TooDeep,
    ValueRefused,
    misfit,
    mismatch,
)
from onward.codec.shapes.shape import Kind, Shape
from onward.errors.root import count_text

_LIST: Final = frozenset({Kind.ARRAY})


class Array(Shape):
    """Any number of items of one shape, in a list or a tuple."""

    __slots__ = ("_item", "_kind")

    def __init__(self, name: str, kind: type[Any], item: Shape) -> None:
        super().__init__(name, _LIST, frozenset({kind}), label=kind.__name__)
        self._kind = kind
        self._item = item

    def lower(self, value: Any, depth: int) -> list[Any]:
        """Return the lowered items."""
        if type(value) is not self._kind:
            raise mismatch(value, self.name)
        if depth >= MAX_DEPTH:
            raise TooDeep
        lower, depth = self._item.lower, depth + 1
        lowered: list[Any] = []
        try:
            for item in value:
                lowered.append(lower(item, depth))  # noqa: PERF401 - its length is the place
        except ValueRefused as refused:
            raise refused.under(f"[{len(lowered)}]", value) from None
        return lowered

    def lift(self, data: Any) -> Any:
        """Return the items in a list or tuple."""
        if type(data) is not list:
            raise misfit(data, self.name)
        items = lift_items(self._item, data)
        return items if self._kind is list else self._kind(items)


def lift_items(shape: Shape, data: list[Any]) -> list[Any]:
    """Return what stood in a stored list, each item read by `shape`."""
    lifted: list[Any] = []
    try:
        for item in data:
            lifted.append(shape.lift(item))  # noqa: PERF401 - its length is the place
    except Misfit as wrong:
        raise wrong.under(f"[{len(lifted)}]") from None
    return lifted


class Unordered(Shape):
    """A set or frozenset: stored in the order of its encoded items, whatever the hash seed."""

    __slots__ = ("_item", "_kind")

    def __init__(self, name: str, kind: type[Any], item: Shape) -> None:
        super().__init__(name, _LIST, frozenset({kind}), label=kind.__name__)
        self._kind = kind
        self._item = item

    def lower(self, value: Any, depth: int) -> list[Any]:
        """Return the lowered items, sorted."""
        if type(value) is not self._kind:
            raise mismatch(value, self.name)
        if depth >= MAX_DEPTH:
            raise TooDeep
        try:
            lowered = [self._item.lower(item, depth + 1) for item in value]
        except ValueRefused as refused:
            raise refused.under("{…}", value) from None
        try:
            lowered.sort(key=document.write_sorted)
        except UnicodeEncodeError:
            raise document.surrogate(lowered) from None
        return lowered

    def lift(self, data: Any) -> Any:
        """Return the items as a set."""
        if type(data) is not list:
            raise misfit(data, self.name)
        try:
            return self._kind(lift_items(self._item, data))
        except TypeError:
            raise Misfit("has an item that cannot be in a set") from None


class Fixed(Shape):
    """A tuple with a shape for each place."""

    __slots__ = ("_items",)

    def __init__(self, name: str, items: tuple[Shape, ...]) -> None:
        super().__init__(name, _LIST, frozenset({tuple}), label="tuple")
        self._items = items

    def lower(self, value: Any, depth: int) -> list[Any]:
        """Return the lowered items."""
        if type(value) is not tuple:
            raise mismatch(value, self.name)
        if len(value) != len(self._items):
            raise ValueRefused(
                f"has {count_text(len(value), 'item')}, but its annotation is {self.name}",
                "Pass exactly what the annotation says, or change the annotation.",
            )
        if depth >= MAX_DEPTH:
            raise TooDeep
        lowered: list[Any] = []
        try:
            for shape, item in zip(self._items, value, strict=True):
                lowered.append(shape.lower(item, depth + 1))
        except ValueRefused as refused:
            raise refused.under(f"[{len(lowered)}]", value) from None
        return lowered

    def lift(self, data: Any) -> tuple[Any, ...]:
        """Return the items as a tuple."""
        if type(data) is not list:
            raise misfit(data, self.name)
        if len(data) != len(self._items):
            raise Misfit(f"has {count_text(len(data), 'item')}, not {len(self._items)}")
        lifted: list[Any] = []
        try:
            for shape, item in zip(self._items, data, strict=True):
                lifted.append(shape.lift(item))
        except Misfit as wrong:
            raise wrong.under(f"[{len(lifted)}]") from None
        return tuple(lifted)
