"""Logs and metrics of real runs: what they contain, in which order, and what they never contain."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import TYPE_CHECKING, TypeVar

import pytest

import onward
from onward import App, Retry, Signal, step, workflow
from onward.core.lease import LEASE, RENEW_EVERY
from onward.core.stay import STOPPING
from onward.engine.local_worker import LocalWorker
from onward.engine.store_renewer import StoreRenewer
from onward.engine.worker_engine import WorkerHooks
from onward.errors import BadInput, LeaseLost, RunFailed
from onward.runtime.worker.lease_renewer import LeaseRenewer
from onward.store.opening import open_store
from onward.telemetry import RunFilter
from onward.telemetry.metrics import METRICS
from onward.telemetry.reporter import Reporter
from onward.testing.clock import VirtualClock
from tests.kit.watching import until, until_state, working
from tests.unit.telemetry.builders import SECRET, Counted, Kept, a_log

if TYPE_CHECKING:
    from collections.abc import Iterator

T = TypeVar("T")

shop_log = logging.getLogger("shop")
word = Signal("word", str)
ONCE = Retry(attempts=1)
# Long enough that the run leaves its worker between two attempts, unless that is very slow.
APART = Retry(attempts=2, delay="60ms", jitter=0)


class Tries:
    """Counts attempts; a test resets it."""

    made: list[str] = []  # noqa: RUF012 - the tests of a file run one after the other
    go_on: asyncio.Event


@pytest.fixture(autouse=True)
def _no_tries() -> None:
    Tries.made.clear()


class Faulty(Counted):
    """Keeps every call, and then fails."""

    def _keeper(self, name: str) -> object:
        def failing(**facts: object) -> None:
            self.calls.append((name, facts))
            raise ZeroDivisionError("no metrics")

        return failing


@pytest.fixture
def lines() -> Iterator[Kept]:
    """What a user's own handler gets, with the filter of the guide."""
    with a_log(logging.INFO, "shop") as kept:
        kept.addFilter(RunFilter())
        yield kept


@step(retry=APART)
async def tried_twice(what: str) -> str:
    Tries.made.append(what)
    shop_log.info("trying")
    if len(Tries.made) == 1:
        raise ConnectionError("no way")
    return what


@step(retry=ONCE)
def refused(what: str) -> None:
    shop_log.info("refusing in %s", threading.current_thread().name.rpartition("-")[0])
    raise ValueError("it is refused")


@step(timeout="10ms", retry=ONCE)
async def endless() -> None:
    await asyncio.Event().wait()


@step
async def gated(what: str) -> str:
    Tries.made.append(what)
    await Tries.go_on.wait()
    return what


@workflow
async def tells_twice(what: str) -> str:
    return await tried_twice(what)


@workflow
async def tells_child(what: str) -> str:
    onward.current().attributes["what"] = what
    await tried_twice(what)
    return what


@workflow
async def tells_all(what: str) -> str:
    """Have the secret everywhere where a payload can be."""
    onward.current().progress(what)
    answer = await tells_child(what)
    for refusal in (refused(what), endless()):
        try:
            await refusal
        except (ValueError, TimeoutError):
            answer += await word.wait()
    raise LookupError(f"no use for {len(answer)} characters")


@workflow
async def talks() -> str:
    shop_log.info("before the step")
    await tried_twice("talk")
    shop_log.info("before the wait")
    try:
        said = await word.wait()
    finally:
        shop_log.info("after the wait")
    return said


@workflow
async def two_gates() -> str:
    return await gated("first") + await gated("second")


@workflow
async def waits_then_works() -> str:
    return await word.wait() + await gated("work")


@workflow
async def too_long() -> None:
    await endless()


def shown(records: list[logging.LogRecord]) -> str:
    """Return all text in records."""
    formatter = logging.Formatter()
    return "\n".join(f"{vars(each)} {formatter.format(each)}" for each in records)


def of_runs(counted: Counted) -> list[tuple[object, ...]]:
    """Return what was counted of runs and steps, without times."""
    kept = ("workflow", "step", "outcome", "retrying", "state", "reason")
    return [
        (name, *(facts[each] for each in kept if each in facts))
        for name, facts in counted.calls
        if name.startswith(("run_", "step_"))
    ]


