"""Commands in processes of their own, beside a worker, on both databases."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from onward import App
from onward.store import open_store
from onward.store.invariants import check
from tests.cli.shop import hold, pay, sent, write
from tests.kit.watching import until

if TYPE_CHECKING:
    from onward import Workflow
    from tests.cli.conftest import Ask

WORKFLOWS: list[Workflow[..., Any]] = [pay, write, hold]


def key(process: Ask, url: str) -> str:
    """Return the id of the only effect that waits for somebody."""
    return str(process("effects", "list", "--db", url, "--json").thing["id"])


async def broken(url: str) -> list[str]:
    async with open_store(url) as store:
        return [str(each) for each in await check(store)]


def test_an_operator_settles_an_effect_and_the_run_goes_on(url: str, process: Ask) -> None:
    with App(url).sync() as app, app.worker(workflows=WORKFLOWS):
        run = app.start(pay.options(id="pay-1"), 500)
        with pytest.raises(Exception, match="is paused"):
            run.result(timeout="60s", raise_paused=True)
        charge = key(process, url)
        assert (
            "ConnectionError: the line went dead"
            in process("effects", "show", charge[:10], "--db", url).out
        )
        words = ("--result", '"ch_7"', "--reason", "on the statement", "--db", url)
        answer = process("effects", "resolve", charge[:10], "applied", *words)
        assert (answer.status, answer.out) == (
            0,
            f"charge {charge[:12]} of run pay-1 is applied\n",
        )
        assert run.result(timeout="60s") == "ch_7"
        late = process("effects", "resolve", charge, "skip", "--reason", "too late", "--db", url)
        assert late.status == 1
        assert "the effect is already settled: its state is 'applied'" in late.err
    assert asyncio.run(broken(url)) == []


def test_an_operator_approves_what_is_shown(url: str, process: Ask) -> None:
    sent.clear()
    with App(url).sync() as app, app.worker(workflows=WORKFLOWS):
        run = app.start(write.options(id="write-1"), "bob")
        with pytest.raises(Exception, match="is paused"):
            run.result(timeout="60s", raise_paused=True)
        mail = process("effects", "show", key(process, url), "--db", url, "--json").thing
        assert (mail["arguments"], sent) == ({"to": "bob"}, [])
        assert process("effects", "approve", mail["id"], "--reason", "ok", "--db", url).status == 0
        assert run.result(timeout="60s") == "mail to bob"
    assert sent == ["bob"]
    assert asyncio.run(broken(url)) == []


def test_an_operator_signals_and_cancels(url: str, process: Ask) -> None:
    with App(url).sync() as app, app.worker(workflows=WORKFLOWS):
        first = app.start(hold.options(id="hold-1"))
        app.start(hold.options(id="hold-2"))
        words = ("go", "--json-value", "7", "--db", url)
        assert process("runs", "signal", "hold-1", *words).status == 0
        assert first.result(timeout="60s") == "7 of 3"
        cancelled = process(
            "runs",
            "cancel",
            "hold-1",
            "hold-2",
            "--wait",
            "--timeout",
            "20s",
            "--db",
            url,
            "--json",
        )
        assert cancelled.status == 1
        assert [(one["id"], one["state"]) for one in cancelled.things] == [
            ("hold-1", "succeeded"),
            ("hold-2", "cancelled"),
        ]
        assert (
            process("runs", "show", "hold-2", "--db", url, "--json").thing["reason"] == "operator"
        )
    assert asyncio.run(broken(url)) == []


def test_nobody_is_bothered_when_the_reader_has_gone(shop: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "onward", "runs", "list", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        process.wait(60)


async def _asked_to_stop(url: str) -> None:
    async with App(url) as app:
        uid = (await app.get("hold-1")).uid

        async def is_asked() -> bool:
            return [each.kind for each in (await app._store.look([uid]))[uid]] == ["cancel"]

        await until(is_asked, 30)


def test_ctrl_c_ends_a_command_that_waits_without_a_traceback_or_an_answer(shop: str) -> None:
    command = [sys.executable, "-m", "onward", "runs", "cancel", "hold-1", "--wait"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores SIGINT, and its children inherit that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as waiting:
        try:
            asyncio.run(_asked_to_stop(shop))  # no worker runs, so the command keeps waiting
            waiting.send_signal(signal.SIGINT)
            assert waiting.communicate(timeout=30) == ("", "")
            assert waiting.returncode == 130
        finally:
            waiting.kill()  # or a command that ignores the signal would block this test
