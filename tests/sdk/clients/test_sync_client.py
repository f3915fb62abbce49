"""The sync face of an app: the same calls, for code without an event loop."""

from __future__ import annotations

import inspect
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, Run, Signal, step, workflow
from onward.errors import (
    Conflict,
    NotFound,
    NotOpen,
    RunCancelled,
    RunFailed,
    WouldBlock,
)
from onward.handles import SyncApp, SyncRun
from onward.sdk.effects import Effects
from onward.sdk.sync import SyncEffects, SyncWithin
from onward.sdk.within import Within

if TYPE_CHECKING:
    from pathlib import Path

answer = Signal("answer", int)


@step
def shout(text: str) -> str:
    return text.upper()


@workflow
async def cheer(name: str) -> str:
    return await shout(f"well done, {name}")


@workflow
async def add_answers(count: int) -> int:
    return sum([await answer.wait() for _ in range(count)])


@workflow
async def stumble() -> None:
    raise LookupError("no such thing")


def test_a_run_returns_its_result(url: str) -> None:
    with App(url).sync() as app, app.worker(workflows=[cheer]):
        assert app.run(cheer, "Ada") == "WELL DONE, ADA"


def test_a_run_is_started_signalled_and_looked_at(url: str) -> None:
    with App(url).sync() as app, app.worker(workflows=[add_answers]):
        run = app.start(add_answers.options(id="sum"), 2)
        run.signal(answer, 40)
        app.signal("sum", "answer", 2)

        assert (run.id, repr(run)) == ("sum", "<run sum>")
        assert run.result(timeout="60s") == 42
        assert run.state() == "succeeded"
        assert run.info().name == "add_answers"
        assert len(run.history()) == 2
        assert app.get("sum").uid == run.uid
        assert [info.id for info in app.runs(state="succeeded")] == ["sum"]
        assert app.counts() == {"succeeded": 1}


def test_a_run_is_cancelled(url: str) -> None:
    with App(url).sync() as app, app.worker(workflows=[add_answers]):
        run = app.start(add_answers.options(id="sum"), 2)
        assert run.cancel()
        with pytest.raises(RunCancelled):
            run.result(timeout="60s")
        assert not app.cancel("sum")


def test_errors_are_those_of_the_async_app(url: str) -> None:
    with App(url).sync() as app, app.worker(workflows=[add_answers, stumble]):
        run = app.start(add_answers.options(id="sum"), 1)
        with pytest.raises(RunFailed, match="no such thing"):
            app.run(stumble)
        with pytest.raises(Conflict):
            app.start(add_answers.options(id="sum"), 2)
        with pytest.raises(NotFound):
            app.get("missing")
        with pytest.raises(TimeoutError):
            run.result(timeout="20ms")
        with pytest.raises(TypeError):
            app.start(add_answers)  # type: ignore[call-arg] # that is the test


def test_several_threads_may_use_it_at_a_time(url: str) -> None:
    names = [f"name {number}" for number in range(40)]
    with App(url).sync() as app, app.worker(workflows=[cheer]), ThreadPoolExecutor(8) as threads:
        results = threads.map(lambda name: app.run(cheer, name), names)
        assert list(results) == [f"WELL DONE, {name.upper()}" for name in names]


def test_a_sync_step_may_use_it(tmp_path: Path) -> None:
    with App(str(tmp_path / "app.db")).sync() as app:

        @step
        def count_runs() -> dict[str, int]:
            return app.counts()

        @workflow
        async def look() -> dict[str, int]:
            return await count_runs()

        with app.worker(workflows=[look]):
            assert app.run(look) == {"running": 1}


# --- opening and closing --------------------------------------------------------------------------


def test_it_ends_its_thread_and_may_be_opened_again(tmp_path: Path) -> None:
    app = App(str(tmp_path / "app.db")).sync()
    for opened in range(1, 3):
        with app:
            app.start(cheer, "Ada")
            assert app.counts() == {"ready": opened}
        assert [thread.name for thread in threading.enumerate() if "onward" in thread.name] == []


def test_a_worker_opens_it_as_well() -> None:
    app = App(":memory:").sync()
    with app.worker(workflows=[cheer]) as worker:
        assert app.run(cheer, "Ada") == "WELL DONE, ADA"
        assert worker.id
    with pytest.raises(NotOpen, match="is not open"):
        app.counts()


def test_a_worker_that_is_stopped_leaves(url: str) -> None:
    with App(url).sync() as app, app.worker(workflows=[cheer]) as worker:
        assert app.run(cheer, "Ada") == "WELL DONE, ADA"
        worker.stop()
        while app._call(app._target._store.served_queues()):
            pass


