"""Effects: what their handlers do, what the ledger makes of it, and what the body gets."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import (
    App,
    NotApplied,
    Retry,
    Signal,
    effect,
    effect_key,
    register_error,
    step,
    workflow,
)
from onward.errors import BadInput, NotInBody, RunFailed, Unencodable
from tests.kit.ledgers import effect_of, outcomes, states_of
from tests.kit.watching import until_state, working

if TYPE_CHECKING:
    from collections.abc import Callable

sent: list[tuple[Any, str]] = []
does: list[Any] = []
go = Signal("go", str)


@pytest.fixture(autouse=True)
def _nothing_is_sent() -> None:
    sent.clear()
    does.clear()


def act(text: Any) -> Any:
    """Send, and do what the test wants next: raise, or answer."""
    sent.append((text, effect_key()))
    answer = does.pop(0) if does else text
    if isinstance(answer, BaseException):
        raise answer
    return answer


@effect(retry=Retry(attempts=3, delay="1ms"))
async def deed(text: str) -> str:
    return str(act(text))


@effect(timeout="5s", retry=Retry(attempts=3, delay="1ms"))
def plain_deed(text: str) -> str:
    return f"{act(text)} in {threading.current_thread().name}"


@effect
async def odd_deed(text: str) -> int:
    act(text)
    return threading.Lock()  # type: ignore[return-value]


@effect(timeout="30ms")
async def slow_deed(text: str) -> str:
    act(text)
    await asyncio.Event().wait()
    return text


@workflow
async def one_deed(text: str) -> str:
    return await deed(text)


@workflow
async def two_deeds() -> list[str]:
    return [await deed("one"), await go.wait(), await deed("two")]


@workflow
async def plainly() -> str:
    return await plain_deed("plain")


@workflow
async def oddly() -> str:
    try:
        await odd_deed("odd")
    except Unencodable as error:
        return type(error).__name__
    return "no error"


@workflow
async def slowly() -> str:
    return await slow_deed("slow")


@workflow
async def told_what(text: str) -> str:
    try:
        return await deed(text)
    except NotApplied as error:
        return f"not applied: {error}"


# --- it happened ----------------------------------------------------------------------------------


async def test_an_effect_that_returns_is_applied_once(app: App) -> None:
    async with working(app):
        run = await app.start(one_deed, "a")
        assert await run.result(timeout="60s") == "a"

        [info] = await app.effects.of(run.id)
        assert (info.state, info.attempt, info.result, info.why) == ("applied", 1, "a", None)
        assert sent == [("a", info.id)]
        assert await app.effects.pending() == []


@pytest.mark.parametrize("warm", [0, 1000])
async def test_a_replay_sends_nothing(app: App, warm: int) -> None:
    async with working(app, warm=warm):
        run = await app.start(two_deeds)
        await until_state(run, "waiting")
        await run.signal(go, "on")

        assert await run.result(timeout="60s") == ["one", "on", "two"]
        assert [text for text, _ in sent] == ["one", "two"]


async def test_a_worker_that_takes_over_sends_nothing_again(app: App) -> None:
    async with app:
        async with app.worker():
            run = await app.start(two_deeds)
            await until_state(run, "waiting")
        async with working(app):
            await run.signal(go, "on")
            assert await run.result(timeout="60s") == ["one", "on", "two"]
    assert [text for text, _ in sent] == ["one", "two"]


async def test_one_that_is_not_async_runs_in_a_thread(app: App) -> None:
    async with working(app):
        assert (await app.run(plainly)).startswith("plain in onward-step")
        assert len(sent) == 1


async def test_one_that_is_not_async_must_state_its_time_limit() -> None:
    with pytest.raises(BadInput, match="Pass the time limit"):
        effect(name="endless")(act)


async def test_a_result_that_cannot_be_kept_is_an_error_in_the_body_of_something_that_happened(
    app: App,
) -> None:
    async with working(app):
        run = await app.start(oddly)
        assert await run.result(timeout="60s") == "Unencodable"

        [info] = await app.effects.of(run.id)
        assert (info.state, info.attempt, len(sent)) == ("applied", 1, 1)
        assert info.why is not None
        assert "Unencodable" in info.why
        assert await outcomes(run) == [("odd_deed", "failed")]


async def test_an_effect_outside_a_run_is_a_plain_call() -> None:
    assert await deed("outside") == "outside"
    assert await plain_deed("outside") == "outside in MainThread"
    assert len({key for _, key in sent}) == 2


# --- keys -----------------------------------------------------------------------------------------


async def test_every_attempt_is_sent_under_the_same_key(app: App) -> None:
    does[:] = [NotApplied("busy"), NotApplied("busy")]
    async with working(app):
        assert await app.run(one_deed, "a") == "a"

    assert len(sent) == 3
    assert len({key for _, key in sent}) == 1


async def test_a_retry_of_the_run_sends_under_the_same_key_again(app: App) -> None:
    does[:] = [NotApplied("no")] * 3
    async with working(app):
        run = await app.start(one_deed, "a")
        await until_state(run, "failed")
        again = await app.retry(run.id)

        assert await again.result(timeout="60s") == "a"
        [info] = await app.effects.of(run.id)
        assert (info.run_uid, info.attempt, info.state) == (again.uid, 1, "applied")
    assert len(sent) == 4
    assert len({key for _, key in sent}) == 1


@workflow
async def fails_later(text: str) -> str:
    done = await deed(text)
    await go.wait()
    raise ValueError(done)


async def test_a_retry_of_the_run_does_not_repeat_what_happened(app: App) -> None:
    async with working(app):
        run = await app.start(fails_later, "a")
        await run.signal(go, "on")
        await until_state(run, "failed")
        again = await app.retry(run.id)
        with pytest.raises(RunFailed):
            await again.result(timeout="60s")
    assert len(sent) == 1


async def test_a_fork_sends_under_another_key(app: App) -> None:
    async with working(app):
        run = await app.start(one_deed, "a")
        await run.result(timeout="60s")
        fork = await app.fork(run.id, "deed")
        assert await fork.result(timeout="60s") == "a"
    assert len({key for _, key in sent}) == 2


async def test_two_calls_of_one_effect_have_two_keys_and_one_that_is_named_has_one(
    app: App,
) -> None:
    async with working(app):
        assert await app.run(same_twice) == ["a", "a", "b", "b"]
    assert [text for text, _ in sent] == ["a", "a", "b"]
    assert len({key for _, key in sent}) == 3


@workflow
async def same_twice() -> list[str]:
    once = deed.options(key="order-7")
    return [await deed("a"), await deed("a"), await once("b"), await once("b")]


# --- where it may be called -----------------------------------------------------------------------


@step
async def with_an_effect() -> str:
    return await deed("in a step")


@step
async def with_a_key() -> str:
    return effect_key()


@effect
async def in_an_effect() -> str:
    try:
        return await deed("in an effect")
    except NotInBody as error:
        return str(error)


@effect
async def sleeper() -> str:
    try:
        await onward.sleep("1h")
    except NotInBody:
        return "no sleep"
    return "slept"


@workflow
async def asks(what: str) -> str:
    places: dict[str, Callable[[], Any]] = {
        "effect in a step": with_an_effect,
        "key in a step": with_a_key,
        "effect in an effect": in_an_effect,
        "sleep in an effect": sleeper,
    }
    try:
        if what == "key in a body":
            return effect_key()
        return str(await places[what]())
    except NotInBody as error:
        return str(error)


@pytest.mark.parametrize("what", ["effect in a step", "effect in an effect"])
async def test_an_effect_belongs_to_the_body(memory: App, what: str) -> None:
    async with working(memory):
        assert "Call it from the workflow" in await memory.run(asks, what)
    assert sent == []


@pytest.mark.parametrize("what", ["key in a step", "key in a body"])
async def test_a_key_belongs_to_a_handler(memory: App, what: str) -> None:
    async with working(memory):
        assert "outside an effect handler" in await memory.run(asks, what)


async def test_a_handler_may_not_wait_durably(memory: App) -> None:
    async with working(memory):
        assert await memory.run(asks, "sleep in an effect") == "no sleep"


@effect
async def telling(name: str) -> int:
    run = onward.current()
    run.attributes["customer"] = name
    run.counters.add("sent")
    run.progress(f"sending to {name}")
    return run.attempt


@workflow
async def tells() -> tuple[int, Any, float]:
    attempt = await telling("Ada")
    run = onward.current()
    return attempt, run.attributes["customer"], run.counters["sent"]


async def test_a_handler_sees_its_run_and_what_it_notes_is_kept(app: App) -> None:
    async with working(app, warm=0):
        run = await app.start(tells)
        assert await run.result(timeout="60s") == (1, "Ada", 1)
        assert (await run.info()).attributes == {"customer": "Ada"}


@workflow
async def deeds_of_many() -> list[str]:
    done = await one_part.map(["a", "b", "c"])
    return [*done, await one_deed("child")]


@workflow
async def one_part(text: str) -> str:
    return await deed(text)


async def test_effects_work_in_children_and_in_parts_of_a_map(app: App) -> None:
    async with working(app):
        assert await app.run(deeds_of_many) == ["a", "b", "c", "child"]
    assert sorted(text for text, _ in sent) == ["a", "b", "c", "child"]
    assert len({key for _, key in sent}) == 4


# --- it did not happen ----------------------------------------------------------------------------


async def test_what_did_not_happen_is_tried_as_often_as_its_policy_says(app: App) -> None:
    does[:] = [NotApplied("one"), NotApplied("two"), NotApplied("three")]
    async with working(app):
        run = await app.start(told_what, "a")
        assert await run.result(timeout="60s") == "not applied: three"
        [info] = await app.effects.of(run.id)
        assert (info.state, info.attempt) == ("failed", 3)
        assert info.why == "onward.errors.NotApplied: three"


async def test_a_handler_may_say_when_to_come_again(app: App) -> None:
    does[:] = [NotApplied("later", after="1h")]
    async with working(app):
        run = await app.start(one_deed, "a")
        info = await effect_of(app, run, "failed")
        await until_state(run, "waiting")

        assert info.asked_at is not None
        assert 3500 < (info.asked_at - info.updated_at).total_seconds() < 3700
        assert len(sent) == 1


async def test_an_impossible_wait_does_not_make_it_uncertain(app: App) -> None:
    does[:] = [NotApplied("later", after="soon")]
    async with working(app):
        assert await app.run(one_deed, "a") == "a"
    assert len(sent) == 2


class Declined(NotApplied):
    """What a library of the user's raises."""


