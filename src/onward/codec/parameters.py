"""Which value goes to which parameter, and back to a way of calling.

`inspect` can do the first, but takes as long as everything else together; so the usual calls are
assigned here, and the unusual and the wrong ones are left to it.
"""

from __future__ import annotations

import inspect
from inspect import Parameter
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_ORDINARY: Final = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


class Parameters:
    """The parameters of one callable."""

    def __init__(self, name: str, signature: inspect.Signature) -> None:
        self._name = name
        self._signature = signature
        by_name = signature.parameters
        self._ordinary = all(parameter.kind in _ORDINARY for parameter in by_name.values())
        self._names = frozenset(by_name)
        self._positional = tuple(
            name for name, p in by_name.items() if p.kind is Parameter.POSITIONAL_OR_KEYWORD
        )
        self._by_keyword = tuple(
            name for name, p in by_name.items() if p.kind is Parameter.KEYWORD_ONLY
        )
        self._required = frozenset(
            name for name, p in by_name.items() if p.default is Parameter.empty
        )

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._signature.parameters.values())

    def assign(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the given arguments by parameter name, without defaults.

        Raises:
            TypeError: the callable cannot be called like this.
        """
        if self._ordinary and len(args) <= len(self._positional):
            given = dict(zip(self._positional, args, strict=False))
            if not kwargs or (given.keys().isdisjoint(kwargs) and kwargs.keys() <= self._names):
                given.update(kwargs)
                if given.keys() >= self._required:
                    return given
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self._name}() {error}") from None

    def spread(self, values: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return a way to call with these values by parameter name.

        Raises:
            TypeError: the callable cannot be called with them.
        """
        if self._ordinary and values.keys() == self._names:
            by_keyword = {name: values[name] for name in self._by_keyword}
            return tuple([values[name] for name in self._positional]), by_keyword
        return self._spread_with_gaps(values)

    def _spread_with_gaps(
        self, values: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        gap = ""
        for parameter in self:
            name = parameter.name
            if name not in values:
                gap = gap or name
            elif parameter.kind is Parameter.VAR_KEYWORD:
                kwargs.update(values[name])
            elif parameter.kind is Parameter.VAR_POSITIONAL:
                if gap:
                    raise TypeError(f"{self._name}() has no value for {gap!r} before *{name}")
                args.extend(values[name])
            elif gap or parameter.kind is Parameter.KEYWORD_ONLY:
                kwargs[name] = values[name]
            else:
                args.append(values[name])
        self.assign(tuple(args), kwargs)
        return tuple(args), kwargs
