"""What each phase of a handler may do: a context has the operations of its phase and no others."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")

MAX_PEEK = 1000
