"""The observer that reports: to logs, metrics, spans and `on_attention`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from onward.core.instant import MINUTE, SECOND
from onward.core.run import TERMINAL, Reason, RunState
from onward.telemetry.attention import AttentionLine, attention, calls_for_attention
from onward.telemetry.error_text import describe
from onward.telemetry.events import EVENTS, emit, error_text
from onward.telemetry.guard import Guard
from onward.telemetry.metrics import both, made_safe
from onward.telemetry.observer import Observer, Starting
from onward.telemetry.scope import RunScope
from onward.telemetry.tracing import Tracing

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextvars import Context
    from types import TracebackType
    from typing import Self

    from opentelemetry.trace import TracerProvider

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock, Spawn
    from onward.telemetry.attention import OnAttention
    from onward.telemetry.metrics import Metrics
    from onward.telemetry.observer import StepOutcome
    from onward.telemetry.scope import Scope, StepScope
    from onward.telemetry.spans import OpenStart, Spans

_STEPS = EVENTS["step.succeeded"].logger


class Reporter(Observer):
    """Reports what happens.

    Args:
        clock: Measures how long things take.
        spawn: Starts the thread for an `on_attention` that is not async.
        metrics: Counts and measures.
        on_attention: Is called when a run needs a human.
        tracer_provider: Makes spans; by default OpenTelemetry's global one, if it is set.

    Raises:
        BadInput: the metrics lack a method.
    """

    def __init__(
        self,
        clock: Clock,
        spawn: Spawn | None = None,
        *,
        metrics: Metrics | None = None,
        on_attention: OnAttention | None = None,
        tracer_provider: TracerProvider | None = None,
    ) -> None:
        guard = self._guard = Guard()
        self._clock = clock
        self._metrics = None if metrics is None else made_safe(metrics, guard)
        self._tracing = Tracing(guard, tracer_provider)
        self._line = None if on_attention is None else AttentionLine(on_attention, spawn)
        # Since when the store is away for a worker, and when that was last reported.
        self._away: dict[str, tuple[int, int]] = {}
        self._blocking: set[tuple[str, str]] = set()
        self.measures = self._metrics is not None
        self._look()

    def add_metrics(self, metrics: Metrics) -> None:
        """Count and measure with these metrics too."""
        safe = made_safe(metrics, self._guard)
        self._metrics = safe if self._metrics is None else both(self._metrics, safe)
        self.measures = True
        self._look()

    async def close(self) -> None:
        """Wait a while for reports under way."""
        if self._line is not None:
            await self._line.close()

    def _look(self) -> None:
        # The user may set up logging and tracing whenever they like: each claim looks again.
        self._spans = self._tracing.spans()
        wanted = self.measures or self._spans is not None
        self.steps = wanted or _STEPS.isEnabledFor(logging.DEBUG)

    # --- runs ------------------------------------------------------------------------------------

    def starting(self, workflow: str, queue: str) -> Starting:
        """Observe a start while it happens."""
        return _Started(self._tracing.spans(), self._metrics, workflow, queue)

    def run_claimed(
        self, scope: RunScope, *, trace: str | None = None, lag: Duration | None = None
    ) -> None:
        """A worker has claimed a run."""
        scope.begun = self._clock.monotonic()
        emit("run.claimed", scope)
        self._look()
        if self._spans is not None:
            self._spans.open_run(scope, trace)
        metrics = self._metrics
        if metrics is not None:
            metrics.run_claimed(workflow=scope.workflow, queue=scope.queue)
            if lag is not None:
                metrics.queue_lag(queue=scope.queue, seconds=lag / SECOND)

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
        """A run has left its worker."""
        stay = self._since(scope.begun)
        is_failed = state is RunState.FAILED
        # The failure of a routed step or a map chunk is a result for its run, which may handle it.
        # What failed in it was logged when it did.
        is_part = scope.workflow.startswith(("step ", "map "))
        if not (is_failed and is_part and reason is Reason.LOGIC):
            emit(
                f"run.{'lost' if state is None else state}",
                scope,
                cause=error if is_failed else None,
                seconds=stay,
                reason="" if reason is None else reason.value,
                error=message or ("" if error is None else error_text(error)),
            )
        if self._spans is not None:
            self._spans.close_run(scope, state, reason, error)
        if self._metrics is not None:
            self._count(scope, state, reason, stay, max(0, at - scope.since) / SECOND)
        if self._line is None or state is None or reason is None:
            return
        text = message or ("" if error is None else describe(error))
        needs_human = calls_for_attention(state, reason, has_error=bool(text))
        if needs_human or (is_failed and scope.blocks_handler):
            self._line.put(attention(scope, reason, text, at))

    def _count(
        self,
        scope: RunScope,
        state: RunState | None,
        reason: Reason | None,
        stay: float,
        age: float,
    ) -> None:
        metrics, workflow, queue = self._metrics, scope.workflow, scope.queue
        assert metrics is not None
        why = None if reason is None else reason.value
        if state is None:
            metrics.run_lost(workflow=workflow, queue=queue)
        elif state in TERMINAL:
            metrics.run_ended(
                workflow=workflow, queue=queue, state=state.value, reason=why, seconds=age
            )
        else:
            metrics.run_parked(
                workflow=workflow, queue=queue, state=state.value, reason=why, seconds=stay
            )

    def run_blocking(self, scope: Scope, length: Duration, where: str) -> None:
        """The code of a run has blocked its worker."""
        seconds = length / SECOND
        if isinstance(scope, RunScope):
            if self._is_first(scope.workflow, ""):
                emit("run.blocking", scope, blocked_seconds=seconds, where=where)
        elif self._is_first(scope.of.workflow, scope.step):
            emit("step.blocking", scope, kind=scope.kind, blocked_seconds=seconds, where=where)

    def _is_first(self, workflow: str, step: str) -> bool:
        """Return whether code of this workflow or step is seen blocking for the first time."""
        is_first = (workflow, step) not in self._blocking
        self._blocking.add((workflow, step))
        return is_first

    def trace_of(self, scope: RunScope) -> str | None:
        """Return what a run that is started by this one is to carry."""
        if self._spans is None or scope.span is None:
            return None
        return self._spans.carried(scope.span)

    # --- steps -----------------------------------------------------------------------------------

    def step_begun(self, scope: StepScope, context: Context) -> None:
        """The code of a step is about to run in this context."""
        scope.begun = self._clock.monotonic()
        if self._spans is not None:
            self._spans.open_step(scope, context)

    def step_ended(
        self,
        scope: StepScope,
        outcome: StepOutcome,
        error: BaseException | None = None,
        retry_in: Duration | None = None,
        *,
        is_asked: bool = False,
    ) -> None:
        """An attempt is over."""
        seconds, retrying = self._since(scope.begun), retry_in is not None
        emit(
            "effect.uncertain" if is_asked else _step_event(outcome, retrying=retrying),
            scope,
            cause=error,
            kind=scope.kind,
            outcome=outcome,
            seconds=None if scope.begun is None else seconds,
            retry_seconds=None if retry_in is None else retry_in / SECOND,
        )
        if self._spans is not None:
            self._spans.close_step(scope, outcome, error, retrying=retrying)
        if self._metrics is not None:
            self._metrics.step_ended(
                workflow=scope.of.workflow,
                step=scope.step,
                outcome=outcome,
                retrying=retrying,
                seconds=seconds,
            )

    def _since(self, begun: int | None) -> float:
        return 0.0 if begun is None else (self._clock.monotonic() - begun) / SECOND

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
        """An effect needs an operator."""
        emit("effect.waits", scope, effect=effect, key=key, reason=reason.value)
        if self._line is not None:
            self._line.put(attention(scope, reason, message, at, effect=key))

    # --- workers ---------------------------------------------------------------------------------

    def worker_ready(
        self, worker: str, store: str, queues: Sequence[str], workflows: Sequence[str]
    ) -> None:
        """A worker has begun to claim."""
        emit("worker.ready", worker=worker, store=store, queues=queues, workflows=workflows)

    def worker_left(self, worker: str, error: BaseException | None = None) -> None:
        """A worker has ended, by itself or by an error."""
        self._away.pop(worker, None)
        if error is None:
            emit("worker.left", worker=worker)
        else:
            emit("worker.failed", cause=error, worker=worker)

    def cache_read(self, scope: StepScope, *, hit: bool) -> None:
        """The result of a step was looked for in the cache."""
        if self._metrics is not None:
            self._metrics.cache_read(workflow=scope.of.workflow, step=scope.step, hit=hit)

    def claim_took(self, worker: str, runs: int, length: Duration) -> None:
        """A claim was answered."""
        if self._metrics is not None:
            self._metrics.claim_took(worker=worker, runs=runs, seconds=length / SECOND)

    def commit_took(self, worker: str, commits: int, length: Duration) -> None:
        """A group commit was answered."""
        if self._metrics is not None:
            self._metrics.commit_took(worker=worker, commits=commits, seconds=length / SECOND)

    def maintenance_took(self, worker: str, length: Duration) -> None:
        """A turn of maintenance is over."""
        if self._metrics is not None:
            self._metrics.maintenance_took(worker=worker, seconds=length / SECOND)

    def lease_renewed(self, worker: str, length: Duration, *, kept: bool) -> None:
        """A lease was renewed, or turned out to be lost."""
        emit("lease.renewed" if kept else "lease.lost", worker=worker)
        if self._metrics is not None:
            self._metrics.lease_renewed(worker=worker, kept=kept, seconds=length / SECOND)

    def worker_stalled(
        self, worker: str, scope: Scope | None, length: Duration, where: str, released: int
    ) -> None:
        """The event loop of a worker is blocked."""
        emit(
            "worker.stalled",
            scope,
            worker=worker,
            blocked_seconds=length / SECOND,
            where=where,
            released_runs=released,
        )

    def worker_stuck(
        self, worker: str, scope: Scope | None, length: Duration, where: str, *, exits: bool
    ) -> None:
        """The event loop of a worker was blocked for too long."""
        event = "worker.exits" if exits else "worker.stuck"
        emit(event, scope, worker=worker, blocked_seconds=length / SECOND, where=where)

    def store_away(self, worker: str, error: BaseException) -> None:
        """The store did not answer a worker."""
        now = self._clock.monotonic()
        since, reported = self._away.get(worker, (now, now))
        is_new = worker not in self._away
        if is_new or now - reported >= MINUTE:
            self._away[worker] = since, now
            event = "store.away" if is_new else "store.still_away"
            seconds = (now - since) // SECOND
            emit(event, worker=worker, error=str(error), outage_seconds=seconds)

    def store_back(self, worker: str) -> None:
        """The store answered a worker."""
        if worker in self._away:
            since, _ = self._away.pop(worker)
            seconds = (self._clock.monotonic() - since) // SECOND
            emit("store.back", worker=worker, outage_seconds=seconds)

    def clock_stepped(self, worker: str, step: Duration) -> None:
        """A worker has seen the clock of the database being set, forward or back."""
        event = "clock.forward" if step > 0 else "clock.back"
        emit(event, worker=worker, jump_seconds=round(abs(step) / SECOND, 1))

    def runs_deleted(self, worker: str, rows: Mapping[str, int]) -> None:
        """A worker has deleted runs that ended long ago."""
        counts: dict[str, Any] = {name: rows.get(table, 0) for name, table in _DELETED.items()}
        emit("retention.deleted", worker=worker, **counts)


_DELETED = {
    "runs": "onward_run",
    "records": "onward_record",
    "messages": "onward_inbox",
    "effects": "onward_effect",
}
"""What a log record about deleted runs says, and of which tables."""


class _Started(Starting):
    """A start that is logged, counted and traced."""

    def __init__(
        self, spans: Spans | None, metrics: Metrics | None, workflow: str, queue: str
    ) -> None:
        self._spans = spans
        self._metrics = metrics
        self._workflow = workflow
        self._queue = queue
        self._opened: OpenStart | None = None

    def __enter__(self) -> Self:
        if self._spans is not None:
            self._opened = self._spans.open_start(self._workflow)
            if self._opened is not None:
                self.trace = self._spans.carried(self._opened.span)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._spans is not None and self._opened is not None:
            self._spans.close_start(self._opened, error)

    def done(self, run: str, uid: str, *, created: bool) -> None:
        """Say which run has the id now, and whether this start made it."""
        if self._spans is not None and self._opened is not None:
            self._spans.name_start(self._opened, run, uid, created=created)
        if created:
            emit("run.started", RunScope(run, uid, self._workflow))
            if self._metrics is not None:
                self._metrics.run_started(workflow=self._workflow, queue=self._queue)


def _step_event(outcome: StepOutcome, *, retrying: bool) -> str:
    if retrying:
        return "step.retried"
    return "step.failed" if outcome == "timed_out" else f"step.{outcome}"