def without(told: list[T], between: list[T]) -> list[T]:
    """Return the events of two attempts without those between them."""
    size = len(between)
    while told[2 : 2 + size] == between:  # a run that is woken as it parks is read back early
        told = told[:2] + told[2 + size :]
    return told


# --- logs -----------------------------------------------------------------------------------------


async def test_every_record_of_a_run_says_which_run_and_step_it_is_about(app: App) -> None:
    with a_log() as log:
        async with working(app, workflows=[tells_twice]) as worker:
            run = await app.start(tells_twice.options(id="order-7"), "sell")
            assert await run.result(timeout="60s") == "sell"
            identities = {row.identity for row in await run.history() if row.kind == "step"}

    told = [vars(each) for each in log.records if each.name in ("onward.run", "onward.step")]
    later = [each for each in told if each["event"] != "run.started"]
    between = ["run.waiting", "run.claimed"]
    assert without([each["event"] for each in later], between) == [
        "run.claimed",
        "step.retried",
        "step.succeeded",
        "run.succeeded",
    ]
    whose = {(each["run"], each["uid"], each["workflow"]) for each in told}
    assert whose == {("order-7", run.uid, "tells_twice")}
    assert {each["worker"] for each in later} == {worker.id}
    steps = [each for each in told if each["event"].startswith("step.")]
    assert [(each["step"], each["attempt"]) for each in steps] == [
        ("tried_twice", 1),
        ("tried_twice", 2),
    ]
    assert {each["identity"] for each in steps} == identities


async def test_the_error_of_a_step_and_of_a_run_is_logged_with_its_traceback(app: App) -> None:
    @workflow(name="tells_error")
    async def tells_error() -> None:
        await refused("tea")

    with a_log() as log:
        async with working(app, workflows=[tells_error]):
            with pytest.raises(RunFailed):
                await app.run(tells_error)

    failed = {vars(each)["event"]: vars(each) for each in log.records}
    for event in ("step.failed", "run.failed"):
        assert failed[event]["error"] == "ValueError: it is refused"
        assert failed[event]["error_type"] == "ValueError"
        assert 'raise ValueError("it is refused")' in failed[event]["exc_text"]
    assert failed["run.failed"]["reason"] == "logic"
    assert 'await refused("tea")' in failed["run.failed"]["exc_text"]


async def test_a_secret_in_payloads_is_in_no_record(url: str) -> None:
    app = App(url, metrics=Faulty(), on_attention=lambda _: None)
    with a_log(logging.DEBUG, "") as log:
        async with working(app, workflows=[tells_all, tells_child]):
            run = await app.start(tells_all, SECRET)
            await run.signal(word, SECRET)
            await run.signal("word", SECRET)
            with pytest.raises(RunFailed, match="no use for 57 characters"):
                await run.result(timeout="60s")

    events = {vars(each).get("event") for each in log.records}
    assert {"run.failed", "step.failed", "step.retried", "telemetry.failed"} <= events
    assert SECRET not in shown(log.records)


async def test_what_a_body_logs_is_not_repeated_when_it_is_replayed(app: App, lines: Kept) -> None:
    async with app:
        async with app.worker(workflows=[talks]):
            run = await app.start(talks)
            await until_state(run, "waiting")
            await until(lambda: _said(lines, "before the wait"))
        async with app.worker(workflows=[talks]):
            await run.signal(word, "hello")
            assert await run.result(timeout="60s") == "hello"

    own = [each.getMessage() for each in lines.records if vars(each)["step"] == ""]
    assert own == ["before the step", "before the wait", "after the wait"]
    assert {vars(each)["run"] for each in lines.records} == {run.id}


async def _said(lines: Kept, what: str) -> bool:
    return what in lines.lines


async def test_who_wants_to_see_a_replay_sees_it(app: App) -> None:
    with a_log(logging.INFO, "shop") as lines:
        lines.addFilter(RunFilter(replayed=True))
        async with app:
            async with app.worker(workflows=[talks]):
                run = await app.start(talks)
                await until(lambda: _said(lines, "before the wait"))
                await until_state(run, "waiting")
            async with app.worker(workflows=[talks]):
                await run.signal(word, "hello")
                await run.result(timeout="60s")

    assert lines.lines.count("before the step") == 2
    assert lines.lines.count("trying") == 2  # of a step nothing is replayed


