"""The definitions of a process by name, without those that nobody holds any more."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Defined(Protocol):
    """What a function was made into."""

    @property
    def fn(self) -> Callable[..., Any]:
        """The function."""
        ...


D = TypeVar("D", bound=Defined)


def all_known(known: Mapping[str, list[D]]) -> list[D]:
    """Return all definitions; of several with one name, those that somebody holds."""
    return [each for same_name in known.values() for each in still_held(same_name)]


def still_held(same_name: list[D]) -> list[D]:
    """Forget definitions that a later one of their name has outlived, and return the others.

    A function that was defined in another one (in a test, say) is gone with it. Nobody can start
    it any more, so it must not stand in the way of the next one of its name.
    """
    if len({each.fn for each in same_name}) > 1:
        last = same_name.pop()  # it counts, though perhaps nobody holds it either
        refs = [weakref.ref(each) for each in same_name]
        same_name.clear()
        gc.collect()
        same_name += [each for ref in refs if (each := ref()) is not None]
        same_name.append(last)
    return same_name
