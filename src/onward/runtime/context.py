"""Which run, and which step of it, the code that asks is part of."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.runtime.attempts.attempt import Attempt
    from onward.runtime.body.body import Body

body_now: ContextVar[Body | None] = ContextVar("onward_body", default=None)
"""The body that is asking; None outside a body, and inside a step."""

step_now: ContextVar[Attempt | None] = ContextVar("onward_step", default=None)
"""The attempt of a step whose code is asking; None outside a step."""


def body_of_run() -> Body:
    """Return the body that is asking; only for code that surely is part of one."""
    body = body_now.get()
    assert body is not None
    return body
