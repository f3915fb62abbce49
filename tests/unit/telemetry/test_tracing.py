"""Spans, made by the real OpenTelemetry: of a start, of a stay with a worker, of a step."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from contextvars import copy_context
from typing import TYPE_CHECKING

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import SpanKind, StatusCode, TraceFlags

from onward.core.instant import SECOND
from onward.core.run import Reason, RunState
from onward.telemetry.reporter import Reporter
from onward.testing.clock import VirtualClock
from tests.unit.telemetry.builders import SECRET, a_log, a_run, a_step

if TYPE_CHECKING:
    from contextvars import Context

    from opentelemetry.context import Context as Values
    from opentelemetry.sdk.trace import ReadableSpan, Span

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class World:
    """A reporter whose spans are kept."""

    def __init__(self, provider: TracerProvider | None = None) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = provider or TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reporter = Reporter(VirtualClock(), tracer_provider=self.provider)
        self.tracer = self.provider.get_tracer("the user's")

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    @property
    def span(self) -> ReadableSpan:
        [found] = self.spans
        return found


@pytest.fixture
def world() -> World:
    return World()


def parent_of(span: ReadableSpan) -> str | None:
    return None if span.parent is None else f"{span.parent.span_id:016x}"


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def facts(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


# --- a start --------------------------------------------------------------------------------------


def test_a_start_is_a_span_below_the_users_own(world: World) -> None:
    checking_out = world.tracer.start_as_current_span("checkout")
    with checking_out, world.reporter.starting("order", "fast") as starting:
        starting.done("order-7", "uid-7", created=True)

    start, checkout = world.spans
    assert (start.name, start.kind, parent_of(start)) == (
        "onward.start",
        SpanKind.PRODUCER,
        id_of(checkout),
    )
    assert facts(start) == {
        "onward.workflow": "order",
        "onward.run": "order-7",
        "onward.uid": "uid-7",
        "onward.created": True,
    }


def test_a_start_carries_the_trace_that_it_is_part_of(world: World) -> None:
    with world.reporter.starting("order", "fast") as starting:
        pass

    assert world.span.context is not None
    flags = world.span.context.trace_flags
    assert flags.sampled
    assert starting.trace == f"00-{trace_of(world.span)}-{id_of(world.span)}-{flags:02x}"


def test_the_span_of_a_start_is_current_while_it_happens_and_not_after(world: World) -> None:
    before = trace.get_current_span()
    with world.reporter.starting("order", "fast"):
        during = trace.get_current_span().get_span_context().span_id

    assert f"{during:016x}" == id_of(world.span)
    assert trace.get_current_span() is before


def test_a_start_that_fails_says_so_by_the_type_of_its_error(world: World) -> None:
    with pytest.raises(LookupError), world.reporter.starting("order", "fast"):
        raise LookupError(SECRET)

    assert world.span.status.status_code is StatusCode.ERROR
    assert world.span.status.description == "LookupError"
    assert SECRET not in world.span.to_json()


# --- a run ----------------------------------------------------------------------------------------


def test_each_stay_of_a_run_is_a_span_in_the_trace_of_its_start(world: World) -> None:
    run = a_run()
    for state in (RunState.WAITING, RunState.SUCCEEDED):
        world.reporter.run_claimed(run, trace=TRACE)
        world.reporter.run_left(run, state)

    assert [(span.name, span.kind) for span in world.spans] == [
        ("onward.run", SpanKind.CONSUMER)
    ] * 2
    assert {trace_of(span) for span in world.spans} == {TRACE[3:35]}
    assert {parent_of(span) for span in world.spans} == {TRACE[36:52]}
    assert [facts(span)["onward.state"] for span in world.spans] == ["waiting", "succeeded"]


@pytest.mark.parametrize(
    "carried",
    [
        None,
        "",
        "nonsense",
        TRACE[:-1],
        TRACE.upper(),
        TRACE + "-more",
        f"00-{'0' * 32}-b7ad6b7169203331-01",
        f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01",
    ],
)
def test_a_run_that_carries_no_trace_begins_its_own(world: World, carried: str | None) -> None:
    run = a_run()
    with world.tracer.start_as_current_span("whoever opened the worker"):
        world.reporter.run_claimed(run, trace=carried)
        world.reporter.run_left(run, RunState.SUCCEEDED)

    stay = world.spans[0]
    assert (stay.name, stay.parent) == ("onward.run", None)


def test_a_span_of_a_run_says_which_run_where_and_how_it_left(world: World) -> None:
    run = a_run()
    world.reporter.run_claimed(run)
    world.reporter.run_left(run, RunState.PAUSED, Reason.DIVERGENCE, message=SECRET)

    assert facts(world.span) == {
        "onward.run": "order-7",
        "onward.uid": "uid-7",
        "onward.workflow": "order",
        "onward.worker": "worker-1",
        "onward.queue": "fast",
        "onward.state": "paused",
        "onward.reason": "divergence",
    }
    assert world.span.status.status_code is StatusCode.UNSET


def test_a_run_that_fails_says_so_by_the_type_of_its_error(world: World) -> None:
    run = a_run()
    world.reporter.run_claimed(run)
    world.reporter.run_left(run, RunState.FAILED, Reason.LOGIC, error=ValueError(SECRET))

    assert world.span.status.status_code is StatusCode.ERROR
    assert world.span.status.description == "ValueError"
    assert SECRET not in world.span.to_json()


def test_a_run_that_another_worker_has_is_lost_and_its_span_ends(world: World) -> None:
    run = a_run()
    world.reporter.run_claimed(run)
    world.reporter.run_left(run, None)

    assert facts(world.span)["onward.state"] == "lost"


def test_a_run_that_a_run_starts_carries_the_span_of_its_parent(world: World) -> None:
    run = a_run()
    world.reporter.run_claimed(run, trace=TRACE)
    carried = world.reporter.trace_of(run)
    world.reporter.run_left(run, RunState.WAITING)

    assert carried == f"00-{TRACE[3:35]}-{id_of(world.span)}-01"
    assert world.reporter.trace_of(run) is None


def test_what_was_not_sampled_at_the_start_is_not_sampled_later() -> None:
    world = World(TracerProvider(sampler=ParentBased(ALWAYS_OFF)))
    with world.reporter.starting("order", "fast") as starting:
        pass
    run = a_run()
    world.reporter.run_claimed(run, trace=starting.trace)
    world.reporter.run_left(run, RunState.SUCCEEDED)

    assert starting.trace is not None
    assert not int(starting.trace[-2:], 16) & TraceFlags.SAMPLED
    assert world.spans == []


# --- a step ---------------------------------------------------------------------------------------


def test_a_step_is_a_span_below_the_stay_of_its_run(world: World) -> None:
    run, context = a_run(), copy_context()
    step = a_step(run, attempt=2)
    world.reporter.run_claimed(run, trace=TRACE)
    world.reporter.step_begun(step, context)
    world.reporter.step_ended(step, "succeeded")
    world.reporter.run_left(run, RunState.SUCCEEDED)

    charge, stay = world.spans
    assert (charge.name, charge.kind, parent_of(charge)) == (
        "onward.step",
        SpanKind.INTERNAL,
        id_of(stay),
    )
    assert facts(charge) == {
        "onward.run": "order-7",
        "onward.uid": "uid-7",
        "onward.workflow": "order",
        "onward.worker": "worker-1",
        "onward.step": "charge",
        "onward.identity": "0:charge#1",
        "onward.attempt": 2,
        "onward.outcome": "succeeded",
        "onward.retrying": False,
    }


def test_spans_that_the_code_of_a_step_makes_are_below_the_steps_own(world: World) -> None:
    context, step = copy_context(), a_step()

    def code() -> None:
        world.tracer.start_span("POST /charges").end()

    world.reporter.step_begun(step, context)
    context.run(code)
    world.reporter.step_ended(step, "succeeded")

    request, charge = world.spans
    assert (request.name, parent_of(request)) == ("POST /charges", id_of(charge))
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_an_attempt_that_fails_says_so_by_the_type_of_its_error(world: World) -> None:
    step = a_step()
    world.reporter.step_begun(step, copy_context())
    world.reporter.step_ended(step, "failed", ValueError(SECRET), SECOND)

    assert world.span.status.description == "ValueError"
    assert facts(world.span)["onward.retrying"] is True
    assert SECRET not in world.span.to_json()


# --- who pays -------------------------------------------------------------------------------------


def test_a_tracer_provider_makes_steps_interesting(world: World) -> None:
    assert world.reporter.steps


GLOBAL = """
from opentelemetry import trace
from onward.system.clock import SystemClock
from onward.telemetry.reporter import Reporter
from onward.telemetry.scope import RunScope

