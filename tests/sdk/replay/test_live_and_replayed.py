"""What a body is handed is the same, in type and content, live and when it is read back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import pytest

import onward
from onward import App, Fatal, Retry, Retryable, Signal, StepFailed, register_error, step, workflow
from onward.codec import decode_error, encode_error
from onward.errors import RunCancelled, RunFailed
from tests.kit.deploys import SECONDS, waits_for
from tests.kit.watching import check_database, until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

go = Signal("go", int)


class Colour(Enum):
    RED = "red"


@dataclass
class Order:
    number: int
    items: list[str]


class Point(NamedTuple):
    x: int
    y: float


VALUES: dict[str, tuple[Any, Any]] = {
    "none": (None, None),
    "no": (bool, False),
    "zero": (int, 0),
    "big": (int, 2**53),
    "float": (float, 1.0),
    "text": (str, "ü\n"),
    "empty": (str, ""),
    "bytes": (bytes, b"\x00\xff"),
    "list": (list[int], []),
    "tuple": (tuple[int, str], (1, "a")),
    "set": (set[int], {1, 2}),
    "dict": (dict[str, int], {"a": 1}),
    "moment": (datetime, datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)),
    "date": (date, date(2026, 1, 2)),
    "duration": (timedelta, timedelta(days=1, microseconds=5)),
    "decimal": (Decimal, Decimal("1.10")),
    "uuid": (UUID, UUID(int=7)),
    "enum": (Colour, Colour.RED),
    "dataclass": (Order, Order(1, ["a"])),
    "named tuple": (Point, Point(1, 2.0)),
    "union": (int | str | None, "a"),
    "anything": (Any, {"a": [1, None, 2.5]}),
}


@register_error(name="tests: sold out")
class SoldOut(Exception):
    def __init__(self, item: str, left: int) -> None:
        super().__init__(item, left)
        self.item = item
        self.left = left


class OutOfStock(LookupError):
    """An error that is neither built in nor registered."""


def chained() -> Exception:
    error = LookupError("outer")
    error.__cause__ = KeyError("inner")
    error.add_note("a note")
    return error


ERRORS: dict[str, Callable[[], BaseException]] = {
    "value": lambda: ValueError("bad", 1),
    "os": lambda: FileNotFoundError(2, "no such file", "order.txt"),
    "text": lambda: UnicodeDecodeError("ascii", b"\xff", 0, 1, "ordinal not in range"),
    "derived": lambda: OutOfStock("pen"),
    "registered": lambda: SoldOut("pen", 3),
    "fatal": lambda: Fatal("for good"),
    "retryable": lambda: Retryable("again"),
    "timeout": lambda: TimeoutError("late"),
    "chained": chained,
    "group": lambda: ExceptionGroup("several", [ValueError("one"), SoldOut("pen", 2)]),
    "own": lambda: onward.errors.BadInput("it", "is bad", "Fix it"),
    "step failed": lambda: StepFailed("builtins.OSError", "of old"),
}


def a_step(name: str, annotation: Any, give: Callable[[], Any]) -> onward.Step[[int], Any]:
    async def fn(number: int) -> Any:
        return give()

    fn.__annotations__ = {"number": int, "return": annotation}
    return step(name=f"give {name}", retry=Retry(attempts=1))(fn)


def a_workflow(name: str, annotation: Any, give: Callable[[], Any]) -> onward.Workflow[[int], Any]:
    async def fn(number: int) -> Any:
        return give()

    fn.__annotations__ = {"number": int, "return": annotation}
    return workflow(name=f"return {name}")(fn)


def failing(make: Callable[[], BaseException]) -> Callable[[], Any]:
    def fail() -> Any:
        raise make()

    return fail


STEPS: dict[str, onward.Step[[int], Any]] = {}
WORKFLOWS: dict[str, onward.Workflow[[int], Any]] = {}
for _name, (_kind, _value) in VALUES.items():
    STEPS[_name] = a_step(_name, _kind, lambda value=_value: value)  # type: ignore[misc]
    WORKFLOWS[_name] = a_workflow(_name, _kind, lambda value=_value: value)  # type: ignore[misc]
for _name, _make in ERRORS.items():
    STEPS[f"error {_name}"] = a_step(f"error {_name}", Any, failing(_make))
    WORKFLOWS[f"error {_name}"] = a_workflow(f"error {_name}", Any, failing(_make))


async def by_step(name: str) -> Any:
    return await STEPS[name](1)


async def by_routed_step(name: str) -> Any:
    return await STEPS[name].options(queue="default")(1)


async def by_child(name: str) -> Any:
    return await WORKFLOWS[name](1)


async def by_start(name: str) -> Any:
    return await (await onward.start(WORKFLOWS[name], 1)).result()


async def by_map(name: str) -> Any:
    [found] = await STEPS[name].map([1], return_exceptions=True)
    return found


async def by_map_of_workflows(name: str) -> Any:
    [found] = await WORKFLOWS[name].map([1], return_exceptions=True)
    return found


WAYS: dict[str, Callable[[str], Awaitable[Any]]] = {
    "step": by_step,
    "routed step": by_routed_step,
    "child": by_child,
    "start": by_start,
    "map": by_map,
    "map of workflows": by_map_of_workflows,
}


class Shown(NamedTuple):
    """All of a value or an error that could differ."""

    kind: type
    text: str
    cause: Shown | None = None
    more: Any = None


def shown(value: Any) -> Shown:
    if not isinstance(value, BaseException):
        return Shown(type(value), repr(value))
    cause = None if value.__cause__ is None else shown(value.__cause__)
    parts = value.exceptions if isinstance(value, BaseExceptionGroup) else ()
    more = (value.args, getattr(value, "__notes__", []), [shown(part) for part in parts])
    return Shown(type(value), str(value), cause, repr(more))


seen: list[list[Shown]] = []
"""What each pass through a body was handed."""


async def taken(call: Awaitable[Any]) -> Shown:
    try:
        return shown(await call)
    except Exception as error:  # noqa: BLE001 - that is what is compared
        return shown(error)


@workflow
async def through(way: str) -> None:
    seen.append([await taken(WAYS[way](name)) for name in STEPS])
    await go.wait()


@pytest.mark.parametrize("way", WAYS)
async def test_live_and_replayed_values_and_errors_are_equal(app: App, way: str) -> None:
    seen.clear()
    async with app:
        async with app.worker():
            run = await app.start(through, way)
            await waits_for(run, "go")
        async with app.worker():
            await run.signal(go, 1)
            await run.result(timeout=SECONDS)
        await check_database(app)

    live, *passes = seen
    assert passes
    for replayed in passes:
        for name, first, second in zip(STEPS, live, replayed, strict=True):
            assert second == first, name


@pytest.mark.parametrize("way", WAYS)
async def test_a_value_comes_as_the_type_that_it_is_annotated_with(way: str) -> None:
    seen.clear()
    app = App(":memory:")
    async with app, app.worker():
        run = await app.start(through, way)
        await waits_for(run, "go")
        await run.cancel()

    for (kind, value), handed in zip(VALUES.values(), seen[0], strict=False):
        assert handed == shown(value), kind


EXPECTED: dict[str, type] = {
    "value": ValueError,
    "os": FileNotFoundError,
    "text": UnicodeDecodeError,
    "derived": type(decode_error(encode_error(OutOfStock()))),
    "registered": SoldOut,
    "fatal": type(decode_error(encode_error(Fatal()))),
    "retryable": type(decode_error(encode_error(Retryable()))),
    "timeout": TimeoutError,
    "chained": LookupError,
    "own": onward.errors.BadInput,
    "step failed": StepFailed,
}


@pytest.mark.parametrize("way", ["step", "routed step", "map"])
async def test_what_a_step_raises_is_of_the_same_type_wherever_it_runs(way: str) -> None:
    seen.clear()
    app = App(":memory:")
    async with app, app.worker():
        run = await app.start(through, way)
        await waits_for(run, "go")
        await run.cancel()

    handed = dict(zip(STEPS, seen[0], strict=True))
    kinds = {name: handed[f"error {name}"].kind for name in EXPECTED}
    assert kinds == EXPECTED


# --- signals, timeouts, cancelled children --------------------------------------------------------

word = Signal("word", Point)


@workflow
async def never() -> None:
    await onward.sleep("1h")


@step(timeout="30ms", retry=Retry(attempts=1))
async def dawdle() -> None:
    await asyncio.sleep(3600)


@workflow
async def odds() -> None:
    handed: list[Shown] = []
    seen.append(handed)
    handed.append(await taken(word.wait()))
    handed.append(await taken(word.wait(timeout="10ms")))
    handed.append(await taken(dawdle()))
    handed.append(await taken(dawdle.options(queue="default")()))
    handed.append(await taken(never.options(deadline="20ms")()))
    handed.append(await taken(never.options(id="doomed")()))
    handed.append(await taken(asyncio.wait_for(never(), 0.01)))
    await go.wait()


async def is_there(app: App, run_id: str) -> bool:
    return run_id in [info.id for info in await app.runs()]


async def test_signals_timeouts_and_cancelled_children_are_the_same_live_and_replayed(
    app: App,
) -> None:
    seen.clear()
    async with app:
        async with app.worker():
            run = await app.start(odds)
            await run.signal(word, Point(3, 4.0))
            await until(lambda: is_there(app, "doomed"))
            await app.cancel("doomed")
            await waits_for(run, "go")
        async with app.worker():
            await run.signal(go, 1)
            await run.result(timeout=SECONDS)
        await check_database(app)

    live = max(seen, key=len)
    assert len(seen) > 1
    for replayed in seen:  # a run that is woken as it parks is read back early, as far as it is
        assert replayed == live[: len(replayed)]
    assert seen[-1] == live
    assert [handed.kind for handed in live] == [
        Point,
        onward.errors.TimedOut,
        onward.errors.TimedOut,
        onward.errors.TimedOut,
        RunCancelled,
        RunCancelled,
        TimeoutError,
    ]


async def test_the_failure_of_a_child_is_shown_like_that_of_a_run() -> None:
    app = App(":memory:")
    async with app, app.worker():
        run = await app.start(WORKFLOWS["error fatal"], 1)
        with pytest.raises(RunFailed) as outside:
            await run.result(timeout=SECONDS)
        seen.clear()
        parent = await app.start(through, "child")
        await waits_for(parent, "go")
        await parent.cancel()

    handed = dict(zip(STEPS, seen[0], strict=True))["error fatal"]
    assert handed.kind is type(outside.value)
    assert issubclass(handed.kind, RunFailed)
    assert handed.cause is not None
    assert handed.cause.kind is type(outside.value.__cause__)
    assert issubclass(handed.cause.kind, StepFailed)