async def test_a_line_from_a_step_names_the_step_and_the_attempt(app: App, lines: Kept) -> None:
    @workflow(name="tells_both")
    async def tells_both() -> None:
        await tried_twice("sell")
        await refused("tea")

    async with working(app, workflows=[tells_both]):
        with pytest.raises(RunFailed):
            await app.run(tells_both)

    told = [
        (vars(each)["step"], vars(each)["attempt"], each.getMessage()) for each in lines.records
    ]
    assert told == [
        ("tried_twice", 1, "trying"),
        ("tried_twice", 2, "trying"),
        ("refused", 1, "refusing in onward-step"),
    ]


# --- a worker that leaves -------------------------------------------------------------------------


async def test_a_run_that_a_leaving_worker_gives_back_is_logged(url: str) -> None:
    counted, Tries.go_on = Counted(), asyncio.Event()
    app = App(url, metrics=counted)
    with a_log() as log:
        async with app:
            async with app.worker(workflows=[two_gates]) as worker:
                run = await app.start(two_gates)
                await until(_is_gated)
                held = worker.running[run.uid]
                worker.stop()
                await until(lambda: _is_leaving(held))
                Tries.go_on.set()
            assert await run.state() == "ready"

    assert of_runs(counted)[-1] == ("run_parked", "two_gates", "ready", None)
    assert log.events.count("run.ready") == 1
    assert [each for each in log.events if each in ("worker.ready", "worker.left")] == [
        "worker.ready",
        "worker.left",
    ]


async def _is_gated() -> bool:
    return bool(Tries.made)


async def _is_leaving(held: object) -> bool:
    return vars(held)["_stay"] in STOPPING


async def test_a_worker_that_is_torn_down_says_so_of_what_it_held(url: str) -> None:
    counted, Tries.go_on = Counted(), asyncio.Event()
    app = App(url, metrics=counted)

    async def fail_at_work() -> None:
        async with app.worker(workflows=[two_gates]):
            await app.start(two_gates)
            await until(_is_gated)
            raise KeyError

    with a_log() as log:
        async with app:
            with pytest.raises(KeyError):
                await fail_at_work()

    assert sorted(of_runs(counted)) == [
        ("run_claimed", "two_gates"),
        ("run_parked", "two_gates", "ready", None),
        ("run_started", "two_gates"),
        ("step_ended", "two_gates", "gated", "cancelled", False),
    ]
    assert log.events[-1] == "worker.left"  # it was stopped, and has not failed


async def test_a_run_that_is_ended_by_force_is_logged_as_lost(url: str) -> None:
    counted, Tries.go_on = Counted(), asyncio.Event()
    app = App(url, metrics=counted)
    async with working(app, workflows=[waits_then_works]):
        run = await app.start(waits_then_works)
        await until_state(run, "waiting")
        await run.signal(word, "go")
        await until(_is_gated)
        await run.cancel(force=True)

        async def is_logged() -> bool:
            return of_runs(counted)[-1][0] == "step_ended"

        await until(is_logged)

    left = [each for each in of_runs(counted) if each[0] not in ("run_started", "run_claimed")]
    assert sorted(left) == [
        ("run_lost", "waits_then_works"),
        ("run_parked", "waits_then_works", "waiting", None),
        ("step_ended", "waits_then_works", "gated", "cancelled", False),
    ]


# --- metrics --------------------------------------------------------------------------------------


async def test_metrics_of_a_run_with_a_retried_step_arrive_in_order(url: str) -> None:
    counted = Counted()
    app = App(url, metrics=counted)
    async with working(app, workflows=[tells_twice]) as worker:
        assert await app.run(tells_twice.options(queue="default"), "sell") == "sell"

    told = of_runs(counted)
    told.remove(("run_started", "tells_twice"))
    claims = told.count(("run_claimed", "tells_twice"))
    between: list[tuple[object, ...]] = [
        ("run_parked", "tells_twice", "waiting", None),
        ("run_claimed", "tells_twice"),
    ]
    assert without(told, between) == [
        ("run_claimed", "tells_twice"),
        ("step_ended", "tells_twice", "tried_twice", "failed", True),
        ("step_ended", "tells_twice", "tried_twice", "succeeded", False),
        ("run_ended", "tells_twice", "succeeded", None),
    ]
    assert counted.names.count("queue_lag") == 1  # unknown for the second claim
    [ended] = [facts["seconds"] for name, facts in counted.calls if name == "run_ended"]
    assert isinstance(ended, float)
    assert 0.06 <= ended < 60
    took = [facts for name, facts in counted.calls if name in ("claim_took", "commit_took")]
    assert {facts["worker"] for facts in took} == {worker.id}
    assert sum(int(str(facts.get("runs", 0))) for facts in took) == claims
    # An attempt that failed, a wait if there was one, and a result with the end of the run.
    assert sum(int(str(facts.get("commits", 0))) for facts in took) >= 2 + claims


