"""Effects and code that has changed: what was sent is never silently sent otherwise."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, NotApplied, Retry, Signal, effect, effect_key, step, workflow
from onward.errors import RunOver
from tests.kit.deploys import deployed
from tests.kit.ledgers import effect_of
from tests.kit.watching import until_state, working

if TYPE_CHECKING:
    from onward import Run, Workflow

sent: list[tuple[str, str]] = []
does: list[BaseException] = []
go = Signal("go", str)


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    sent.clear()
    does.clear()


def act(text: str) -> str:
    sent.append((text, effect_key()))
    if does:
        raise does.pop(0)
    return text


@effect(retry=Retry(attempts=1), name="ship")
async def ship(text: str) -> str:
    return act(text)


@effect(name="dispatch")
async def dispatch(text: str) -> str:
    return act(text)


def version(what: Any, *, strict: bool = False) -> Workflow[..., Any]:
    async def flow() -> str:
        first = "" if what is None else await what[0](what[1])
        return f"{first} {await go.wait()}"

    return deployed(flow, strict=strict)


async def waits_in(app: App, old: Workflow[..., Any]) -> Run[Any]:
    async with app.worker(workflows=[old]):
        run = await app.start(old)
        await until_state(run, "waiting", "paused")
    await run.signal(go, "on")
    return run


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    "new", [(dispatch, "a"), (ship, "b"), None], ids=["renamed", "other arguments", "removed"]
)
async def test_an_effect_that_happened_must_be_asked_for_as_it_was(
    app: App, new: Any, strict: bool
) -> None:
    async with app:
        run = await waits_in(app, version((ship, "a"), strict=strict))
        async with working(app, workflows=[version(new, strict=strict)]):
            await until_state(run, "paused")
            info = await run.info()
            assert info.reason == "divergence"
            assert info.error is not None
            assert "ship" in info.error
    assert [text for text, _ in sent] == ["a"]


async def test_an_effect_that_is_uncertain_must_be_asked_for_as_it_was(app: App) -> None:
    does[:] = [ConnectionError("lost")]
    async with app:
        old, new = version((ship, "a")), version((ship, "b"))
        async with app.worker(workflows=[old]):
            run = await app.start(old)
            info = await effect_of(app, run, "indeterminate")
            await until_state(run, "paused")
        async with working(app, workflows=[new]):
            await app.effects.resolve(info.id, "skip", reason="never mind")

            async def is_parked() -> bool:
                return (await run.info()).reason == "divergence"

            async with asyncio.timeout(60):
                while not await is_parked():  # noqa: ASYNC110 - the worker has no one to tell us
                    await asyncio.sleep(0.005)
    assert [text for text, _ in sent] == ["a"]


wanted = ["first"]


@workflow
async def as_wanted() -> str:
    return await ship(wanted[0])


async def test_a_retry_with_other_arguments_is_parked_and_sends_nothing(app: App) -> None:
    does[:] = [NotApplied("no")]
    wanted[0] = "first"
    async with working(app):
        run = await app.start(as_wanted)
        await until_state(run, "failed")
        wanted[0] = "second"
        again = await app.retry(run.id)
        await until_state(again, "paused")

        info = await again.info()
        assert info.reason == "divergence"
        assert info.error is not None
        assert "ship" in info.error
        [effect_info] = await app.effects.of(run.id) or [await app.effects.get(sent[0][1])]
        assert effect_info.arguments == {"text": "first"}
    assert [text for text, _ in sent] == ["first"]


async def test_a_run_that_waits_for_a_verdict_is_not_retried(app: App) -> None:
    does[:] = [ConnectionError("lost")]
    wanted[0] = "first"
    async with working(app):
        run = await app.start(as_wanted)
        await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")
        with pytest.raises(RunOver, match="one of its effects is uncertain"):
            await app.retry(run.id)


@step(retry=Retry(attempts=1))
async def fragile() -> None:
    if does:
        raise does.pop(0)


@workflow
async def beside_a_failure() -> str:
    task = asyncio.ensure_future(ship("a"))
    await go.wait()
    await fragile()
    return await task


async def test_a_retry_of_a_run_that_failed_beside_an_uncertain_effect_hears_its_verdict(
    app: App,
) -> None:
    does[:] = [ConnectionError("lost"), ValueError("of the step")]
    async with working(app):
        run = await app.start(beside_a_failure)
        info = await effect_of(app, run, "indeterminate")
        await run.signal(go, "on")
        await until_state(run, "failed")
        assert [each.run_state for each in await app.effects.pending()] == ["failed"]
        again = await app.retry(run.id)
        await until_state(again, "paused")
        assert (await again.info()).reason == "reconciliation"

        await app.effects.resolve(info.id, "applied", result="it did", reason="looked")

        assert await again.result(timeout="60s") == "it did"
    assert len(sent) == 1


async def test_a_retry_of_a_run_that_was_forced_to_end_finds_its_effect_in_flight(app: App) -> None:
    async with working(app):
        run = await app.start(hangs)
        await effect_of(app, run, "in_flight")
        await run.cancel(force=True)
        again = await app.retry(run.id)
        info = await effect_of(app, again, "indeterminate")
        await until_state(again, "paused")

        assert info.run_uid == again.uid
        await app.effects.resolve(info.id, "applied", result="it did", reason="looked")
        assert await again.result(timeout="60s") == "it did"
    assert len(sent) == 1


@effect
async def hanging(text: str) -> str:
    act(text)
    await asyncio.Event().wait()
    return text


@workflow
async def hangs() -> str:
    return await hanging("a")


async def test_a_fork_beside_an_uncertain_run_sends_another_effect(app: App) -> None:
    does[:] = [ConnectionError("lost")]
    wanted[0] = "first"
    async with working(app):
        run = await app.start(as_wanted)
        await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")
        fork = await app.fork(run.id, new_id="beside", resend=True)
        assert await fork.result(timeout="60s") == "first"
        assert len({key for _, key in sent}) == 2
        assert [each.run for each in await app.effects.pending()] == [run.id]
