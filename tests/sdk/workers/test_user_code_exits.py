"""User code that exits, or raises what would end a process, ends its own run and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, Retry, Signal, effect, step, workflow
from onward.errors import RunFailed
from tests.kit.ledgers import effect_of
from tests.kit.watching import until, until_state, working

if TYPE_CHECKING:
    from onward import Attention, Run


class Quits(BaseException):
    """One of the user's own."""


COMMON = (SystemExit, KeyboardInterrupt, Quits)
raises: list[type[BaseException]] = []
go = Signal("go", str)


@pytest.fixture(params=COMMON, autouse=True)
def kind(request: pytest.FixtureRequest) -> type[BaseException]:
    raises[:] = [request.param]
    return raises[0]


def leave() -> None:
    raise raises[0]


async def leave_at_once() -> None:
    leave()


@step
async def one() -> int:
    return 1


@workflow
async def innocent() -> int:
    return await one()


async def ends_only_its_run(app: App, run: Run[Any], error: str) -> str:
    """Check that a run failed by its own code, and that its worker goes on; return the text."""
    with pytest.raises(RunFailed) as failed:
        await run.result(timeout="60s")
    assert (failed.value.reason, error in str(failed.value)) == ("logic", True)
    assert await app.run(innocent) == 1
    return str(failed.value.__cause__)


# --- bodies ---------------------------------------------------------------------------------------


@workflow
async def leaves_at_once() -> None:
    leave()


@workflow
async def leaves_later() -> None:
    await one()
    leave()


@workflow
async def leaves_in_a_gathered_task() -> None:
    await asyncio.gather(one(), leave_at_once())


@workflow
async def leaves_in_an_awaited_task() -> None:
    task = asyncio.create_task(leave_at_once())
    await one()
    await task


@workflow
async def leaves_in_cleanup() -> None:
    try:
        await one()
    finally:
        leave()


@workflow
async def leaves_in_a_task_apart() -> None:
    task = asyncio.create_task(leave_at_once())
    await go.wait()
    await task


@workflow
async def leaves_in_a_callback() -> None:
    asyncio.get_running_loop().call_soon(leave)
    await go.wait()


BODIES = (
    leaves_at_once,
    leaves_later,
    leaves_in_a_gathered_task,
    leaves_in_an_awaited_task,
    leaves_in_cleanup,
)
# asyncio raises these two from a part that nothing awaits; it only logs others.
PARTS = (leaves_in_a_task_apart, leaves_in_a_callback)
EXITS = [
    *product(BODIES, (*COMMON, GeneratorExit, MemoryError, RecursionError)),
    *product(PARTS, (SystemExit, KeyboardInterrupt)),
]


@pytest.mark.parametrize(("body", "kind"), EXITS, indirect=["kind"])
async def test_a_body_that_exits_fails_its_run_at_once(
    memory: App, body: Any, kind: type[BaseException]
) -> None:
    async with working(memory):
        run = await memory.start(body)
        await ends_only_its_run(memory, run, kind.__name__)


@workflow
async def catches_it() -> str:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(leave_at_once())
    except BaseException as error:  # noqa: BLE001 - whatever the task raised
        await one()  # such as to undo something
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else error
        return type(inner).__name__
    return ""


async def test_a_body_may_handle_that_its_task_exits(
    memory: App, kind: type[BaseException]
) -> None:
    async with working(memory):
        assert await memory.run(catches_it) == kind.__name__


@workflow
async def is_stopped() -> None:
    try:
        await go.wait()
    finally:
        leave()


async def test_a_run_whose_cleanup_exits_when_it_is_cancelled_fails(
    memory: App, kind: type[BaseException]
) -> None:
    async with working(memory):
        run = await memory.start(is_stopped)
        await until_state(run, "waiting")
        await run.cancel()
        await ends_only_its_run(memory, run, kind.__name__)


async def test_a_body_that_exits_while_it_is_evicted_leaves_the_worker_alone(memory: App) -> None:
    async with working(memory, warm=0):
        run = await memory.start(is_stopped)
        await until_state(run, "waiting")

        assert await memory.run(innocent) == 1
        assert await run.state() == "waiting"


# --- steps ----------------------------------------------------------------------------------------

ONCE = Retry(attempts=1)


@step(retry=ONCE)
async def async_step() -> None:
    leave()


@step(retry=ONCE)
def thread_step() -> None:
    leave()


@step(retry=ONCE)
async def gathering_step() -> None:
    await asyncio.gather(leave_at_once(), asyncio.sleep(0))


@workflow
async def takes_a_step(which: int) -> None:
    await (async_step, thread_step, gathering_step)[which]()


@pytest.mark.parametrize("which", [0, 1, 2])
async def test_a_step_that_exits_fails(memory: App, kind: type[BaseException], which: int) -> None:
    async with working(memory):
        run = await memory.start(takes_a_step, which)
        cause = await ends_only_its_run(memory, run, kind.__name__)

        assert kind.__name__ in cause


# --- effects --------------------------------------------------------------------------------------


@effect
async def async_effect() -> None:
    leave()


@effect(timeout="5s")
def thread_effect() -> None:
    leave()


async def find_out(*, key: str) -> None:
    leave()


@effect(reconcile=find_out)
async def asked_about() -> None:
    leave()


@workflow
async def makes_an_effect(which: int) -> None:
    await (async_effect, thread_effect, asked_about)[which]()


@pytest.mark.parametrize(
    ("which", "state"), [(0, "indeterminate"), (1, "indeterminate"), (2, "needs_reconcile")]
)
async def test_an_effect_that_exits_is_uncertain(memory: App, which: int, state: str) -> None:
    async with working(memory):
        run = await memory.start(makes_an_effect, which)
        await effect_of(memory, run, state)

        assert await memory.run(innocent) == 1


# --- hooks ----------------------------------------------------------------------------------------

is_strict: list[bool] = []


@dataclass
class Order:
    cents: int

    def __post_init__(self) -> None:
        if is_strict:
            leave()


@workflow
async def buys(order: Order) -> int:
    await go.wait()
    return order.cents


async def test_a_type_that_exits_when_it_is_read_back_parks_the_run(memory: App) -> None:
    is_strict.clear()
    async with working(memory, warm=0):
        run = await memory.start(buys, Order(1))
        await until_state(run, "waiting")
        is_strict.append(True)
        await run.signal(go, "on")
        await until_state(run, "paused")
        is_strict.clear()

        assert (await run.info()).reason == "divergence"
        assert await memory.run(innocent) == 1


class Unprintable(Exception):
    def __str__(self) -> str:
        leave()
        return ""

    __repr__ = __str__


@workflow
async def fails_without_words() -> None:
    raise Unprintable


async def test_an_error_that_exits_when_it_is_printed_fails_its_run(memory: App) -> None:
    async with working(memory):
        run = await memory.start(fails_without_words)
        await ends_only_its_run(memory, run, "Unprintable")


async def has_called(called: list[Attention], count: int) -> bool:
    return len(called) == count


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_hook_that_exits_leaves_the_worker_alone(*, is_async: bool) -> None:
    called: list[Attention] = []

    def hook(attention: Attention) -> None:
        called.append(attention)
        leave()

    async def async_hook(attention: Attention) -> None:
        hook(attention)

    app = App(":memory:", on_attention=async_hook if is_async else hook)
    async with working(app):
        for count in (1, 2):
            run = await app.start(makes_an_effect, 0)
            await effect_of(app, run, "indeterminate")
            await until(partial(has_called, called, count))
        assert await app.run(innocent) == 1