async def test_an_attempt_that_takes_too_long_is_logged_as_timed_out(url: str) -> None:
    counted = Counted()
    app = App(url, metrics=counted)
    async with working(app, workflows=[too_long]):
        with pytest.raises(RunFailed):
            await app.run(too_long)

    assert ("step_ended", "too_long", "endless", "timed_out", False) in of_runs(counted)
    assert of_runs(counted)[-1] == ("run_ended", "too_long", "failed", "logic")


async def test_metrics_that_fail_harm_no_run(url: str) -> None:
    faulty = Faulty()
    app = App(url, metrics=faulty)
    with a_log(logging.ERROR) as log:
        async with working(app, workflows=[tells_child, tells_twice, talks]):
            assert await app.run(tells_twice, "sell") == "sell"
            run = await app.start(talks)
            await run.signal(word, "hello")
            assert await run.result(timeout="60s") == "hello"
            states = [row.state for row in await run.history() if row.kind == "step"]

    assert Tries.made == ["sell", "sell", "talk"]  # nothing that succeeded is done again
    assert states == ["succeeded"]
    failed = [vars(each)["call"] for each in log.records]
    # A lease is renewed when it took long; no step is cached.
    expected = set(METRICS) - {"run_lost", "cache_read"}
    assert {*failed, "lease_renewed"} == expected
    assert len(failed) == len(set(failed))


async def test_the_sync_app_counts_too(url: str) -> None:
    counted = Counted()

    def work() -> str:
        with App(url, metrics=counted).sync() as app, app.worker(workflows=[tells_twice]):
            return app.run(tells_twice, "sell")

    assert await asyncio.to_thread(work) == "sell"
    assert of_runs(counted)[-1] == ("run_ended", "tells_twice", "succeeded", None)


def test_metrics_that_lack_a_method_are_refused_at_once() -> None:
    with pytest.raises(BadInput, match="Inherit from"):
        App(":memory:", metrics=object())  # type: ignore[arg-type]  # that is the point


async def test_a_lease_that_is_renewed_or_lost_is_logged() -> None:
    counted, clock = Counted(), VirtualClock()
    failures: list[Exception] = []
    reporter = Reporter(clock, metrics=counted)
    async with open_store(":memory:", clock=clock, spawn=None) as store:
        engine = LocalWorker(store, clock, None, "w", WorkerHooks())
        renewals = LeaseRenewer("w", LEASE, engine, clock, failures.append, reporter)
        renewer = StoreRenewer(store, "w")
        await store.take_lease("w", LEASE)
        clock.advance(RENEW_EVERY)
        await renewals.tick(renewer)
        await store.drop_lease("w")
        clock.advance(RENEW_EVERY)
        await renewals.tick(renewer)

    assert [facts["kept"] for _, facts in counted.calls] == [True, False]
    assert [type(each) for each in failures] == [LeaseLost]


@step(queue="default", retry=Retry(attempts=1))
async def routed(name: str) -> None:
    raise ValueError(f"no {name}")


async def test_a_routed_step_whose_error_is_handled_logs_no_failed_run(app: App) -> None:
    @workflow(name="handles_error")
    async def handles_error() -> str:
        try:
            await routed("tea")
        except ValueError:
            return "coffee"
        return "tea"

    with a_log() as log:
        async with working(app, workflows=[handles_error]):
            assert await app.run(handles_error) == "coffee"

    events = [vars(each).get("event") for each in log.records]
    assert "step.failed" in events
    assert "run.failed" not in events
