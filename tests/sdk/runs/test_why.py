"""`app.why`: what keeps a run from running, and the next move."""

from __future__ import annotations

import onward
from onward import App, Signal, effect, step, workflow
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
        assert blocker.text.startswith("it waits for signal go, since 2")
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
