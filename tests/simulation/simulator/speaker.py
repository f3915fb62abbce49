"""Sends words to runs: directly or with a transaction of the sender's own, once or again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from onward.codec import encode
from onward.engine.within import CallerTransaction
from onward.errors import RunOver
from tests.simulation.simulator.sample_workflows import word

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from onward.engine.client_engine import ClientEngine
    from onward.store.sqlite.transaction import SqliteTx
    from onward.store.store import Store
    from tests.simulation.simulator.draw import Draw
    from tests.simulation.simulator.line import Memory
    from tests.simulation.simulator.process import Process

PAUSE_SECONDS = 6.0
AGAIN_SECONDS = 20.0


class Speaker:
    """Speaks to one run at a time, one word after the other.

    Each word is acknowledged before the next is sent, so the run must hear them in this order, and
    each once.

    Args:
        process: The process that sends.
        store: Its store, for transactions of its own.
        engine: Where it sends words directly.
        memory: The database.
        draw: Decides how a word is sent.
        insist: Asks again while the database is away.
        tell: Is called with what was sent.
    """

    def __init__(
        self,
        process: Process,
        store: Store,
        engine: ClientEngine,
        memory: Memory,
        draw: Draw,
        insist: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
        tell: Callable[..., None],
    ) -> None:
        self._process = process
        self._store = store
        self._engine = engine
        self._memory = memory
        self._draw = draw
        self._insist = insist
        self._tell = tell

    async def say_all(self, targets: Sequence[str], words: Sequence[str], *, twice: bool) -> None:
        """Say all words to a run that is known by these names; some `twice`, later."""
        again: list[asyncio.Task[None]] = []
        for each in words:
            await asyncio.sleep(self._draw.upto(PAUSE_SECONDS))
            target = self._draw.one_of(targets)
            if twice and self._draw.happens(0.5):
                await self._insist(partial(self._within, target, each))
                self._tell("signal within", target, each)
                continue
            await self._directly(targets[0], target, each)
            if twice and self._draw.happens(0.5):
                again.append(asyncio.create_task(self._repeat(targets, each)))
        await asyncio.gather(*again)

    async def _directly(self, run: str, target: str, text: str) -> None:
        """Send a word under a message id, so that it can be sent again."""
        message = f"signal {run} {text}"
        payload = encode(text)
        await self._insist(lambda: self._engine.signal(target, word.name, payload, message=message))
        self._tell("signal", target, text)

    async def _repeat(self, targets: Sequence[str], text: str) -> None:
        """Send a word again under the same message id, as one does who got no answer."""
        await asyncio.sleep(self._draw.upto(AGAIN_SECONDS))
        with suppress(RunOver):
            await self._directly(targets[0], self._draw.one_of(targets), text)

    async def _within(self, target: str, text: str) -> None:
        store = self._store

        async def work(tx: SqliteTx) -> None:
            caller = store.database.within(tx._connection)
            await CallerTransaction(store, caller).signal(target, word.name, encode(text))

        sent = self._memory.line_of(self._process).submit_once(work, store.namespace)
        await asyncio.wrap_future(sent)
