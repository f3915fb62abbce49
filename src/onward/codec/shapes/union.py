"""The shape of a union: which member a value is, and which member stored data was.

Where JSON alone tells the members apart (`datetime | None`), they are stored as they are. Where it
does not (`str | datetime`, two dataclasses), each is stored in an envelope that names the member:
`{"$": "datetime", "of": "2026-01-01T00:00:00"}`. Data without an envelope in such a union was
written when the annotation was narrower; it is read if exactly one member takes it, and never
guessed.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from onward.codec.shapes.refusal import Misfit, TooDeep, ValueRefused, misfit, mismatch
from onward.codec.shapes.shape import KIND_OF, Kind, Shape

if TYPE_CHECKING:
    from collections.abc import Iterable

MEMBER: Final = "$"
OF: Final = "of"


class Union(Shape):
    """One of several shapes."""

    __slots__ = ("_by_kind", "_by_label", "_by_type", "_labels", "_members", "_open", "_wrapped")

    def __init__(self, name: str, members: tuple[Shape, ...]) -> None:
        times = Counter(kind for member in members for kind in member.kinds)
        wrapped = {kind for kind in times if times[kind] > 1}
        if wrapped:
            # A dict could look like an envelope; where there are envelopes it gets one too.
            wrapped.add(Kind.OBJECT)
        open_ = tuple(member for member in members if member.types is None)
        types = None if open_ else _known_types(members)
        super().__init__(name, frozenset(times) | wrapped, types)
        self._members = members
        self._open = open_
        self._wrapped = frozenset(wrapped)
        self._by_type = {kind: self._of_type(kind) for kind in _known_types(members)}
        self._by_kind = {kind: _of_kind(members, kind) for kind in Kind}
        self._labels = {member: label_in(member, members) for member in members}
        self._by_label = {label: member for member, label in self._labels.items()}

    def lower(self, value: Any, depth: int) -> Any:
        """Return what the right member gives, in an envelope if others give the like."""
        candidates = self._by_type.get(type(value), self._open)
        if len(candidates) == 1:
            return self._wrap(candidates[0], candidates[0].lower(value, depth))
        for member in candidates:
            try:
                lowered = member.lower(value, depth)
            except TooDeep:
                raise  # the next member would walk as far, and so on at every level
            except ValueRefused:
                continue
            return self._wrap(member, lowered)
        raise mismatch(value, self.name)

    def _of_type(self, kind: type) -> tuple[Shape, ...]:
        exact = (member for member in self._members if member.types and kind in member.types)
        return (*exact, *self._open)

    def _wrap(self, member: Shape, lowered: Any) -> Any:
        if KIND_OF[type(lowered)] not in self._wrapped:
            return lowered
        return {MEMBER: self._labels[member], OF: lowered}

    def lift(self, data: Any) -> Any:
        """Return what the member gives that had lowered the value."""
        kind = KIND_OF[type(data)]
        if self._wrapped and kind is Kind.OBJECT and data.keys() == {MEMBER, OF}:
            label = data[MEMBER]
            member = self._by_label.get(label) if type(label) is str else None
            if member is None:
                raise Misfit(f"has a type that {self.name} does not contain")
            return member.lift(data[OF])
        members = self._by_kind[kind]
        if len(members) == 1:
            return members[0].lift(data)
        return self._only_fit(members, data)

    def _only_fit(self, members: Iterable[Shape], data: Any) -> Any:
        fits = []
        for member in members:
            try:
                fits.append(member.lift(data))
            except Misfit:
                continue
        if not fits:
            raise misfit(data, self.name)
        if len(fits) > 1:
            raise Misfit(
                f"matches several members of {self.name}, and does not say which one it is"
            )
        return fits[0]


def label_in(member: Shape, members: Iterable[Shape]) -> str:
    """Return the name of a member in its union: the short one unless another has the same."""
    alike = [other for other in members if other.label == member.label]
    return member.label if len(alike) == 1 else member.name


def _of_kind(members: Iterable[Shape], kind: Kind) -> tuple[Shape, ...]:
    return tuple(member for member in members if kind in member.kinds)


def _known_types(members: Iterable[Shape]) -> frozenset[type]:
    return frozenset[type]().union(*(member.types or () for member in members))