reporter, run = Reporter(SystemClock()), RunScope("order-7", "uid-7", "order")
reporter.run_claimed(run)
print(reporter.steps, run.span, reporter.starting("order", "default").__enter__().trace)

from opentelemetry.sdk.trace import TracerProvider
trace.set_tracer_provider(TracerProvider())
reporter.run_claimed(run)
print(reporter.steps, run.span is not None)
"""


@pytest.mark.parametrize(
    ("disabled", "printed"),
    [("false", "False None None\nTrue True\n"), ("true", "False None None\nFalse False\n")],
)
def test_the_global_provider_counts_from_when_it_is_set_unless_it_is_disabled(
    disabled: str, printed: str
) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", GLOBAL],
        env={**os.environ, "OTEL_SDK_DISABLED": disabled},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert answer.stdout == printed


class Broken(SpanProcessor):
    """Fails whenever a span begins or ends."""

    def on_start(self, span: Span, parent_context: Values | None = None) -> None:
        raise ZeroDivisionError

    def on_end(self, span: ReadableSpan) -> None:
        raise ZeroDivisionError


def everything(reporter: Reporter, context: Context) -> None:
    run, step = a_run(), a_step()
    with reporter.starting("order", "fast") as starting:
        starting.done("order-7", "uid-7", created=True)
    reporter.run_claimed(run, trace=starting.trace)
    reporter.step_begun(step, context)
    reporter.step_ended(step, "succeeded")
    reporter.run_left(run, RunState.SUCCEEDED)


def test_tracing_that_fails_harms_nobody_and_is_logged_once() -> None:
    provider = TracerProvider()
    provider.add_span_processor(Broken())
    reporter = Reporter(VirtualClock(), tracer_provider=provider)
    with a_log(logging.ERROR) as log:
        everything(reporter, copy_context())
        everything(reporter, copy_context())

    calls = [vars(each)["call"] for each in log.records]
    assert calls == ["onward.start", "onward.run", "onward.step"]


class BrokenEnd(Broken):
    """Fails whenever a span ends."""

    def on_start(self, span: Span, parent_context: Values | None = None) -> None:
        pass


def test_a_start_whose_span_cannot_end_leaves_nothing_current() -> None:
    provider = TracerProvider()
    provider.add_span_processor(BrokenEnd())
    with a_log(logging.ERROR):
        everything(Reporter(VirtualClock(), tracer_provider=provider), copy_context())

    assert trace.get_current_span() is trace.INVALID_SPAN
