"""Calls that a retry or a fork repeats are given the times, ids and numbers of the first run."""

from __future__ import annotations

import asyncio

import pytest

import onward
from onward import App, NotApplied, Retry, effect, step, workflow
from onward.errors import RunFailed
from tests.kit.watching import working

given: list[str] = []
failures: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_is_given() -> None:
    given.clear()
    failures.clear()


def drawn() -> str:
    """Return what a body can know of time and draw."""
    now, run = onward.now(), onward.current()
    return f"{now} {onward.uuid()} {onward.random().random()} {run.scheduled_at}"


@step
async def note(text: str) -> str:
    given.append(text)
    return text


@effect
async def mail(text: str) -> str:
    given.append(text)
    return text


@workflow
async def child(text: str) -> str:
    return await note(text)


@step(retry=Retry(attempts=1))
async def shaky(text: str) -> str:
    given.append(text)
    if failures:
        raise ConnectionError(failures.pop())
    return text


@workflow
async def journal() -> list[str]:
    first = await note(drawn())
    sent = await mail(drawn())
    told = await child(drawn())
    both = await asyncio.gather(note(drawn()), note(str(onward.uuid())))
    return [first, sent, told, *both, await shaky(str(onward.uuid())), await note(drawn())]


async def fail_once(app: App) -> None:
    failures.append("down")
    run = await app.start(journal.options(id="j"))
    with pytest.raises(RunFailed):
        await run.result(timeout="60s")


async def test_a_retry_gives_its_calls_what_the_run_before_gave_them(app: App) -> None:
    async with working(app):
        await fail_once(app)
        before = list(given)

        again = await (await app.retry("j")).result(timeout="60s", raise_paused=True)

    assert again[:6] == before
    assert given[:6] == before
    assert given[6] == before[5]  # the call that failed is made with the same arguments


async def test_a_retry_of_a_retry_still_draws_what_the_first_run_drew(app: App) -> None:
    async with working(app):
        await fail_once(app)
        failures.append("down")
        with pytest.raises(RunFailed):
            await (await app.retry("j")).result(timeout="60s", raise_paused=True)

        again = await (await app.retry("j")).result(timeout="60s", raise_paused=True)

    assert again[:6] == given[:6]


async def test_a_run_that_retries_by_its_own_policy_draws_the_same(app: App) -> None:
    failures.append("down")
    async with working(app):
        policy = Retry(attempts=2, delay="1ms")
        run = await app.start(journal.options(id="j", retry=policy))

        result = await run.result(timeout="60s", raise_paused=True)

    assert result[:6] == given[:6]


@workflow
async def first_call_fails() -> str:
    return await mail_or_fail(drawn())


@effect(retry=Retry(attempts=1))
async def mail_or_fail(text: str) -> str:
    given.append(text)
    if failures:
        raise NotApplied(failures.pop())
    return text


async def test_an_effect_whose_run_is_retried_is_sent_with_the_arguments_in_the_ledger(
    app: App,
) -> None:
    failures.append("down")
    async with working(app):
        run = await app.start(first_call_fails.options(id="j"))
        with pytest.raises(NotApplied):
            await run.result(timeout="60s")

        await (await app.retry("j")).result(timeout="60s", raise_paused=True)

    assert given[0] == given[1]


async def test_a_fork_repeats_what_it_copied_and_draws_anew_after_that(app: App) -> None:
    async with working(app):
        run = await app.start(journal.options(id="j"))
        before = await run.result(timeout="60s")

        fork = await app.fork("j", "shaky", new_id="fork")
        after = await fork.result(timeout="60s", raise_paused=True)

    assert after[:5] == before[:5]
    assert after[5] != before[5]
    assert after[6].split()[2:4] != before[6].split()[2:4]


async def test_a_fork_with_another_result_repeats_the_call_that_is_given_one(app: App) -> None:
    async with working(app):
        run = await app.start(journal.options(id="j"))
        before = await run.result(timeout="60s")

        fork = await app.fork("j", "shaky", result="other")
        after = await fork.result(timeout="60s", raise_paused=True)

    assert after[:6] == [*before[:5], "other"]
    assert after[6] != before[6]


async def test_a_fork_of_a_fork_and_a_retry_of_it_repeat_the_draws_of_each(app: App) -> None:
    async with working(app):
        run = await app.start(journal.options(id="j"))
        await run.result(timeout="60s")
        first = await app.fork("j", "child")
        before = await first.result(timeout="60s", raise_paused=True)
        failures.append("down")
        second = await app.fork("j", "shaky")
        with pytest.raises(RunFailed):
            await second.result(timeout="60s", raise_paused=True)

        again = await (await app.retry("j")).result(timeout="60s", raise_paused=True)

    assert again[:5] == before[:5]
    assert again[5] == given[-2]  # the fork that failed had asked for it so
    assert again[5] != before[5]
