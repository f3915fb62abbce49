"""Which run, and which step of it, the code that asks is part of.

The runtime puts a scope into the context in which a body or a step runs; a log filter reads it from
there. A scope also carries what an observer must remember between two reports: when
something began, and its span. It never holds a payload.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

from onward.core.value import Struct

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from onward.core.instant import Instant

NOWHERE: dict[str, str | int] = {
    "run": "",
    "uid": "",
    "workflow": "",
    "worker": "",
    "step": "",
    "identity": "",
    "attempt": 0,
}
"""What a log record says of where it was made, if that was in no run."""


class RunScope(Struct):
    """One run in one worker's memory.

    Args:
        run: The id of the run.
        uid: Its key.
        workflow: The name of its workflow.
        worker: Who has it.
        queue: Where it was claimed from.
        since: When it was started.
    """

    run: str
    uid: str
    workflow: str
    worker: str = ""
    queue: str = "default"
    since: Instant = 0
    silent: bool = False
    """Whether what the body logs now is not news: it is replayed, or unwound to leave memory.

    The runtime sets this; a body reads the same object all its life.
    """
    blocks_handler: bool = False
    """Whether the run has failed and its handler does not run again by itself."""
    begun: int | None = None
    span: Span | None = None

    def fields(self) -> dict[str, str | int]:
        """Return what a log record says of this place."""
        return {
            **NOWHERE,
            "run": self.run,
            "uid": self.uid,
            "workflow": self.workflow,
            "worker": self.worker,
        }


class StepScope(Struct):
    """One attempt of a step or, by its `kind`, of an effect.

    Its code is never replayed, so it is never silent.
    """

    silent = False

    of: RunScope
    step: str
    identity: str
    attempt: int
    kind: str = "step"
    begun: int | None = None
    span: Span | None = None

    def fields(self) -> dict[str, str | int]:
        """Return what a log record says of this place."""
        return {
            **self.of.fields(),
            "step": self.step,
            "identity": self.identity,
            "attempt": self.attempt,
        }


Scope: TypeAlias = RunScope | StepScope

scope_now: ContextVar[Scope | None] = ContextVar("onward_scope", default=None)
"""Where the code that asks is; None outside every run."""
