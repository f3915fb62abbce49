"""Which run, and which step of it, the code that asks is part of."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.runtime.execution import Execution


@dataclass(frozen=True, slots=True)
class StepContext:
    """What the code of a step may know of itself."""

    run: str
    identity: str
    attempt: int


execution_now: ContextVar[Execution | None] = ContextVar("onward_execution", default=None)
"""The run whose body is asking; None outside a body, and inside a step."""

step_now: ContextVar[StepContext | None] = ContextVar("onward_step", default=None)
"""The step whose code is asking; None outside a step."""
