"""What type checkers see of what a body can do: children, maps, waits, time and itself."""

import asyncio
import random
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, assert_type

import onward
from onward import Signal, step, workflow
from onward.handles import ChildRun, Current

names = Signal("names", list[str])
anything = Signal("anything")


@step
async def length(text: str, *, twice: bool = False) -> int:
    return len(text) * (2 if twice else 1)


@step
def repeat(text: str, times: int) -> str:
    return text * times


@workflow
async def measure(text: str) -> int:
    return await length(text)


async def children() -> None:
    assert_type(await measure("text"), int)
    assert_type(await measure.options(id="m", cancel_with_parent=False)("text"), int)
    child = await onward.start(measure.options(queue="q"), "text")
    assert_type(child, ChildRun[int])
    assert_type((child.id, child.uid), tuple[str, str])
    assert_type(await child.result(), int)

    await measure(1)  # type: ignore[arg-type]  # the argument is a text
    await onward.start(measure, 1)  # type: ignore[arg-type]  # the same
    await onward.start(measure)  # type: ignore[call-arg]  # it has no default
    await onward.start(length, "text")  # type: ignore[arg-type]  # a step is not started
    await child.result(timeout="1s")  # type: ignore[call-arg]  # asyncio.timeout is for that


async def together() -> None:
    both = await asyncio.gather(length("a"), repeat("a", 2))
    assert_type(both, tuple[int, str])
    async for done in onward.as_completed([length("a"), measure("b")]):
        assert_type(await done, int)
    onward.as_completed([1])  # type: ignore[arg-type]  # a number cannot be awaited


async def maps() -> None:
    assert_type(await length.map(["a", "b"]), list[int])
    assert_type(await measure.map({"a", "b"}, limit=5, key=str.upper), list[int])
    assert_type(await repeat.starmap([("a", 2)]), list[str])
    async for each in length.map("ab"):
        assert_type(each, int)
    async for either in measure.map("ab", return_exceptions=True):
        assert_type(either, int | BaseException)
    assert_type(await repeat.starmap([], return_exceptions=True), list[str | BaseException])

    length.map([1])  # type: ignore[list-item]  # the items are texts
    measure.map(1)  # type: ignore[call-overload]  # it cannot be gone through
    repeat.map(["a"])  # type: ignore[misc]  # it takes two arguments
    length.map(["a"], key=len)  # type: ignore[arg-type]  # a key is a text
    length.map(["a"], limit="5")  # type: ignore[call-overload]  # a limit is a number


async def waits() -> None:
    assert_type(await names.wait(), list[str])
    assert_type(await anything.wait(timeout=timedelta(days=1)), Any)
    assert_type(await onward.wait_signal("names", list[str]), list[str])
    assert_type(await onward.wait_signal("name", str | None), Any)
    assert_type(await onward.wait_signal("name", timeout="1s"), Any)
    await onward.sleep("1h30m")
    await onward.sleep_until(datetime.now(UTC) + timedelta(seconds=1))

    await onward.sleep(None)  # type: ignore[arg-type]  # that is no duration
    await onward.sleep_until("tomorrow")  # type: ignore[arg-type]  # that is no time
    await names.wait("1s")  # type: ignore[call-arg]  # the timeout is given by name


def itself() -> Current:
    assert_type(onward.now(), datetime)
    assert_type(onward.uuid(), uuid.UUID)
    assert_type(onward.random(), random.Random)
    assert_type(onward.patched("change"), bool)
    current = onward.current()
    assert_type((current.id, current.uid, current.workflow), tuple[str, str, str])
    assert_type((current.parent, current.step), tuple[str | None, str | None])
    assert_type(current.attempt, int)
    assert_type(current.scheduled_at, datetime)
    assert_type(current.deadline, datetime | None)
    assert_type(current.counters["rows"], int | float)
    current.attributes["customer"] = "Ada"
    current.counters.add("rows", 3)
    current.heartbeat({"row": 3})
    current.counters["rows"] = 3  # type: ignore[index]  # a counter is only added to
    return current


def the_end() -> NoReturn:
    onward.continue_as_new("text")
