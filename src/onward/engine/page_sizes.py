"""How much one call of a client may ask for: a server answers it in one piece."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_PAGE: Final = 1_000
"""How many rows one call returns at most."""

MAX_SLOTS: Final = 10_000
"""How many slots of a schedule, which are small, one call returns at most."""

MAX_COUNTED: Final = 1_000_000
"""How far one call counts."""

SIZES: Final[Mapping[str, Mapping[str, int]]] = MappingProxyType(
    {
        "list_runs": {"page.limit": MAX_PAGE},
        "count_children": {"maximum": MAX_COUNTED},
        "count_runs": {"maximum": MAX_COUNTED},
        "failure_groups": {"period.parts": MAX_PAGE},
        "begun_runs": {"limit": MAX_PAGE},
        "pending_effects": {"limit": MAX_PAGE},
        "all_effects": {"limit": MAX_PAGE},
        "effects_beginning": {"limit": MAX_PAGE},
        "list_cache": {"limit": MAX_PAGE},
        "schedules.preview": {"count": MAX_SLOTS},
        "schedules.first_slots": {"count": MAX_SLOTS},
        "schedules.slots": {"limit": MAX_SLOTS},
        "pipelines.inputs": {"wanted.limit": MAX_PAGE},
        "pipelines.peek": {"limit": MAX_PAGE},
    }
)
"""The arguments of operations that say how much is returned, and their maximum.

A test compares them with the operations that a server has.
"""


def check_size(name: str, given: object, maximum: int, *, minimum: int = 0) -> int:
    """Return how much is asked for in one call.

    Raises:
        BadInput: it is not a whole number, is negative, or is more than a server returns at once.
    """
    if type(given) is not int:
        raise BadInput(f"{name}={given!r}", "is not a whole number", _advice(minimum, maximum))
    if not minimum <= given <= maximum:
        fact = f"is not between {minimum} and {maximum:,}"
        raise BadInput(f"{name}={given}", fact, "Use a number in this range")
    return given


def _advice(minimum: int, maximum: int) -> str:
    return f"Use a number between {minimum} and {maximum:,}"
