"""Which run, and which step of it, the code that asks is part of.

The runtime puts a scope into the context in which a body or a step runs; a log filter reads it from
there. A scope also carries what an observer must remember between two reports: when
something began, and its span. It never holds a payload.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

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


class RunScope:
    """One run in one worker's memory.

    Args:
        run: The id of the run.
        uid: Its key.
        workflow: The name of its workflow.
        worker: Who has it.
        queue: Where it was claimed from.
        since: When it was started.
    """

    __slots__ = ("begun", "queue", "run", "silent", "since", "span", "uid", "worker", "workflow")

    def __init__(
        self,
        run: str,
        uid: str,
        workflow: str,
        worker: str = "",
        queue: str = "default",
        since: Instant = 0,
    ) -> None:
        self.run = run
        self.uid = uid
        self.workflow = workflow
        self.worker = worker
        self.queue = queue
        self.since = since
        self.silent = False
        """Whether what the body logs now is not news: it is replayed, or unwound to leave memory.

        The runtime sets this; a body reads the same object all its life.
        """
        self.begun: int | None = None
        self.span: Span | None = None

    def fields(self) -> dict[str, str | int]:
        """Return what a log record says of this place."""
        return {
            **NOWHERE,
            "run": self.run,
            "uid": self.uid,
            "workflow": self.workflow,
            "worker": self.worker,
        }


class StepScope:
    """One attempt of a step or, by its `kind`, of an effect.

    Its code is never replayed, so it is never silent.
    """

    __slots__ = ("attempt", "begun", "identity", "kind", "of", "span", "step")

    silent = False

    def __init__(
        self, of: RunScope, step: str, identity: str, attempt: int, kind: str = "step"
    ) -> None:
        self.of = of
        self.step = step
        self.identity = identity
        self.attempt = attempt
        self.kind = kind
        self.begun: int | None = None
        self.span: Span | None = None

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
