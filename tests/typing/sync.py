"""What type checkers see of the sync app and of callers' transactions."""

import sqlite3
from typing import Any, assert_type

from onward import App, Run, RunInfo, Signal, workflow
from onward.handles import SyncApp, SyncRun

answer = Signal("answer", bool)


@workflow
async def measure(text: str, *, twice: bool = False) -> int:
    return len(text) * (2 if twice else 1)


def use(app: App) -> None:
    assert_type(app.sync(), SyncApp)
    with app.sync() as sync, sync.worker(slots=10) as worker:
        assert_type(sync, SyncApp)
        assert_type(worker.id, str)
        run = sync.start(measure.options(id="m"), "text", twice=True)
        assert_type(run, SyncRun[int])
        assert_type(run.result(timeout="1s"), int)
        assert_type(run.state(), str)
        assert_type(sync.run(measure, "text"), int)
        assert_type(sync.get("m"), SyncRun[Any])
        assert_type(sync.counts(), dict[str, int])
        run.signal(answer, True)
        assert_type(run.info(), RunInfo)
        assert_type(run.history()[0].name, str)
        assert_type(sync.runs(name="measure"), list[RunInfo])
        assert_type((sync.pause("m"), sync.resume("m")), tuple[bool, bool])
        assert_type(sync.retry("m"), SyncRun[Any])
        assert_type(sync.fork("m", "length", result=3, new_id="n"), SyncRun[Any])
        assert_type(sync.unserved()[0].why, str)
        assert_type(bool(run.cancel(force=True)), bool)

        sync.start(measure, 1)  # type: ignore[arg-type]  # the argument is a text
        sync.start(measure)  # type: ignore[call-arg]  # it has no default
        run.result("1s")  # type: ignore[call-arg]  # the timeout is given by name
        sync.run(measure, "text", thrice=True)  # type: ignore[call-arg]  # there is no such option


def use_in_a_transaction(app: SyncApp, connection: sqlite3.Connection) -> None:
    within = app.within(connection)
    assert_type(within.start(measure, "text"), SyncRun[int])
    within.signal("m", answer, True)
    within.publish("order.placed", {"item": "tea"}, id="order-7", key="ada")

    within.publish("order.placed", 7)  # type: ignore[call-arg]  # an event has an id
    within.start(measure, 1)  # type: ignore[arg-type]  # the argument is a text
    within.start(measure)  # type: ignore[call-arg]  # it has no default


async def use_in_an_async_transaction(app: App, connection: object) -> None:
    within = app.within(connection)
    assert_type(await within.start(measure, "text", twice=True), Run[int])
    await within.signal("m", answer, True)
    await within.publish("order.placed", {"item": "tea"}, id="order-7")

    await within.start(measure, 1)  # type: ignore[arg-type]  # the argument is a text
    await within.start(measure)  # type: ignore[call-arg]  # it has no default
