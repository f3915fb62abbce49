"""Effects that wait for approval, and effects that are sent at a limited rate."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from onward import App, NotApplied, Retry, effect, effect_key, workflow
from onward.errors import BadInput, NotFound, VerdictRefused
from onward.store.runs import flows
from tests.kit.ledgers import effect_of, outcomes
from tests.kit.watching import until, until_state, working

sent: list[tuple[Any, str, float]] = []
does: list[BaseException] = []


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    sent.clear()
    does.clear()


@effect(approve=True)
async def letter(lines: list[str]) -> int:
    sent.append((list(lines), effect_key(), 0))
    lines.append("changed by its handler")
    if does:
        raise does.pop(0)
    return len(lines)


@workflow
async def writes() -> str:
    lines = ["Dear Ada,"]
    task = asyncio.ensure_future(letter(lines))
    await asyncio.sleep(0)
    lines.append("changed by the body")
    try:
        return f"{await task} lines"
    except NotApplied as error:
        return str(error)


@workflow
async def must_write() -> int:
    return await letter(["Dear Bob,"])


async def test_what_is_to_be_approved_is_shown_and_sent_exactly_so(app: App) -> None:
    async with working(app):
        run = await app.start(writes)
        await until_state(run, "paused")
        [info] = await app.effects.pending()

        assert (await run.info()).reason == "approval"
        assert (info.state, info.needs_approval, info.attempt) == ("planned", True, 0)
        assert info.arguments == {"lines": ["Dear Ada,"]}
        assert sent == []
        told = await app.effects.approve(info.id, reason="fine", by="eve", version=info.version)
        assert (told.verdict, told.decided_by, told.decided_why) == ("approve", "eve", "fine")
        assert told.decided_at is not None
        assert await run.result(timeout="60s") == "2 lines"
        assert [(lines, key) for lines, key, _ in sent] == [(["Dear Ada,"], info.id)]


async def test_what_is_rejected_is_not_applied_and_never_sent(app: App) -> None:
    async with working(app):
        run = await app.start(writes)
        info = await effect_of(app, run, "planned")
        await app.effects.reject(info.id, reason="rude")

        assert await run.result(timeout="60s") == "effect 'letter' was rejected"
        assert (await app.effects.get(info.id)).state == "failed"
        assert await app.effects.pending() == []
    assert sent == []


async def test_a_retry_of_a_run_asks_again_for_what_was_rejected(app: App) -> None:
    async with working(app):
        run = await app.start(must_write)
        info = await effect_of(app, run, "planned")
        await app.effects.reject(info.id, reason="rude")
        await until_state(run, "failed")
        again = await app.retry(run.id)
        await until_state(again, "paused")

        [asked] = await app.effects.pending()
        assert (asked.id, asked.needs_approval, asked.run_uid) == (info.id, True, again.uid)
        await app.effects.approve(info.id, reason="on second thought")
        assert await again.result(timeout="60s") == 2
    assert len(sent) == 1


async def test_one_that_was_approved_and_did_not_happen_is_sent_again_without_asking(
    app: App,
) -> None:
    does[:] = [NotApplied("busy", after=0)]
    async with working(app):
        run = await app.start(must_write)
        info = await effect_of(app, run, "planned")
        await app.effects.approve(info.id, reason="fine")
        assert await run.result(timeout="60s") == 2
    assert len(sent) == 2


@pytest.mark.parametrize("warm", [0, 1000])
async def test_an_approval_wakes_a_run_also_if_it_left_memory(app: App, warm: int) -> None:
    async with working(app, warm=warm):
        run = await app.start(must_write)
        info = await effect_of(app, run, "planned")
        await until_state(run, "paused")
        await app.effects.approve(info.id, reason="fine")
        assert await run.result(timeout="60s") == 2
        assert await outcomes(run) == [("letter", "succeeded")]


async def test_an_approval_needs_a_reason_a_plan_and_the_version_that_was_seen(app: App) -> None:
    async with working(app):
        run = await app.start(must_write)
        info = await effect_of(app, run, "planned")
        with pytest.raises(BadInput, match="Pass a reason"):
            await app.effects.approve(info.id, reason=" ")
        with pytest.raises(VerdictRefused, match="the effect has changed"):
            await app.effects.approve(info.id, reason="fine", version=info.version + 1)
        with pytest.raises(NotFound):
            await app.effects.approve("no such effect", reason="fine")
        await app.effects.approve(info.id, reason="fine")
        with pytest.raises(VerdictRefused):
            await app.effects.reject(info.id, reason="too late")
        assert await run.result(timeout="60s") == 2


async def test_of_an_approval_and_a_rejection_at_once_one_counts(app: App) -> None:
    async with working(app):
        run = await app.start(writes)
        info = await effect_of(app, run, "planned")
        answers = await asyncio.gather(
            app.effects.approve(info.id, reason="fine", by="ann"),
            app.effects.reject(info.id, reason="rude", by="bob"),
            return_exceptions=True,
        )
        [refused] = [answer for answer in answers if isinstance(answer, BaseException)]
        assert isinstance(refused, VerdictRefused)
        result = await run.result(timeout="60s")
        is_sent = (await app.effects.get(info.id)).decided_by == "ann"
        assert (result == "2 lines") == is_sent == bool(sent)


@workflow
async def approved_or_cancelled() -> None:
    await letter(["Dear Eve,"])


async def test_a_plan_of_a_run_that_was_cancelled_is_never_sent(app: App) -> None:
    async with working(app):
        run = await app.start(approved_or_cancelled)
        info = await effect_of(app, run, "planned")
        await until_state(run, "paused")
        await run.cancel(grace="10ms")
        await until_state(run, "cancelled")

        with pytest.raises(VerdictRefused, match="the effect was withdrawn"):
            await app.effects.approve(info.id, reason="fine")
        assert await run.state() == "cancelled"
    assert sent == []


# --- a limited rate -------------------------------------------------------------------------------


@effect(rate="1/50ms")
async def paced(n: int) -> int:
    sent.append((n, effect_key(), time.monotonic()))
    if does:
        raise does.pop(0)
    return n


@effect(rate="1/50ms", retry=Retry(attempts=3, delay="1ms"))
async def paced_and_tried(n: int) -> int:
    sent.append((n, effect_key(), time.monotonic()))
    if does:
        raise does.pop(0)
    return n


@workflow
async def one_paced(n: int) -> int:
    return await paced(n)


@workflow
async def many_paced() -> list[int]:
    return list(await asyncio.gather(*map(paced, range(4))))


@workflow
async def tried() -> int:
    return await paced_and_tried(7)


def last_sent() -> float:
    return max(at for _, _, at in sent)


@pytest.mark.parametrize("warm", [0, 1000])
async def test_sends_are_spaced_evenly_within_a_run(app: App, warm: int) -> None:
    async with working(app, warm=warm):
        begun = time.monotonic()
        assert await app.run(many_paced) == [0, 1, 2, 3]
    assert len(sent) == 4
    assert last_sent() - begun >= 0.15


async def test_sends_are_spaced_evenly_across_workers(app: App) -> None:
    async with working(app), app.worker(), app.worker():
        begun = time.monotonic()
        runs = [await app.start(one_paced, n) for n in range(5)]
        assert [await run.result(timeout="60s") for run in runs] == [0, 1, 2, 3, 4]
    assert len(sent) == 5
    assert last_sent() - begun >= 0.2


@pytest.mark.parametrize("warm", [0, 1000])
async def test_every_attempt_waits_for_a_turn_of_its_own(app: App, warm: int) -> None:
    does[:] = [NotApplied("busy"), NotApplied("busy")]
    async with working(app, warm=warm):
        begun = time.monotonic()
        assert await app.run(tried) == 7
    assert len(sent) == 3
    assert last_sent() - begun >= 0.1


async def test_a_turn_that_was_waited_for_is_not_given_away_when_the_run_leaves_memory(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, turns = flows.take_turn, []

    async def take_turn(*given: Any) -> int:
        turns.append(given)
        return await taken(*given)

    monkeypatch.setattr("onward.engine.local_worker.take_turn", take_turn)
    async with app:
        async with app.worker():
            first = await app.start(slow_paced, 1)
            second = await app.start(slow_paced, 2)
            await until_state(second, "waiting", "succeeded")
            await until_state(first, "waiting", "succeeded")
        async with working(app, warm=0):

            async def both() -> bool:
                states = {await first.state(), await second.state()}
                return states == {"succeeded"}

            await until(both)
    assert (len(sent), len(turns)) == (2, 2)


@effect(rate="1/600ms")
async def slowly_paced(n: int) -> int:
    sent.append((n, effect_key(), time.monotonic()))
    return n


@workflow
async def slow_paced(n: int) -> int:
    return await slowly_paced(n)


@pytest.mark.parametrize("rate", ["fast", "0/s", "10/", "1/x", "-1/s", "1/2d"])
def test_a_rate_that_is_none_is_refused(rate: str) -> None:
    with pytest.raises(BadInput):
        effect(rate=rate)(lambda: None)
