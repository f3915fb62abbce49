"""New code for a handler that an error blocks, brought by real worker processes one after another.

On a file only: what the databases do is tested by the conformance suite.
"""

from __future__ import annotations

import asyncio
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from onward import App
from tests.cli.worker_process import WorkerProcess
from tests.kit.deploys import write_module
from tests.kit.watching import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from onward.pipelines import HandlerInfo

MODULE = """
from pathlib import Path

from onward import App, Consumer, Pipeline, Prepared


def note(file, text):
    with Path(file).open("a") as log:
        print(text, file=log)


app = App("shop.db", on_attention=lambda alert: note("alerts", f"{alert.workflow} {alert.why}"))
orders, mail = Pipeline("orders"), Pipeline("mail")
placed, received = orders.topic("orders.placed", str), mail.topic("mail.received", str)


@orders.consumer(subscribes=[placed])
class Pack(Consumer[int, str]):
    async def prepare(self, ctx, state):
        events = await ctx.peek(placed, limit=1)
        note("tried", RELEASE)
        RAISE
        return Prepared(reserve=events)

    async def next(self, ctx, prepared, outcome):
        note("packed", RELEASE)


@mail.consumer(subscribes=[received])
class Read(Consumer[int, str]):
    async def prepare(self, ctx, state):
        return Prepared(reserve=await ctx.peek(received, limit=1))
"""
PACK, READ = "orders.Pack", "mail.Read"
BUDGET = 3
"""After so many failures in a row, other code is not tried."""


class Shop:
    """A folder whose module each release replaces."""

    def __init__(self, folder: Path, app: App) -> None:
        self.folder = folder
        self.app = app
        self._mails = 0

    @asynccontextmanager
    async def release(self, number: int, *, is_faulty: bool) -> AsyncIterator[None]:
        """Run a worker with another version of the code, up to the end of the block."""
        fault = f"raise ValueError('bug {number}')" if is_faulty else "pass"
        code = MODULE.replace("RELEASE", str(number)).replace("RAISE", fault)
        write_module(self.folder / "shop.py", code)
        with WorkerProcess(self.folder, "shop") as worker:
            await asyncio.to_thread(worker.until, "worker.ready")
            yield
            worker.send(signal.SIGTERM)
            assert await asyncio.to_thread(worker.status) == 0

    def lines(self, file: str) -> list[str]:
        """Return what the processes noted."""
        path = self.folder / file
        return path.read_text().splitlines() if path.exists() else []

    async def until_blocked(self, failures: int) -> HandlerInfo:
        """Wait until the consumer of orders has failed so often in a row, and return it."""
        found: list[HandlerInfo] = []

        async def is_blocked() -> bool:
            found[:] = (await self.app.pipelines.get("orders")).handlers
            return (found[0].state, found[0].failures) == ("blocked", failures)

        await until(is_blocked)
        return found[0]

    async def until_consumed(self, topic: str, consumer: str, number: int) -> None:
        async def is_consumed() -> bool:
            return (await self.app.topics.counts(topic))[consumer]["consumed"] == number

        await until(is_consumed)

    async def see_mail_read(self) -> None:
        """See that the other pipeline handles its events."""
        self._mails += 1
        await self.app.publish("mail.received", "hello", id=str(self._mails))
        await self.until_consumed("mail.received", READ, self._mails)


async def test_an_event_whose_code_fails_is_tried_once_and_consumed_by_changed_code(
    tmp_path: Path,
) -> None:
    async with App(str(tmp_path / "shop.db")) as app:
        shop = Shop(tmp_path, app)
        async with shop.release(1, is_faulty=True):
            await app.publish("orders.placed", "a book", id="1")
            await shop.until_blocked(1)
            await app.publish("orders.placed", "a lamp", id="2")
            await shop.see_mail_read()
        async with shop.release(1, is_faulty=True):  # a restart with the same code
            await shop.see_mail_read()
        assert shop.lines("tried") == ["1"]
        async with shop.release(2, is_faulty=False):
            await shop.until_consumed("orders.placed", PACK, 2)
    assert shop.lines("packed") == ["2", "2"]
    assert shop.lines("alerts") == [f"consumer {PACK} logic"]


async def test_after_three_failures_a_handler_waits_for_an_operator_and_other_pipelines_go_on(
    tmp_path: Path,
) -> None:
    async with App(str(tmp_path / "shop.db")) as app:
        shop = Shop(tmp_path, app)
        for number in range(1, BUDGET + 1):
            async with shop.release(number, is_faulty=True):
                if number == 1:
                    await app.publish("orders.placed", "a book", id="1")
                blocked = await shop.until_blocked(number)
        assert "deploy other code" not in blocked.next
        assert shop.lines("alerts") == [f"consumer {PACK} logic"] * BUDGET
        async with shop.release(BUDGET + 1, is_faulty=False):
            await shop.see_mail_read()
            await shop.until_blocked(BUDGET)
            await app.pipelines.resume("orders")
            await shop.until_consumed("orders.placed", PACK, 1)
    assert shop.lines("tried")[:BUDGET] == ["1", "2", "3"]
    assert shop.lines("packed") == [str(BUDGET + 1)]
