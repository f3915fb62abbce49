"""`app.why`: what keeps a run from running, and the next move."""

from __future__ import annotations

import asyncio

import onward
from onward import App, NotApplied, Retry, Signal, effect, step, workflow
from tests.kit.watching import until, until_state

go = Signal("go", int)


@workflow
async def waits_twice() -> int:
    await onward.sleep("10ms")
    return await go.wait(timeout="1d")


@workflow
async def naps() -> None:
    await onward.sleep("1d")


@effect(timeout="1s", settle="1ms")
async def vanishes() -> None:
    raise TimeoutError


@workflow
async def sends() -> None:
    await vanishes()


@effect(retry=Retry(attempts=5, delay="1h", max_delay="1h", jitter=0), timeout="1s")
async def is_refused() -> None:
    raise NotApplied("busy")


@workflow
async def sends_again() -> None:
    await is_refused()


@step
async def blocks() -> None:
    await asyncio.Event().wait()


@workflow
async def occupies() -> None:
    await blocks()


@step
async def works() -> int:
    return 1


@workflow
async def ends() -> int:
    return await works()


async def kinds(app: App, run_id: str) -> list[tuple[str, str]]:
    return [(each.kind, each.next) for each in await app.why(run_id)]


async def test_a_run_that_has_ended_has_no_blockers() -> None:
    app = App(":memory:")
    async with app, app.worker(workflows=[ends]):
        run = await app.start(ends.options(id="done"))
        await run.result(timeout="60s")

        assert await app.why("done") == []


async def test_a_wait_for_a_signal_names_the_command_that_sends_it() -> None:
    app = App(":memory:")
    async with app, app.worker(workflows=[waits_twice]):
        run = await app.start(waits_twice.options(id="order 7"))

        async def asks() -> bool:
            expected = ("signal", "onward runs signal 'order 7' go VALUE")
            return await kinds(app, run.id) == [expected]

        await until(asks)
        [blocker] = await app.why(run.id)
        assert blocker.text.startswith("it is waiting for signal go (since 2")
        assert ", until 2" in blocker.text


async def test_a_sleep_says_when_it_ends() -> None:
    app = App(":memory:")
    async with app, app.worker(workflows=[naps]):
        run = await app.start(naps.options(id="nap"))
        await until_state(run, "waiting")

        [blocker] = await app.why("nap")
        assert (blocker.kind, blocker.next[:14]) == ("timer", "Wait until 202")


async def test_a_run_that_no_worker_takes_says_why() -> None:
    async with App(":memory:") as app:
        await app.start(naps.options(id="lonely"))

        [blocker] = await app.why("lonely")
        assert (blocker.kind, blocker.text) == ("worker", "no worker serves queue 'default'")


async def test_a_paused_run_names_the_command_that_resumes_it() -> None:
    app = App(":memory:")
    async with app, app.worker(workflows=[naps]):
        run = await app.start(naps.options(id="held"))
        await until_state(run, "waiting")
        await app.pause("held")
        await until_state(run, "paused")

        assert ("paused", "onward runs resume held") in await kinds(app, "held")


async def test_an_uncertain_effect_names_the_command_that_shows_its_verdicts() -> None:
    app = App(":memory:")
    async with app, app.worker(workflows=[sends]):
        run = await app.start(sends.options(id="sent"))
        await until_state(run, "paused")
        [sent] = await app.effects.pending()

        assert await kinds(app, "sent") == [("verdict", f"onward effects show {sent.id}")]


async def test_a_delayed_start_says_when_the_run_starts() -> None:
    app = App(":memory:")
    async with app, app.worker(workflows=[naps]):
        await app.start(naps.options(id="later", delay="1d"))

        [blocker] = await app.why("later")
        assert blocker.kind == "delay"
        assert blocker.text.startswith("it starts at 2")
        assert blocker.next.startswith("Wait until 2")


async def test_an_effect_that_is_sent_again_names_the_command_that_shows_it() -> None:
    app = App(":memory:")
    async with app, app.worker(workflows=[sends_again]):
        run = await app.start(sends_again.options(id="again"))
        await until_state(run, "waiting")

        [blocker] = await app.why("again")
        assert blocker.kind == "effect"
        assert blocker.text.startswith(
            "effect is_refused is failed and is waiting for its next send"
        )
        assert blocker.next.startswith("onward effects show ")


async def test_a_run_behind_full_workers_says_that_no_slot_is_free() -> None:
    app = App(":memory:")
    async with app, app.worker(workflows=[occupies, naps], slots=1):
        await until_state(await app.start(occupies.options(id="first")), "running")
        await app.start(naps.options(id="second"))

        [blocker] = await app.why("second")
        assert blocker.kind == "slots"
        assert blocker.text == "all slots of the worker that could take the run are in use"


async def test_a_run_of_a_paused_workflow_names_the_command_that_resumes_it() -> None:
    app = App(":memory:")
    async with app, app.worker(workflows=[naps]):
        await app.queues.pause(workflow="naps")
        await app.start(naps.options(id="kept"))

        [blocker] = await app.why("kept")
        assert blocker.kind == "paused"
        assert blocker.next.startswith("onward queues resume")
