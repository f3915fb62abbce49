"""Spans of real runs: one trace from the start to the last step, wherever they are worked on."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import onward
from onward import App, Retry, Signal, step, workflow
from onward.errors import RunFailed
from tests.kit.watching import until, until_state, working
from tests.unit.telemetry.builders import SECRET

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan

ROOT = Path(__file__).parents[3]
word = Signal("word", str)


class Traced:
    """Spans that were made while a test ran."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("the user's")

    @property
    def spans(self) -> list[ReadableSpan]:
        return list(self._exporter.get_finished_spans())

    def tree(self) -> list[str]:
        """Return each span's way down from the root of its trace, without repetitions."""
        names = {_id(span): (_name(span), span) for span in self.spans}

        def way(span: ReadableSpan) -> str:
            above = None if span.parent is None else names.get(span.parent.span_id)
            return _name(span) if above is None else f"{way(above[1])} > {_name(span)}"

        return sorted({way(span) for span in self.spans})


def _id(span: ReadableSpan) -> int:
    assert span.context is not None
    return int(span.context.span_id)


def _name(span: ReadableSpan) -> str:
    about = span.attributes or {}
    what = about.get("onward.step") or about.get("onward.workflow") or ""
    return f"{span.name.removeprefix('onward.')} {what}".strip()


def facts(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Traced:
    """Let OpenTelemetry's global provider be one of the test's own: there is one a process."""
    made = Traced()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made.provider)
    return made


@step
async def near(what: str) -> str:
    with trace.get_tracer_provider().get_tracer("the user's").start_as_current_span("own work"):
        return what


@step(queue="far")
async def far(what: str) -> str:
    return what


@step(retry=Retry(attempts=2, delay="1ms"))
async def second_time(what: str) -> str:
    if onward.current().attempt == 1:
        raise ConnectionError(what)
    return what


@workflow
async def traced_child(what: str) -> str:
    return await far(what)


@workflow
async def traced_parent(what: str) -> str:
    await near(what)
    return await traced_child(what)


@workflow
async def traced_starter(what: str) -> str:
    child = await onward.start(traced_child.options(id=f"{what}-child"), what)
    return await child.result()


@workflow
async def traced_secret(what: str) -> str:
    heard = await second_time(what) + await word.wait() + await traced_child(what)
    raise LookupError(heard)


@workflow
async def traced_waiter() -> str:
    return await word.wait()


@workflow
async def traced_series(n: int) -> int:
    if n:
        onward.continue_as_new(n - 1)
    return n


WAY = [
    "checkout",
    "checkout > start traced_parent",
    "checkout > start traced_parent > run traced_parent",
    "checkout > start traced_parent > run traced_parent > run traced_child",
    "checkout > start traced_parent > run traced_parent > run traced_child > run step far",
    "checkout > start traced_parent > run traced_parent > run traced_child > run step far"
    " > step far",
    "checkout > start traced_parent > run traced_parent > step near",
    "checkout > start traced_parent > run traced_parent > step near > own work",
]


async def test_one_trace_leads_from_a_start_to_a_routed_step_of_a_child(
    app: App, traced: Traced
) -> None:
    async with (
        working(app, workflows=[traced_parent, traced_child]) as here,
        app.worker(queues=["far"], workflows=[]) as there,
    ):
        with traced.tracer.start_as_current_span("checkout"):
            assert await app.run(traced_parent, "tea") == "tea"

    assert traced.tree() == WAY
    assert len({span.context.trace_id for span in traced.spans if span.context}) == 1
    who = {_name(span): facts(span).get("onward.worker") for span in traced.spans}
    assert who["run traced_child"] == who["step near"] == here.id
    assert who["run step far"] == who["step far"] == there.id


WORKER = """
import asyncio, json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from onward import App
from tests.sdk.telemetry.test_spans import traced_child, traced_parent

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)

async def main():
    app = App(sys.argv[1])
    async with app, app.worker(queues=["default", "far"], workflows=[traced_parent, traced_child]):
        print(await (await app.get("order-7")).result(timeout="60s"), file=sys.stderr)

asyncio.run(main())
for span in exporter.get_finished_spans():
    print(json.dumps([span.name, f"{span.context.trace_id:032x}", dict(span.attributes)]))
"""


