"""Logs, metrics and spans of effects, and calls of `on_attention`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from onward import App, NotApplied, Retry, Signal, Unknown, effect, workflow
from onward.telemetry import RunFilter
from tests.kit.ledgers import effect_of
from tests.kit.watching import until, until_state, working
from tests.unit.telemetry.builders import SECRET, Counted, a_log

if TYPE_CHECKING:
    from pathlib import Path

    from onward.telemetry import Attention

go = Signal("go", str)
does: list[BaseException] = []
shop_log = logging.getLogger("effects shop")


@pytest.fixture(autouse=True)
def _nothing_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    does.clear()
    soon = Retry(attempts=1, delay="1ms", max_delay="1ms")
    monkeypatch.setattr("onward.core.effect.machine.RECONCILING", soon)


def act() -> None:
    shop_log.info("sending")
    if does:
        raise does.pop(0)


async def look_up(card: str, *, key: str) -> Unknown:
    shop_log.info("asking")
    return Unknown()


@effect(retry=Retry(attempts=2, delay="1ms"))
async def pay(card: str) -> str:
    act()
    return "paid"


@effect(idempotency_window="1h", retry=Retry(attempts=2, delay="1ms"))
async def pay_by_key(card: str) -> str:
    act()
    return "paid"


@effect(timeout="10ms")
async def pay_slowly(card: str) -> str:
    await asyncio.Event().wait()
    return "paid"


@effect(reconcile=look_up)
async def pay_and_look(card: str) -> str:
    act()
    return "paid"


@effect(approve=True)
async def thank(card: str) -> str:
    act()
    return "thanked"


@workflow
async def pays() -> str:
    return await pay(SECRET)


@workflow
async def pays_by_key() -> str:
    return await pay_by_key(SECRET)


@workflow
async def pays_slowly() -> str:
    return await pay_slowly(SECRET)


@workflow
async def pays_and_looks() -> str:
    return await pay_and_look(SECRET)


@workflow
async def both() -> list[str]:
    return list(await asyncio.gather(pay(SECRET), thank("Ada"), go.wait()))


class Bell:
    """Keeps what it is called with."""

    def __init__(self) -> None:
        self.told: list[Attention] = []

    async def __call__(self, item: Attention) -> None:
        self.told.append(item)

    async def rings(self, times: int) -> None:
        async def there() -> bool:
            return len(self.told) >= times

        await until(there)


def steps(metrics: Counted) -> list[tuple[Any, ...]]:
    return [
        (told["step"], told["outcome"], told["retrying"])
        for name, told in metrics.calls
        if name == "step_ended"
    ]


# --- attempts -------------------------------------------------------------------------------------


async def test_attempts_of_effects_are_counted_as_those_of_steps() -> None:
    metrics = Counted()
    does[:] = [NotApplied("busy")]
    app = App(":memory:", metrics=metrics)
    async with working(app):
        assert await app.run(pays) == "paid"

    assert steps(metrics) == [("pay", "failed", True), ("pay", "succeeded", False)]


async def test_that_an_uncertain_call_is_made_again_is_counted() -> None:
    metrics = Counted()
    does[:] = [ConnectionError("lost")]
    app = App(":memory:", metrics=metrics)
    async with working(app):
        assert await app.run(pays_by_key) == "paid"

    assert steps(metrics) == [("pay_by_key", "failed", True), ("pay_by_key", "succeeded", False)]


async def test_an_attempt_that_took_too_long_is_counted_as_such() -> None:
    metrics = Counted()
    app = App(":memory:", metrics=metrics)
    async with working(app):
        run = await app.start(pays_slowly)
        await effect_of(app, run, "indeterminate")

    assert steps(metrics) == [("pay_slowly", "timed_out", False)]


async def test_attempts_are_logged_without_their_arguments(memory: App) -> None:
    does[:] = [NotApplied("busy"), ConnectionError("lost")]
    with a_log() as log:
        async with working(memory):
            run = await memory.start(pays)
            await effect_of(memory, run, "indeterminate")
            await until_state(run, "paused")

    told = [event for event in log.events if str(event).startswith(("step", "effect"))]
    assert told == ["step.retried", "step.failed", "effect.waits"]
    assert [line for line in log.lines if "attempt=2" in line] == [
        f'step.failed: run={run.id} kind=effect step=pay attempt=2 error="ConnectionError: lost"'
    ]
    assert SECRET not in "\n".join(map(logging.Formatter().format, log.records))


async def test_an_attempt_that_is_reconciled_next_is_not_logged_as_the_last_one(
    memory: App,
) -> None:
    does[:] = [ConnectionError("lost")]
    with a_log() as log:
        async with working(memory):
            run = await memory.start(pays_and_looks)
            await effect_of(memory, run, "indeterminate")
            await until_state(run, "paused")

    told = [event for event in log.events if str(event).startswith(("step", "effect"))]
    assert told == ["effect.uncertain", "effect.waits"]
    [line] = [line for line in log.lines if line.startswith("effect.uncertain")]
    facts = 'kind=effect step=pay_and_look attempt=1 error="ConnectionError: lost"'
    assert line == f"effect.uncertain: run={run.id} {facts}"


@pytest.mark.parametrize(("level", "is_shown"), [(logging.INFO, False), (logging.DEBUG, True)])
async def test_the_traceback_of_a_lost_reply_is_logged_only_for_debugging(
    memory: App, level: int, *, is_shown: bool
) -> None:
    does[:] = [ConnectionError("lost")]
    with a_log(level) as log:
        async with working(memory):
            run = await memory.start(pays_and_looks)
            await effect_of(memory, run, "indeterminate")

    [record] = [each for each in log.records if each.__dict__.get("event") == "effect.uncertain"]
    assert record.levelno == logging.WARNING
    assert ("Traceback" in logging.Formatter().format(record)) == is_shown


async def test_what_a_handler_and_a_reconciler_log_says_where_they_are(memory: App) -> None:
    does[:] = [ConnectionError("lost")]
    with a_log(logging.INFO, "effects shop") as log:
        log.addFilter(RunFilter())
        async with working(memory):
            run = await memory.start(pays_and_looks)
            await effect_of(memory, run, "indeterminate")

    places = [(record.getMessage(), vars(record)["step"]) for record in log.records]
    assert places == [("sending", "pay_and_look"), ("asking", "pay_and_look")]
    assert {vars(record)["run"] for record in log.records} == {run.id}


def test_an_attempt_is_a_span_below_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    does[:] = [NotApplied("busy")]

    async def work() -> None:
        app = App(":memory:")
        async with working(app):
            assert await app.run(pays) == "paid"

    asyncio.run(work())
    spans = exporter.get_finished_spans()
    facts = [dict(span.attributes or {}) for span in spans if span.name == "onward.step"]
    tries = [(each["onward.step"], each["onward.attempt"]) for each in facts]
    assert tries == [("pay", 1), ("pay", 2)]
    assert [each["onward.outcome"] for each in facts] == ["failed", "succeeded"]


# --- on_attention ---------------------------------------------------------------------------------


async def test_on_attention_is_called_once_for_each_effect_that_waits_while_siblings_continue(
    url: str,
) -> None:
    bell = Bell()
    app = App(url, on_attention=bell)
    does[:] = [ConnectionError("lost")]
    async with working(app, warm=0):
        run = await app.start(both)
        await bell.rings(2)
        await until_state(run, "waiting")
        charged = await effect_of(app, run, "indeterminate")
        planned = await effect_of(app, run, "planned")
        by_why = {told.why: told for told in bell.told}

        assert by_why["reconciliation"].effect == charged.id
        assert "'pay'" in by_why["reconciliation"].message
        assert "lost" in by_why["reconciliation"].message
        assert by_why["approval"].effect == planned.id
        assert {told.uid for told in bell.told} == {run.uid}

        await run.signal(go, "on")
        await until_state(run, "paused")
        await app.effects.resolve(charged.id, "applied", result="paid", reason="looked")
        await app.effects.approve(planned.id, reason="fine")
        assert await run.result(timeout="60s") == ["paid", "thanked", "on"]
    assert len(bell.told) == 2


async def test_on_attention_is_called_again_when_asking_again_did_not_help() -> None:
    bell = Bell()
    app = App(":memory:", on_attention=bell)
    does[:] = [ConnectionError("lost")]
    async with working(app):
        run = await app.start(pays_and_looks)
        info = await effect_of(app, run, "indeterminate")
        await bell.rings(1)
        await app.effects.resolve(info.id, "ask_again", reason="again")
        await bell.rings(2)
        await until_state(run, "paused")
    assert [told.why for told in bell.told] == ["reconciliation"] * 2


async def test_a_worker_that_finds_a_waiting_effect_does_not_call_on_attention(
    tmp_path: Path,
) -> None:
    first, second = Bell(), Bell()
    does[:] = [ConnectionError("lost")]
    url = str(tmp_path / "app.db")
    app = App(url, on_attention=first)
    async with app, app.worker():
        run = await app.start(pays_beside_a_signal)
        await effect_of(app, run, "indeterminate")
        await until_state(run, "waiting")
    app = App(url, on_attention=second)
    async with working(app):
        await app.signal(run.id, go, "on")
        await until_state(await app.get(run.id), "paused")
    assert (len(first.told), len(second.told)) == (1, 0)


@workflow
async def pays_beside_a_signal() -> list[str]:
    return list(await asyncio.gather(pay(SECRET), go.wait()))


@effect(idempotency_window="1d", retry=Retry(delay="1h", max_delay="1h"))
async def pay_into_the_dark() -> str:
    raise ConnectionError("lost")


@effect
async def pay_for_ever() -> str:
    await asyncio.Event().wait()
    return "paid"


@workflow
async def pays_until_it_is_cancelled(how: str) -> str:
    return await (pay_for_ever() if how == "in_flight" else pay_into_the_dark())


@pytest.mark.parametrize("state", ["in_flight", "needs_reconcile"])
async def test_on_attention_is_called_for_effects_left_when_the_grace_is_over(
    state: str,
) -> None:
    bell = Bell()
    app = App(":memory:", on_attention=bell)
    async with working(app):
        run = await app.start(pays_until_it_is_cancelled, state)
        info = await effect_of(app, run, state)
        await run.cancel(grace="10ms")
        await until_state(run, "cancelled")
        await bell.rings(1)

    assert [(item.run_id, item.effect, item.why) for item in bell.told] == [
        (run.id, info.id, "reconciliation")
    ]
    assert "its run no longer waits for it" in bell.told[0].message
