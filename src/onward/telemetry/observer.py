"""What an app and its workers call when something happens. The observer here does nothing.

The places are few, and the one on the path of every step asks first: `if observer.steps`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextvars import Context
    from types import TracebackType

    from onward.core.instant import Duration, Instant
    from onward.core.run import Reason, RunState
    from onward.telemetry.scope import RunScope, Scope, StepScope

StepOutcome: TypeAlias = Literal["succeeded", "failed", "timed_out", "cancelled"]


class Starting:
    """A start of a run, under way."""

    trace: str | None = None
    """What the run is to carry, so that its spans join the trace of this start."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    def done(self, run: str, uid: str, *, created: bool) -> None:
        """Say which run has the id now, and whether this start made it."""


_STARTING = Starting()


class Observer:
    """Called for what happens to runs, steps and workers; its methods neither fail nor wait."""

    steps = False
    """Whether steps that begin or succeed are reported.

    While it is False, `step_begun` and `step_ended` need not be called, but for failures.
    """
    measures = False
    """Whether `claim_took` and others like it are worth reading a clock for."""

    async def close(self) -> None:
        """Wait a while for reports under way."""

    # --- runs ------------------------------------------------------------------------------------

    def starting(self, workflow: str, queue: str) -> Starting:  # noqa: ARG002
        """Observe a start while it happens: use it with `with`."""
        return _STARTING

    def run_claimed(
        self, scope: RunScope, *, trace: str | None = None, lag: Duration | None = None
    ) -> None:
        """A worker has claimed a run.

        Args:
            scope: The run. A body that is kept warm keeps its scope.
            trace: What it carries from its start.
            lag: How long it had been there for the taking, if that is known.
        """

    def run_left(
        self,
        scope: RunScope,
        state: RunState | None,
        reason: Reason | None = None,
        *,
        at: Instant = 0,
        error: BaseException | None = None,
        message: str = "",
    ) -> None:
        """A run has left its worker: it waits, is paused, is released, or has ended.

        Args:
            scope: The run.
            state: What it is now; None means that it is another worker's.
            reason: Why.
            at: When.
            error: What it failed with. Logs have its traceback, spans its type.
            message: What a human is to read, if one is called; by default what the error says.
        """

    def run_blocking(self, scope: Scope, length: Duration, where: str) -> None:
        """The code of a run has blocked its worker. Called from any thread.

        Args:
            scope: The run, or its step or effect.
            length: For how long, so far or in all.
            where: The line at which it was seen.
        """

    def trace_of(self, scope: RunScope) -> str | None:  # noqa: ARG002
        """Return what a run that is started by this one is to carry."""
        return None

    # --- steps -----------------------------------------------------------------------------------

    def step_begun(self, scope: StepScope, context: Context) -> None:
        """The code of a step is about to run in this context."""

    def step_ended(
        self,
        scope: StepScope,
        outcome: StepOutcome,
        error: BaseException | None = None,
        retry_in: Duration | None = None,
        *,
        is_asked: bool = False,
    ) -> None:
        """An attempt is over.

        Args:
            scope: The attempt.
            outcome: How it ended; `cancelled` if the body stopped waiting for it.
            error: What it raised. Logs have its traceback, spans its type.
            retry_in: How long until the next attempt; None means that there is none.
            is_asked: Whether the reconciler of an effect is asked about the attempt next.
        """

    def cache_read(self, scope: StepScope, *, hit: bool) -> None:
        """The result of a step was looked for in the cache."""

    # --- effects ---------------------------------------------------------------------------------

    def effect_waits(
        self,
        scope: RunScope,
        effect: str,
        key: str,
        reason: Reason,
        *,
        at: Instant,
        message: str,
    ) -> None:
        """An effect needs an operator, though its run may continue with something else.

        Args:
            scope: The run.
            effect: The name of the effect.
            key: Its id.
            reason: `approval` or `reconciliation`.
            at: When.
            message: What a human is to read.
        """

    # --- workers ---------------------------------------------------------------------------------

    def worker_ready(
        self, worker: str, store: str, queues: Sequence[str], workflows: Sequence[str]
    ) -> None:
        """A worker has begun to claim runs of these queues and workflows."""

    def worker_left(self, worker: str, error: BaseException | None = None) -> None:
        """A worker has ended, by itself or by an error."""

    def claim_took(self, worker: str, runs: int, length: Duration) -> None:
        """A claim was answered."""

    def commit_took(self, worker: str, commits: int, length: Duration) -> None:
        """A group commit was answered."""

    def maintenance_took(self, worker: str, length: Duration) -> None:
        """A turn of maintenance is over."""

    def lease_renewed(self, worker: str, length: Duration, *, kept: bool) -> None:
        """A lease was renewed, or turned out to be lost. Called from any thread."""

    def worker_stalled(
        self, worker: str, scope: Scope | None, length: Duration, where: str, released: int
    ) -> None:
        """The event loop of a worker is blocked. Called from any thread.

        Args:
            worker: The worker.
            scope: The run, step or effect whose code blocks it; None if it is other code.
            length: For how long so far.
            where: The line that blocks it.
            released: How many runs other workers may continue now.
        """

    def worker_stuck(
        self, worker: str, scope: Scope | None, length: Duration, where: str, *, exits: bool
    ) -> None:
        """The event loop of a worker was blocked for too long. Called from any thread.

        Args:
            worker: The worker.
            scope: The run, step or effect whose code blocks it; None if it is other code.
            length: For how long so far.
            where: The line that blocks it.
            exits: Whether the process exits; otherwise the lease is not renewed any more.
        """

    def store_away(self, worker: str, error: BaseException) -> None:
        """The store did not answer a worker; reported at once, and then once a minute."""

    def store_back(self, worker: str) -> None:
        """The store answered a worker; reported only if it was away."""

    def clock_stepped(self, worker: str, step: Duration) -> None:
        """A worker has seen the clock of the database being set, forward or back."""

    def runs_deleted(self, worker: str, rows: Mapping[str, int]) -> None:
        """A worker has deleted runs that ended long ago; `rows` has the rows by table."""


SILENT = Observer()