async def test_a_kind_of_its_own_is_not_applied_in_the_body(app: App) -> None:
    does[:] = [Declined("no money")] * 3
    async with working(app):
        assert await app.run(told_what, "a") == "not applied: Declined: no money"


@register_error
class Expired(NotApplied):
    """A refusal that the body knows."""


@effect(retry=Retry(never=Expired))
async def final_deed() -> str:
    return str(act("a"))


@workflow
async def refused_for_good() -> str:
    try:
        return await final_deed()
    except Expired as error:
        return f"expired: {error}"


async def test_a_registered_refusal_comes_back_as_itself_after_one_send(memory: App) -> None:
    does[:] = [Expired("last year")] * 3
    async with working(memory):
        assert await memory.run(refused_for_good) == "expired: last year"
    assert len(sent) == 1


# --- uncertain outcomes ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "raised",
    [
        ConnectionError("lost"),
        asyncio.CancelledError("its own"),
        SystemExit(3),
        TimeoutError("of its own"),
        BaseExceptionGroup("many", [ValueError("one")]),
    ],
    ids=lambda raised: type(raised).__name__,
)
async def test_whatever_else_a_handler_raises_leaves_it_uncertain(
    app: App, raised: BaseException
) -> None:
    does[:] = [raised]
    async with working(app):
        run = await app.start(one_deed, "a")
        info = await effect_of(app, run, "indeterminate")
        await until_state(run, "paused")

        assert info.why is not None
        assert type(raised).__name__ in info.why
        assert (await run.info()).reason == "reconciliation"
        await app.effects.resolve(info.id, "applied", result="it did", reason="looked")
        assert await run.result(timeout="60s") == "it did"
    assert len(sent) == 1


