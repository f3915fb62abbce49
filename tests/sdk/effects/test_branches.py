"""Effects among other branches: shielded, cancelled, forced, and uncertain while others go on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onward
from onward import App, Signal, effect, effect_key, step, workflow
from onward.errors import EffectSkipped, VerdictRefused
from tests.kit.ledgers import effect_of, outcomes, states_of
from tests.kit.watching import until, until_state, working

sent: list[tuple[str, str]] = []
seen: list[str] = []
gates: dict[str, asyncio.Event] = {}
go = Signal("go", str)


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    sent.clear()
    seen.clear()
    gates.clear()


def gate(name: str) -> asyncio.Event:
    return gates.setdefault(name, asyncio.Event())


@effect
async def gated(name: str) -> str:
    sent.append((name, effect_key()))
    await gate(name).wait()
    return name


@effect
async def vague(name: str) -> str:
    sent.append((name, effect_key()))
    raise ConnectionError(name)


@effect
async def sure(name: str) -> str:
    sent.append((name, effect_key()))
    return name


@step
async def note(text: str) -> str:
    seen.append(text)
    return text


@step(retry=onward.Retry(attempts=1))
async def breaks() -> None:
    raise ValueError("a sibling")


async def is_sent(name: str) -> None:
    async def there() -> bool:
        return any(each == name for each, _ in sent)

    await until(there)


# --- an await on an effect is shielded ------------------------------------------------------------


@workflow
async def in_time() -> str:
    try:
        async with asyncio.timeout(0.02):
            await gated("a")
    except TimeoutError:
        return await note("too slow")
    return "in time"


@workflow
async def waited_for() -> str:
    try:
        await asyncio.wait_for(gated("a"), 0.02)
    except TimeoutError:
        return await note("too slow")
    return "in time"


@pytest.mark.parametrize("started", [in_time, waited_for], ids=["timeout", "wait_for"])
async def test_a_timeout_is_delivered_when_the_ledger_has_settled(
    app: App, started: onward.Workflow[[], str]
) -> None:
    async with working(app):
        run = await app.start(started)
        await is_sent("a")

        async def has_rung() -> bool:
            return "sleep" in [name for name, _ in await outcomes(run)]

        await until(has_rung)
        assert seen == []
        assert await states_of(app, run) == {"gated": "in_flight"}
        gate("a").set()

        assert await run.result(timeout="60s") == "too slow"
        assert await states_of(app, run) == {"gated": "applied"}
        assert [name for name, _ in await outcomes(run)] == ["sleep", "gated", "note"]


@workflow
async def with_a_sibling() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(gated("a"))
            group.create_task(breaks())
    except* ValueError:
        seen.append("failed")
    return "over"


@workflow
async def gathered() -> str:
    try:
        await asyncio.gather(gated("a"), breaks())
    except ValueError:
        await note("failed")
    return "over"


async def test_a_sibling_that_fails_waits_for_an_effect_in_flight(app: App) -> None:
    async with working(app):
        run = await app.start(with_a_sibling)
        await is_sent("a")

        async def has_failed() -> bool:
            return ("breaks", "failed") in await outcomes(run)

        await until(has_failed)
        assert seen == []
        gate("a").set()
        assert await run.result(timeout="60s") == "over"
        assert await states_of(app, run) == {"gated": "applied"}


async def test_a_run_does_not_end_before_an_effect_that_is_no_longer_awaited(app: App) -> None:
    async with working(app):
        run = await app.start(gathered)
        await is_sent("a")

        async def has_failed() -> bool:
            return ("note", "succeeded") in await outcomes(run)

        await until(has_failed)
        assert await run.state() == "running"
        gate("a").set()
        assert await run.result(timeout="60s") == "over"
        assert await states_of(app, run) == {"gated": "applied"}


@workflow
async def cleans_up() -> str:
    try:
        await gated("work")
        await note("never")
    finally:
        await sure("undo")
    return "done"


async def test_a_cancel_is_delivered_when_the_ledger_has_settled_and_finally_may_send(
    app: App,
) -> None:
    async with working(app):
        run = await app.start(cleans_up)
        await is_sent("work")
        assert await run.cancel()

        async def is_heard() -> bool:
            return "cancel" in [name for name, _ in await outcomes(run)]

        await until(is_heard)
        assert await states_of(app, run) == {"gated": "in_flight"}
        gate("work").set()
        await until_state(run, "cancelled")

        assert [name for name, _ in sent] == ["work", "undo"]
        assert seen == []
        assert set((await states_of(app, run)).values()) == {"applied"}


async def test_a_run_whose_grace_is_over_leaves_its_effect_to_the_operator(app: App) -> None:
    async with working(app):
        run = await app.start(cleans_up)
        await is_sent("work")
        await run.cancel(grace="20ms")
        await until_state(run, "cancelled")

        [info] = await app.effects.pending()
        assert (info.name, info.state, info.run_state) == ("gated", "in_flight", "cancelled")
    assert [name for name, _ in sent] == ["work"]


@effect(timeout="1s", settle="0s", start_within="1s")
async def short_and_gated(name: str) -> str:
    sent.append((name, effect_key()))
    await gate(name).wait()
    return name


@workflow
async def forced() -> str:
    return await short_and_gated("a")


async def test_an_effect_of_a_run_that_was_ended_by_force_is_judged_afterwards(app: App) -> None:
    async with working(app):
        run = await app.start(forced)
        await is_sent("a")
        await run.cancel(force=True)
        [info] = await app.effects.pending()
        assert (info.state, info.run_state) == ("in_flight", "cancelled")

        async def is_judged() -> bool:
            try:
                await app.effects.resolve(info.id, "applied", result="a", reason="looked")
            except VerdictRefused:
                return False
            return True

        await until(is_judged)
        assert await app.effects.pending() == []
        assert (await app.effects.get(info.id)).state == "applied"
        assert await run.state() == "cancelled"


@workflow
async def leaves_it() -> str:
    task = asyncio.ensure_future(gated("a"))
    await note("begun")
    assert not task.done()
    return "done"


async def test_a_run_ends_when_an_effect_that_was_not_awaited_has_settled(app: App) -> None:
    async with working(app):
        run = await app.start(leaves_it)
        await is_sent("a")

        async def has_noted() -> bool:
            return ("note", "succeeded") in await outcomes(run)

        await until(has_noted)
        assert await run.state() == "running"
        gate("a").set()
        assert await run.result(timeout="60s") == "done"
        assert await states_of(app, run) == {"gated": "applied"}


@workflow
async def leaves_it_uncertain() -> str:
    task = asyncio.ensure_future(vague("a"))
    await go.wait()
    assert not task.done()
    return "done"


async def test_a_run_that_does_not_wait_for_its_uncertain_effect_leaves_it_to_the_operator(
    app: App,
) -> None:
    async with working(app):
        run = await app.start(leaves_it_uncertain)
        await effect_of(app, run, "indeterminate")
        await run.signal(go, "on")
        assert await run.result(timeout="60s") == "done"

        [info] = await app.effects.pending()
        assert (info.state, info.run_state) == ("indeterminate", "succeeded")
        info = await app.effects.resolve(info.id, "skip", reason="never mind")
        assert info.state == "skipped"


# --- one branch is uncertain ----------------------------------------------------------------------


async def branch(name: str) -> str:
    try:
        return await vague(name)
    except EffectSkipped:
        return "skipped"


async def listens() -> str:
    heard = await go.wait()
    return await sure(heard)


@workflow
async def beside_a_signal() -> list[str]:
    return list(await asyncio.gather(branch("a"), listens()))


@workflow
async def beside_a_timer() -> list[Any]:
    async def naps() -> str:
        await onward.sleep("50ms")
        return await note("awake")

    return list(await asyncio.gather(branch("a"), naps()))


@workflow
async def child() -> str:
    return await go.wait()


@workflow
async def beside_a_child() -> list[str]:
    return list(await asyncio.gather(branch("a"), child.options(id="the child")()))


@pytest.mark.parametrize("warm", [0, 1000])
async def test_siblings_go_on_and_the_run_pauses_when_nothing_can_move(app: App, warm: int) -> None:
    async with working(app, warm=warm):
        run = await app.start(beside_a_signal)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "waiting")
        await run.signal(go, "b")
        await until_state(run, "paused")

        assert (await run.info()).reason == "reconciliation"
        assert [name for name, _ in sent] == ["a", "b"]
        await app.effects.resolve(info.id, "skip", reason="never mind")
        assert await run.result(timeout="60s") == ["skipped", "b"]
        assert [name for name, _ in sent] == ["a", "b"]


async def test_a_verdict_is_heard_while_a_sibling_still_waits(app: App) -> None:
    async with working(app):
        run = await app.start(beside_a_signal)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "waiting")
        await app.effects.resolve(info.id, "applied", result="a did", reason="looked")

        async def is_handed_over() -> bool:
            return ("vague", "succeeded") in await outcomes(run)

        await until(is_handed_over)
        await until_state(run, "waiting")
        await run.signal(go, "b")
        assert await run.result(timeout="60s") == ["a did", "b"]


async def test_a_timer_beside_an_uncertain_effect_goes_off(app: App) -> None:
    async with working(app):
        run = await app.start(beside_a_timer)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")
        assert seen == ["awake"]
        await app.effects.resolve(info.id, "skip", reason="never mind")
        assert await run.result(timeout="60s") == ["skipped", "awake"]
        assert seen == ["awake"]


async def test_a_child_beside_an_uncertain_effect_is_heard(app: App) -> None:
    async with working(app):
        run = await app.start(beside_a_child)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "waiting")
        await app.signal("the child", go, "grown")
        await until_state(run, "paused")
        await app.effects.resolve(info.id, "skip", reason="never mind")
        assert await run.result(timeout="60s") == ["skipped", "grown"]


# --- pause and resume -----------------------------------------------------------------------------


@workflow
async def sends_two() -> list[str]:
    return [await gated("a"), await sure("b")]


async def test_a_paused_run_lets_a_call_come_to_its_end_and_sends_no_other(app: App) -> None:
    async with working(app) as worker:
        run = await app.start(sends_two)
        await is_sent("a")
        await app.pause(run.id)

        async def is_held() -> bool:
            return worker.running[run.uid]._is_held

        await until(is_held)
        gate("a").set()
        await until_state(run, "paused")
        assert await states_of(app, run) == {"gated": "applied"}
        assert [name for name, _ in sent] == ["a"]

        await app.resume(run.id)
        assert await run.result(timeout="60s") == ["a", "b"]


async def test_a_resume_does_not_touch_an_uncertain_effect(app: App) -> None:
    async with working(app):
        run = await app.start(forgets)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")
        await app.resume(run.id)

        assert (await run.state(), (await run.info()).reason) == ("paused", "reconciliation")
        again = await app.effects.get(info.id)
        assert (again.state, again.version) == ("indeterminate", info.version)
        await app.effects.resolve(info.id, "skip", reason="never mind")
        assert await run.result(timeout="60s") == "skipped"
    assert len(sent) == 1


@workflow
async def forgets() -> str:
    return await branch("a")


async def test_a_verdict_in_a_run_that_an_operator_paused_counts_when_it_is_resumed(
    app: App,
) -> None:
    async with working(app):
        run = await app.start(beside_a_signal)
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "waiting")
        await app.pause(run.id)
        await until_state(run, "paused")
        assert (await run.info()).reason == "operator"
        await app.effects.resolve(info.id, "skip", reason="never mind")
        await run.signal(go, "b")
        assert await run.state() == "paused"

        await app.resume(run.id)
        assert await run.result(timeout="60s") == ["skipped", "b"]
