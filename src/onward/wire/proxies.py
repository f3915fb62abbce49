"""Methods of an interface that are made from it, because all they do is send their arguments."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

T = TypeVar("T", bound=type)


def sends(interface: type, names: Collection[str], sender: str) -> Callable[[T], T]:
    """Give a class those methods of an interface that it does not define itself.

    Args:
        interface: The protocol with their signatures.
        names: The methods.
        sender: The method of the class that does it: it is given the name and the arguments.
    """

    def complete(cls: T) -> T:
        for name in names:
            if name not in vars(cls):
                setattr(cls, name, _method(getattr(interface, name), sender))
        return cls

    return complete


def _method(declared: Any, sender: str) -> Any:
    given = [
        each for each in inspect.signature(declared).parameters.values() if each.name != "self"
    ]
    names = tuple(each.name for each in given if each.kind is not each.KEYWORD_ONLY)
    defaults = {each.name: each.default for each in given if each.default is not each.empty}
    known, required = {each.name for each in given}, {each.name for each in given} - set(defaults)
    name = declared.__name__

    async def send(self: Any, *args: Any, **kwargs: Any) -> Any:
        arguments = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        if len(args) > len(names) or not required <= arguments.keys() <= known:
            raise TypeError(f"{name}() does not take these arguments")
        return await getattr(self, sender)(name, arguments)

    send.__name__, send.__qualname__, send.__doc__ = name, declared.__qualname__, declared.__doc__
    return send
