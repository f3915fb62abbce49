"""The spans of OpenTelemetry: of a start, of a run's stay with a worker, of an attempt of a step.

A run carries the `traceparent` of its start, so that its spans, in whatever process, belong to the
trace of its starter. Attributes are ids, names and numbers; of an error, the type alone.

This module is imported only if OpenTelemetry is in use: see `tracing`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from opentelemetry.context import Context as Values
from opentelemetry.context import attach, detach
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    set_span_in_context,
)

from onward.core.run import RunState
from onward.telemetry.error_text import type_name

if TYPE_CHECKING:
    from contextvars import Context, Token

    from opentelemetry.trace import Tracer

    from onward.core.run import Reason
    from onward.telemetry.guard import Guard
    from onward.telemetry.scope import RunScope, StepScope

_TRACEPARENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")


class OpenStart(NamedTuple):
    """The span of a start, and how to give its place back to the span that was current before."""

    span: Span
    token: Token[Values]


class Spans:
    """Begins and ends spans. What OpenTelemetry raises goes to the guard, and no further."""

    def __init__(self, tracer: Tracer, guard: Guard) -> None:
        self._tracer = tracer
        self._guard = guard

    # --- a run with a worker ---------------------------------------------------------------------

    def open_run(self, scope: RunScope, trace: str | None) -> None:
        """Begin the span of a run's stay with a worker, in the trace of its start."""
        with self._guard.harmless("onward.run"):
            scope.span = self._tracer.start_span(
                "onward.run",
                started_in(trace),
                SpanKind.CONSUMER,
                {**_about(scope), "onward.queue": scope.queue},
            )

    def close_run(
        self,
        scope: RunScope,
        state: RunState | None,
        reason: Reason | None,
        error: BaseException | None,
    ) -> None:
        """End the span of a stay; no state means that the run is another worker's now."""
        span, scope.span = scope.span, None
        if span is None:
            return
        with self._guard.harmless("onward.run"):
            span.set_attribute("onward.state", "lost" if state is None else state.value)
            if reason is not None:
                span.set_attribute("onward.reason", reason.value)
            _end(span, error, failed=state in (RunState.FAILED, RunState.TIMED_OUT))

    # --- a step ----------------------------------------------------------------------------------

    def open_step(self, scope: StepScope, context: Context) -> None:
        """Begin the span of an attempt, and make it current in the context of the step's code."""
        with self._guard.harmless("onward.step"):
            stay = scope.of.span
            about = {
                **_about(scope.of),
                "onward.step": scope.step,
                "onward.identity": scope.identity,
                "onward.attempt": scope.attempt,
            }
            above = Values() if stay is None else set_span_in_context(stay, Values())
            span = scope.span = self._tracer.start_span("onward.step", above, attributes=about)
            context.run(attach, set_span_in_context(span, Values()))

    def close_step(
        self, scope: StepScope, outcome: str, error: BaseException | None, *, retrying: bool
    ) -> None:
        """End the span of an attempt."""
        span, scope.span = scope.span, None
        if span is None:
            return
        with self._guard.harmless("onward.step"):
            span.set_attributes({"onward.outcome": outcome, "onward.retrying": retrying})
            _end(span, error, failed=error is not None)

    # --- a start ---------------------------------------------------------------------------------

    def open_start(self, workflow: str) -> OpenStart | None:
        """Begin the span of a start, below whatever span is current, and make it current."""
        with self._guard.harmless("onward.start"):
            about = {"onward.workflow": workflow}
            span = self._tracer.start_span("onward.start", None, SpanKind.PRODUCER, about)
            return OpenStart(span, attach(set_span_in_context(span)))
        return None

    def name_start(self, opened: OpenStart, run: str, uid: str, *, created: bool) -> None:
        """Say which run a start has led to."""
        with self._guard.harmless("onward.start"):
            opened.span.set_attributes({"onward.run": run, "onward.uid": uid})
            opened.span.set_attribute("onward.created", created)

    def close_start(self, opened: OpenStart, error: BaseException | None) -> None:
        """End the span of a start."""
        with self._guard.harmless("onward.start"):
            detach(opened.token)
            _end(opened.span, error, failed=error is not None)

    # --- what crosses the queue ------------------------------------------------------------------

    def carried(self, span: Span) -> str | None:
        """Return what a run that is started within a span is to carry: its W3C `traceparent`."""
        with self._guard.harmless("traceparent"):
            context = span.get_span_context()
            if context.is_valid:
                ids = f"{context.trace_id:032x}-{context.span_id:016x}"
                return f"00-{ids}-{context.trace_flags:02x}"
        return None


def started_in(trace: str | None) -> Values:
    """Return the context of a start that happened elsewhere.

    If there is none, it is empty and not the current one: a run is no part of whatever its worker
    was opened in.
    """
    found = _TRACEPARENT.fullmatch(trace or "")
    if found is None:
        return Values()
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    remote = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return set_span_in_context(NonRecordingSpan(remote), Values()) if remote.is_valid else Values()


def _about(scope: RunScope) -> dict[str, str | int]:
    return {
        "onward.run": scope.run,
        "onward.uid": scope.uid,
        "onward.workflow": scope.workflow,
        "onward.worker": scope.worker,
    }


def _end(span: Span, error: BaseException | None, *, failed: bool) -> None:
    if failed:
        span.set_status(Status(StatusCode.ERROR, None if error is None else type_name(error)))
    span.end()
