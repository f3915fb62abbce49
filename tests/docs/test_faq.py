"""The messages in the FAQ are those that Onward gives.

Most entries name a script of `tests/e2e/mistakes`, whose own test runs it and looks for certain
words in its output: the same words must be in the entry. The other entries are run here.
"""

from __future__ import annotations

import asyncio
import random
import re
from typing import TYPE_CHECKING

import pytest

from onward import App, Signal, step, workflow
from onward.errors import NoWorker, RunFailed, RunPaused, Unavailable
from tests.docs.pages import ROOT
from tests.e2e.mistakes.test_mistakes import MISTAKES

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PAGE = ROOT / "docs" / "guides" / "faq.md"
ENTRY = re.compile(r"((?:<!-- [^\n]+ -->\n)+)```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOTE = re.compile(r"<!-- (\w+): (.+) -->")


def entries(kind: str) -> dict[str, str]:
    """Return the messages on the page by the name of what gives them."""
    return {
        name: text
        for notes, text in ENTRY.findall(PAGE.read_text())
        for found, name in NOTE.findall(notes)
        if found == kind
    }


BY_NAME = {mistake.name: mistake for mistake in MISTAKES}


@pytest.mark.parametrize("name", entries("mistake"))
def test_an_entry_has_the_words_that_the_script_prints(name: str) -> None:
    text = entries("mistake")[name]
    assert [said for said in BY_NAME[name].says if said not in text] == []


def test_nearly_every_mistake_has_an_entry() -> None:
    missing = sorted(BY_NAME.keys() - entries("mistake").keys())
    assert len(missing) < len(BY_NAME) / 4, f"the FAQ says nothing about {missing}"


# --- entries that no script covers ----------------------------------------------------------------

go = Signal("go", bool)


@step
async def pay(number: float) -> float:
    return number


@workflow
async def draws() -> float:
    number = await pay(random.random())  # the mistake
    await go.wait()
    return number


@workflow
async def reaches_out() -> int:
    return await asyncio.to_thread(len, "abc")  # the mistake


async def diverge() -> str:
    async with App(":memory:") as app:
        run = await app.start(draws.options(id="order-1"))
        async with app.worker(workflows=[draws]):
            while await run.state() != "waiting":  # noqa: ASYNC110 - no one tells
                await asyncio.sleep(0.01)
        async with app.worker(workflows=[draws]):  # it replays the run
            await run.signal(go, True)
            with pytest.raises(RunPaused) as caught:
                await run.result(timeout="30s", raise_paused=True)
    return str(caught.value)


async def reach_out() -> str:
    app = App(":memory:")
    async with app, app.worker(workflows=[reaches_out]):
        with pytest.raises(RunFailed) as caught:
            await app.run(reaches_out)
    return str(caught.value)


async def have_no_worker() -> str:
    async with App(":memory:") as app:
        with pytest.raises(NoWorker) as caught:
            await app.run(draws.options(id="order-1"))
    return str(caught.value)


async def be_refused() -> str:
    with pytest.raises(Unavailable) as caught:
        async with App("postgresql://me@127.0.0.1:1/shop"):
            pass
    return str(caught.value)


CHECKED: dict[str, Callable[[], Awaitable[str]]] = {
    "random": diverge,
    "outside": reach_out,
    "no worker": have_no_worker,
    "refused": be_refused,
}


@pytest.mark.parametrize("name", CHECKED)
async def test_an_entry_has_the_message_that_onward_raises(name: str) -> None:
    assert entries("checked")[name].strip() in await CHECKED[name]()


def test_every_entry_that_is_marked_is_checked() -> None:
    assert entries("checked").keys() == CHECKED.keys()