def test_an_error_in_the_body_is_raised_as_it_is(url: str) -> None:
    def body(app: SyncApp) -> None:
        with app, app.worker(workflows=[cheer]):
            app.run(cheer, "Ada")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body(App(url).sync())


def test_a_store_that_cannot_be_opened_leaves_no_thread(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="is a folder"), App(str(tmp_path)).sync():
        pytest.fail("it was opened")
    assert [thread.name for thread in threading.enumerate() if "onward" in thread.name] == []


def test_a_call_that_waits_while_another_thread_closes_raises(tmp_path: Path) -> None:
    app = App(str(tmp_path / "app.db")).sync()
    with ThreadPoolExecutor(1) as threads:
        with app:
            run = app.start(cheer, "Ada")
            waiting = threads.submit(run.result)
            while not app._background._calls:
                pass
        with pytest.raises(NotOpen, match="was closed while this call was waiting"):
            waiting.result(timeout=20)


async def test_a_thread_whose_event_loop_runs_is_refused() -> None:
    app = App(":memory:").sync()
    with pytest.raises(WouldBlock, match=r"Use the async App.*asyncio\.to_thread"), app:
        pytest.fail("it was opened")


async def test_a_call_in_an_event_loop_is_refused_also_when_the_app_is_open(
    tmp_path: Path,
) -> None:
    with ThreadPoolExecutor(1) as threads:
        app = threads.submit(App(str(tmp_path / "app.db")).sync().__enter__).result()
        with pytest.raises(WouldBlock):
            app.counts()
        threads.submit(app.__exit__, None, None, None).result()


# --- what is mirrored -----------------------------------------------------------------------------

NOT_MIRRORED = {"sync", "blocking_within"}


def public(kind: type) -> dict[str, Any]:
    return {
        name: value
        for base in kind.__mro__
        for name, value in vars(base).items()
        if not name.startswith("_") and callable(value) and name not in NOT_MIRRORED
    }


@pytest.mark.parametrize(
    ("original", "mirror"),
    [(App, SyncApp), (Run, SyncRun), (Within, SyncWithin), (Effects, SyncEffects)],
)
def test_every_call_is_mirrored_with_its_parameters(original: type, mirror: type) -> None:
    mirrored = {name: inspect.signature(call).parameters for name, call in public(mirror).items()}
    asked = {name: inspect.signature(call).parameters for name, call in public(original).items()}
    assert {name: list(found.values()) for name, found in mirrored.items()} == {
        name: list(wanted.values()) for name, wanted in asked.items()
    }


# --- Ctrl-C ---------------------------------------------------------------------------------------

INTERRUPTED = """
import signal, sys
from onward import App, wait_signal, workflow

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have had it ignored

@workflow
async def forever() -> None:
    await wait_signal("never")

try:
    with App(sys.argv[1]).sync() as app, app.worker():
        run = app.start(forever.options(id="f"))
        print("waiting", flush=True)
        run.result()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_a_call_that_waits_and_the_worker_leaves_in_order(tmp_path: Path) -> None:
    path = str(tmp_path / "app.db")
    command = [sys.executable, "-c", INTERRUPTED, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        try:
            assert process.communicate(timeout=60)[0] == "interrupted\n"
        finally:
            process.kill()
    assert process.returncode == 0
    with App(path).sync() as app:
        assert app.get("f").state() in ("ready", "waiting")
        assert app._call(app._target._store.served_queues()) == set()


FORGOTTEN = """
import sys
from onward import App
from shop import nod

app = App(sys.argv[1]).sync()
app.__enter__()
worker = app.worker()
worker.__enter__()
print(app.run(nod))
"""

SHOP = """
from onward import workflow

@workflow
async def nod() -> str:
    return "yes"
"""


def test_a_process_ends_although_its_app_was_not_closed(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)  # or a workflow would keep the script's own names
    (tmp_path / "script.py").write_text(FORGOTTEN)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "app.db")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert (ended.stdout, ended.stderr) == ("yes\n", "")


@pytest.mark.parametrize(("what", "states"), [("client", []), ("worker", ["succeeded"])])
def test_a_client_can_be_closed_when_python_exits(
    what: str, states: list[str], tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "tests.sdk.clients.at_exit", str(tmp_path / "a.db"), what]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert (ended.stdout, ended.stderr) == (f"{states}\nclosed\n", "")
