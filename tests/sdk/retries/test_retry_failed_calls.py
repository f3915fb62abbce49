"""A retry makes every call again whose failure ended the run, and none that was dealt with."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, NamedTuple

import pytest

import onward
from onward import App, NotApplied, Retry, Signal, Workflow, effect, step, workflow
from onward.errors import RunFailed, Undone
from tests.kit.ledgers import effect_of
from tests.kit.watching import until_state, working

if TYPE_CHECKING:
    from collections.abc import Awaitable

done: Counter[str] = Counter()
broken: set[str] = set()
broken_once: set[str] = set()
heard: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
go = Signal("go", bool)
ONCE = Retry(attempts=1)


@pytest.fixture(autouse=True)
def world() -> None:
    done.clear()
    broken.clear()
    broken_once.clear()
    heard.clear()


@step(retry=ONCE)
async def part(name: str, after: str = "") -> str:
    """Come to an end only after the body was handed the outcome of another call."""
    done[name] += 1
    if after:
        await heard[after].wait()
    if name in broken | broken_once:
        broken_once.discard(name)
        raise ConnectionError(f"{name} is broken")
    return name


@effect(retry=ONCE)
async def pay(name: str) -> str:
    done[name] += 1
    if name in broken:
        raise NotApplied(f"{name} is broken")
    return name


async def told(name: str, after: str = "") -> str:
    """Call `part`, and let others know when its outcome is here."""
    try:
        return await part(name, after)
    finally:
        heard[name].set()


def results(outcomes: list[str | BaseException]) -> list[str]:
    """Return the outcomes, or raise the first error among them."""
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
    return [str(outcome) for outcome in outcomes]


def checked(outcomes: list[str | BaseException]) -> list[str]:
    """Return the outcomes, or raise an error that has nothing to do with those among them."""
    failed = sum(isinstance(outcome, BaseException) for outcome in outcomes)
    if failed:
        raise RuntimeError(f"{failed} failed")
    return [str(outcome) for outcome in outcomes]


async def all_of(*calls: Awaitable[str]) -> list[str | BaseException]:
    return await asyncio.gather(*calls, return_exceptions=True)


# --- failures that ended the run ------------------------------------------------------------------


@workflow
async def raises_the_last_to_fail() -> list[str]:
    return results(await all_of(told("c", after="b"), told("b", after="a"), told("a")))


@workflow
async def raises_its_own() -> list[str]:
    return checked(await all_of(told("c", after="b"), told("b", after="a"), told("a")))


@workflow
async def reports() -> list[str]:
    outcomes = await all_of(told("c", after="b"), told("b", after="a"), told("a"))
    if any(isinstance(outcome, BaseException) for outcome in outcomes):
        await part("report")
    return results(outcomes)


@workflow
async def group() -> list[str]:
    async with asyncio.TaskGroup() as tasks:
        made = [tasks.create_task(part(name)) for name in ("a", "b", "c")]
    return [task.result() for task in made]


@workflow
async def fallback_fails() -> list[str]:
    try:
        return [await part("a")]
    except ConnectionError:
        return [await part("b")]


@workflow
async def tries_on() -> list[str]:
    for _ in range(2):
        try:
            return [await part("a")]
        except ConnectionError:
            await onward.sleep("1ms")
    return [await part("a")]


@workflow
async def one_by_one() -> list[str]:
    failed = []
    for name in ("a", "b", "c"):
        try:
            await part(name)
        except ConnectionError:
            failed.append(name)
    if failed:
        raise RuntimeError(str(failed))
    return ["a", "b", "c"]


@workflow
async def a_few_at_a_time() -> list[str]:
    free = asyncio.Semaphore(2)

    async def one(name: str, after: str = "") -> str:
        async with free:
            return await told(name, after)

    return results(await all_of(one("c", after="b"), one("a"), one("good"), one("b", after="good")))


@workflow
async def mapped() -> list[str]:
    return await part.map(["c", "a", "b", "good"])


@workflow
async def mapped_by_key() -> list[str]:
    return await part.map(["c", "a", "b", "good"], key=str)


@workflow
async def mapped_and_looked_at() -> list[str]:
    return checked(await part.map(["c", "a", "b", "good"], return_exceptions=True))


@workflow
async def mapped_twice() -> list[str]:
    first = await part.map(["a", "b"], return_exceptions=True)
    return checked([*first, *await part.map(["c"], return_exceptions=True)])


@workflow
async def child(name: str) -> str:
    await part(f"before {name}")
    return await part(name)


@workflow
async def children() -> list[str]:
    return checked(await all_of(*map(child, ("a", "b", "c"))))


@workflow
async def mapped_children() -> list[str]:
    return await child.map(["a", "b", "c"])


@workflow
async def parent() -> list[str]:
    return await raises_the_last_to_fail()


@workflow
async def continued(is_first: bool = True) -> list[str]:
    if is_first:
        await part("first")
        return onward.continue_as_new(False)
    return results(await all_of(told("c", after="b"), told("b", after="a"), told("a")))


ENDED = [
    raises_the_last_to_fail,
    raises_its_own,
    reports,
    group,
    fallback_fails,
    tries_on,
    one_by_one,
    a_few_at_a_time,
    mapped,
    mapped_by_key,
    mapped_and_looked_at,
    mapped_twice,
    children,
    mapped_children,
    parent,
    continued,
]


@pytest.mark.parametrize("shape", ENDED, ids=lambda shape: shape.definition.name)
async def test_one_retry_is_enough_when_the_cause_is_gone(
    memory: App, shape: Workflow[[], list[str]]
) -> None:
    broken.update("abc")
    async with working(memory):
        run = await memory.start(shape)
        await until_state(run, "failed")
        broken.clear()
        retried = await memory.retry(run.id)
        assert set(await retried.result(timeout="60s")) <= {"a", "b", "c", "good"}


# In these everything fails before the run does.
FAILS_WHOLLY = [
    raises_the_last_to_fail,
    raises_its_own,
    reports,
    one_by_one,
    mapped_and_looked_at,
    mapped_twice,
    children,
    parent,
    continued,
]


@pytest.mark.parametrize("shape", FAILS_WHOLLY, ids=lambda shape: shape.definition.name)
async def test_a_run_that_is_retried_by_itself_succeeds_once_the_cause_is_gone(
    memory: App, shape: Workflow[[], list[str]]
) -> None:
    broken_once.update("abc")
    async with working(memory):
        run = await memory.start(shape.options(retry=Retry(attempts=2, delay="1ms")))
        assert set(await run.result(timeout="60s")) <= {"a", "b", "c", "good"}


# --- failures that were dealt with ----------------------------------------------------------------


@workflow
async def falls_back() -> list[str]:
    try:
        first = await part("primary")
    except ConnectionError:
        first = await part("fallback")
    return [first, await part("later")]


@workflow
async def pays_otherwise() -> list[str]:
    try:
        first = await pay("primary")
    except NotApplied:
        first = await pay("fallback")
    return [first, await part("later")]


@workflow
async def pays_otherwise_and_looks() -> list[str]:
    try:
        await pay("primary")
    except NotApplied:
        await pay("fallback")
    return checked(await all_of(told("later"), told("later too")))


@workflow
async def pay_in_child() -> str:
    return await pay("fallback")


@workflow
async def child_pays_otherwise() -> list[str]:
    try:
        await pay("primary")
    except NotApplied:
        await pay_in_child()
    return checked(await all_of(told("later"), told("later too")))


@workflow
async def pays_in_vain() -> str:
    await pay("fallback")
    return await part("later")


@workflow
async def child_pays_otherwise_and_fails() -> list[str]:
    try:
        return [await pay("primary")]
    except NotApplied:
        return [await pays_in_vain()]


@workflow
async def beside_another() -> list[str]:
    async def safe() -> str:
        try:
            return await told("primary")
        except ConnectionError:
            return await told("fallback")

    return results(await all_of(safe(), told("later", after="fallback")))


@workflow
async def reacts_to_the_first() -> list[str]:
    tasks = [asyncio.ensure_future(told("primary")), asyncio.ensure_future(told("later", "other"))]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    if not tasks[1].done():
        await told("fallback")
        heard["other"].set()
    return [await tasks[1]]


@workflow
async def ignores_a_branch() -> list[str]:
    async def main() -> str:
        await told("step one", after="primary")
        await pay("step two")
        return await part("later")

    outcomes = await all_of(told("primary"), main())
    return results(outcomes[1:])


@workflow
async def reacts_to_a_map() -> list[str]:
    outcomes = await part.map(["primary", "good"], return_exceptions=True)
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            await part("fallback")
    return [await part("later")]


class Dealt(NamedTuple):
    """A shape, and how often its calls are made in all."""

    shape: Workflow[[], list[str]]
    done: dict[str, int]


FALLBACK = {"primary": 1, "fallback": 1, "later": 2}
DEALT = [
    Dealt(falls_back, FALLBACK),
    Dealt(pays_otherwise, FALLBACK),
    Dealt(pays_otherwise_and_looks, {**FALLBACK, "later too": 1}),
    Dealt(child_pays_otherwise, {**FALLBACK, "later too": 1}),
    Dealt(child_pays_otherwise_and_fails, FALLBACK),
    Dealt(beside_another, FALLBACK),
    Dealt(reacts_to_the_first, FALLBACK),
    Dealt(ignores_a_branch, {"primary": 1, "step one": 1, "step two": 1, "later": 2}),
    Dealt(reacts_to_a_map, {**FALLBACK, "good": 1}),
]


@pytest.mark.parametrize("dealt", DEALT, ids=lambda dealt: dealt.shape.definition.name)
async def test_a_failure_that_was_dealt_with_stays_and_so_does_its_fallback(
    memory: App, dealt: Dealt
) -> None:
    broken.update(("primary", "later"))
    async with working(memory):
        run = await memory.start(dealt.shape)
        await until_state(run, "failed")
        broken.clear()
        await (await memory.retry(run.id)).result(timeout="60s")
    assert done == dealt.done


@workflow
async def pays_skipped() -> str:
    try:
        return await pay("primary")
    except NotApplied:
        return await lost("fallback")


@effect(retry=ONCE)
async def lost(name: str) -> str:
    done[name] += 1
    raise ConnectionError("no answer")


async def test_an_uncertain_fallback_is_no_reason_to_pay_another_way(memory: App) -> None:
    broken.add("primary")
    async with working(memory):
        run = await memory.start(pays_skipped)
        entry = await effect_of(memory, run, "indeterminate")
        await memory.effects.resolve(entry.id, "skip", reason="closed")
        await until_state(run, "failed")
        broken.clear()
        retried = await memory.retry(run.id)
        with pytest.raises(RunFailed, match="skipped"):
            await retried.result(timeout="60s")
    assert done == {"primary": 1, "fallback": 1}


@workflow
async def pays_and_complains() -> None:
    try:
        await pay("primary")
    except NotApplied:
        await pay("fallback")
    raise RuntimeError("out of stock")


async def test_a_failure_is_not_gone_back_to_over_an_effect_unasked(memory: App) -> None:
    broken.add("primary")
    async with working(memory):
        run = await memory.start(pays_and_complains)
        await until_state(run, "failed")
        with pytest.raises(Undone, match="pay"):
            await memory.retry(run.id)


# --- what is neither a failed call nor dealt with -------------------------------------------------


@workflow
async def has_a_limit() -> list[str]:
    async with asyncio.timeout(0.05):
        await go.wait()
    return ["in time"]


async def test_a_limit_that_ended_the_run_is_set_anew(memory: App) -> None:
    async with working(memory):
        run = await memory.start(has_a_limit)
        await until_state(run, "failed")
        retried = await memory.retry(run.id)
        await retried.signal(go, True)
        assert await retried.result(timeout="60s") == ["in time"]


@workflow
async def waits_beside() -> list[str]:
    async def wait() -> str:
        return str(await go.wait())

    return checked(await all_of(told("a"), told("good"), wait()))


async def test_what_had_failed_beside_others_when_the_run_was_cancelled_is_done_again(
    app: App,
) -> None:
    broken.add("a")
    async with working(app):
        run = await app.start(waits_beside)
        await heard["a"].wait()
        await heard["good"].wait()
        await until_state(run, "waiting")
        await run.cancel()
        await until_state(run, "cancelled")
        broken.clear()
        retried = await app.retry(run.id)
        await retried.signal(go, True)
        assert await retried.result(timeout="60s") == ["a", "good", "True"]
    assert done == {"a": 2, "good": 1}


@workflow
async def falls_back_and_waits() -> list[str]:
    try:
        first = await part("primary")
    except ConnectionError:
        await go.wait()
        first = await part("fallback")
    return [first]


async def test_a_cancelled_run_goes_on_with_what_it_did_about_a_failure(memory: App) -> None:
    broken.add("primary")
    async with working(memory):
        run = await memory.start(falls_back_and_waits)
        await until_state(run, "waiting")
        await run.cancel()
        await until_state(run, "cancelled")
        retried = await memory.retry(run.id)
        await retried.signal(go, True)
        assert await retried.result(timeout="60s") == ["fallback"]
    assert done == {"primary": 1, "fallback": 1}