@pytest.mark.parametrize("where", ["file", "postgres"])
async def test_a_trace_crosses_processes(
    where: str, request: pytest.FixtureRequest, tmp_path: Path, traced: Traced
) -> None:
    url = str(tmp_path / "app.db")
    if where == "postgres":
        url = request.getfixturevalue("postgres_url")
    async with App(url) as app:
        with traced.tracer.start_as_current_span("checkout"):
            await app.start(traced_parent.options(id="order-7"), "tea")

    command = [sys.executable, "-c", WORKER, url]
    answer = await asyncio.to_thread(
        subprocess.run, command, cwd=ROOT, capture_output=True, text=True, timeout=60
    )

    assert (answer.returncode, answer.stderr) == (0, "tea\n")
    [checkout] = [span.context for span in traced.spans if span.name == "checkout"]
    assert checkout is not None
    told = [json.loads(line) for line in answer.stdout.splitlines()]
    assert {name for name, _, _ in told} == {"onward.run", "onward.step", "own work"}
    assert {trace_id for _, trace_id, _ in told} == {f"{checkout.trace_id:032x}"}


async def test_a_child_with_an_id_of_its_own_is_in_the_trace_too(app: App, traced: Traced) -> None:
    async with working(app, queues=["default", "far"], workflows=[traced_starter, traced_child]):
        assert await app.run(traced_starter, "tea") == "tea"

    assert "start traced_starter > run traced_starter > run traced_child > run step far" in (
        traced.tree()
    )


async def test_a_run_that_goes_on_as_a_new_one_stays_in_its_trace(app: App, traced: Traced) -> None:
    async with working(app, workflows=[traced_series]):
        assert await app.run(traced_series, 2) == 0

    assert traced.tree() == [
        "start traced_series",
        "start traced_series > run traced_series",
    ]
    ends = [facts(span).get("onward.reason") for span in traced.spans if span.name == "onward.run"]
    assert ends == ["continued", "continued", None]


async def test_every_stay_with_a_worker_is_a_span_that_says_how_it_ended(
    app: App, traced: Traced
) -> None:
    async with working(app, workflows=[traced_waiter]):
        run = await app.start(traced_waiter)
        await until_state(run, "waiting")
        await run.signal(word, "hello")
        await run.result(timeout="60s")

        async def both_reported() -> bool:
            return len(traced.spans) >= 3

        await until(both_reported)

    stays = [facts(span) for span in traced.spans if span.name == "onward.run"]
    assert [stay["onward.state"] for stay in stays] == ["waiting", "succeeded"]


async def test_a_secret_is_in_no_span(app: App, traced: Traced) -> None:
    async with working(app, queues=["default", "far"], workflows=[traced_secret, traced_child]):
        run = await app.start(traced_secret, SECRET)
        await run.signal(word, SECRET)
        with pytest.raises(RunFailed, match=SECRET):
            await run.result(timeout="60s")

    shown = "\n".join(span.to_json() for span in traced.spans)
    assert "ConnectionError" in shown
    assert "LookupError" in shown
    assert SECRET not in shown


async def test_the_sync_app_starts_below_the_callers_own_span(url: str, traced: Traced) -> None:
    def work() -> None:
        app = App(url).sync()
        checkout = traced.tracer.start_as_current_span("checkout")
        with app, app.worker(queues=["default", "far"], workflows=[traced_child]), checkout:
            app.run(traced_child, "tea")

    await asyncio.to_thread(work)

    assert "checkout > start traced_child > run traced_child > run step far > step far" in (
        traced.tree()
    )


async def test_a_start_in_a_transaction_of_the_users_own_is_in_its_trace(
    tmp_path: Path, traced: Traced
) -> None:
    path = tmp_path / "app.db"
    app = App(str(path))
    async with working(app, queues=["default", "far"], workflows=[traced_child]):
        with closing(sqlite3.connect(path)) as own, traced.tracer.start_as_current_span("checkout"):
            own.execute("BEGIN IMMEDIATE")
            run = await app.within(own).start(traced_child, "tea")
            own.commit()
        assert await run.result(timeout="60s") == "tea"

    assert "checkout > start traced_child > run traced_child > run step far > step far" in (
        traced.tree()
    )