@pytest.mark.parametrize(
    "raised",
    [StopIteration("odd"), asyncio.CancelledError("its own"), SystemExit(3), KeyError("x")],
    ids=lambda raised: type(raised).__name__,
)
async def test_whatever_a_handler_in_a_thread_raises_leaves_it_uncertain(
    memory: App, raised: BaseException
) -> None:
    does[:] = [raised]
    async with working(memory):
        run = await memory.start(plainly)
        info = await effect_of(memory, run, "indeterminate")
        assert info.why is not None
        assert type(raised).__name__ in info.why


async def test_one_that_takes_too_long_is_uncertain(app: App) -> None:
    async with working(app):
        run = await app.start(slowly)
        info = await effect_of(app, run, "indeterminate")

        assert info.why is not None
        assert "effect 'slow_deed'" in info.why
        assert "TimedOut" in info.why
        assert "the reconciler will be asked, or an operator will decide" in info.why
    assert len(sent) == 1


@effect
async def stops_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


@workflow
async def stopping() -> None:
    await stops_itself()


async def test_a_handler_that_cancels_itself_is_uncertain(memory: App) -> None:
    async with working(memory):
        run = await memory.start(stopping)
        info = await effect_of(memory, run, "indeterminate")
        assert await states_of(memory, run) == {"stops_itself": "indeterminate"}
        assert info.why is not None


async def test_a_worker_that_leaves_gives_an_effect_back_as_uncertain(app: App) -> None:
    async with app:
        async with app.worker() as worker:
            run = await app.start(hangs)
            await effect_of(app, run, "in_flight")
            worker.session._options = replace(worker.session._options, drain=1)
        [info] = await app.effects.of(run.id)
        assert info.state == "in_flight"
        async with working(app):
            info = await effect_of(app, run, "indeterminate")
            assert info.why is not None
            assert "its worker died" in info.why
            assert len(sent) == 1


@effect
async def hanging(text: str) -> str:
    act(text)
    await asyncio.Event().wait()
    return text


@workflow
async def hangs() -> str:
    return await hanging("on")
