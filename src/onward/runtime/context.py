"""Which run, and which step of it, the code that asks is part of."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.runtime.body import Body


@dataclass(frozen=True, slots=True)
class StepContext:
    """What the code of a step may know of itself."""

    run: str
    identity: str
    attempt: int


body_now: ContextVar[Body | None] = ContextVar("onward_body", default=None)
"""The body that is asking; None outside a body, and inside a step."""

step_now: ContextVar[StepContext | None] = ContextVar("onward_step", default=None)
"""The step whose code is asking; None outside a step."""
