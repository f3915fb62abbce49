"""The client of a simulated world: starts runs, talks to them, and holds them to their promises."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from onward.codec import decode, encode
from onward.engine import sending
from onward.engine.payloads import unpack
from onward.engine.results import Results
from onward.engine.starting import StartOptions, new_run, start
from onward.errors import RunCancelled, Unavailable
from onward.sdk.run import Run
from onward.testing.simulation.errands import (
    ERRANDS,
    WORDS,
    farewell,
    is_right,
    is_tidy,
    patience,
    race,
    talk,
)
from onward.testing.simulation.families import (
    COUNTERS,
    KINDS,
    OPTIONS,
    clan,
    doom,
    is_right_family,
)
from onward.testing.simulation.operator import Operator
from onward.testing.simulation.purchases import is_right_purchase, purchases

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from onward.store.store import Store
    from onward.testing.simulation.draw import Draw
    from onward.testing.simulation.process import Process
    from onward.testing.simulation.witness import Witness

T = TypeVar("T")

AGAIN_SECONDS = 0.5


class Client:
    """Sends errands, all at once, and waits for every one."""

    def __init__(
        self, process: Process, store: Store, witness: Witness, draw: Draw, pauses: float
    ) -> None:
        self._process = process
        self._store = store
        self._witness = witness
        self._draw = draw
        self._pauses = pauses

    async def send_all(self, errands: Sequence[str]) -> None:
        """Send errands and see all of them through."""
        async with self._store:
            self._results = Results(self._store)
            try:
                runs = [self._errand(f"errand-{n}", name) for n, name in enumerate(errands)]
                await asyncio.gather(*runs)
            finally:
                await self._results.close()

    async def _errand(self, run_id: str, name: str) -> None:
        await asyncio.sleep(self._draw.upto(10))
        run = await self._start(run_id, name)
        meddling = self._meddle(run) if self._draw.happens(self._pauses) else asyncio.sleep(0)
        _, _, result = await asyncio.gather(self._talk(run, name), meddling, self._result(run))
        self._tell("result", run_id, result)
        if not _is_right(name, result):
            self._witness.accuse(f"{name} ended with {result!r}")
        if name in COUNTERS:
            await self._check_counters(run, COUNTERS[name])
        recorded = [decode(unpack(payload)) for payload in self._witness.payloads(run.uid)]
        is_hurried = self._witness.is_out_of_grace(run.uid)
        if name == farewell.name and not is_tidy(recorded) and not is_hurried:
            self._witness.accuse(f"{run_id} ended before it was tidy: {recorded}")
        if await self._result(run) != result:
            self._witness.accuse(f"the result of {run_id} changed")

    async def _check_counters(self, run: Run[Any], counters: dict[str, int]) -> None:
        counted = (await self._insist(run.info)).counters
        if counted != counters:
            self._witness.accuse(f"{run.id} counted {counted}")

    async def _start(self, run_id: str, name: str) -> Run[list[str]]:
        definition = KINDS[name].definition
        arguments = definition.shape.bind((), {})
        options = replace(OPTIONS.get(name, StartOptions()), id=run_id)
        store = self._store
        uids = set()
        for _ in range(1 + self._draw.below(2)):  # starting twice starts once
            started = await self._insist(
                lambda: start(store, new_run(store.new_uid(), definition.name, arguments, options))
            )
            self._tell("start", run_id, started.uid)
            uids.add(started.uid)
        if len(uids) != 1:
            self._witness.accuse(f"{run_id} was started more than once: {sorted(uids)}")
        return Run(started.uid, run_id, self._store, self._results, definition)

    async def _talk(self, run: Run[Any], name: str) -> None:
        if name in (talk.name, patience.name):
            for word in WORDS:
                await asyncio.sleep(self._draw.upto(6))
                await self._say(run, word)
        elif name == race.name:
            await asyncio.sleep(self._draw.upto(6))
            await self._say(run, WORDS[0])
        elif name in (farewell.name, clan.name):
            await asyncio.sleep(self._draw.upto(30))
            self._tell("cancel", run.id, await self._insist(run.cancel))
        elif name == doom.name:
            await asyncio.sleep(self._draw.upto(30))
            ended = await self._insist(lambda: run.cancel(force=True))
            self._tell("force", run.id, ended)
        elif name == purchases.name:
            await Operator(self._store, self._witness, self._draw, self._tell).look_after(run.uid)

    async def _meddle(self, run: Run[Any]) -> None:
        """Pause a run for a while."""
        await asyncio.sleep(self._draw.upto(15))
        is_open = await self._insist(lambda: sending.pause(self._store, run.id))
        self._tell("pause", run.id, is_open)
        await asyncio.sleep(self._draw.upto(15))
        self._tell(
            "resume", run.id, await self._insist(lambda: sending.resume(self._store, run.id))
        )

    async def _say(self, run: Run[Any], word: str) -> None:
        payload, message = encode(word), f"{run.id} {word}"
        sent = await self._insist(
            lambda: sending.signal(self._store, run.uid, "word", payload, message=message)
        )
        self._tell("signal", run.id, word, sent.seq)

    async def _result(self, run: Run[list[str]]) -> list[str] | None:
        try:
            return await run.result()
        except RunCancelled:
            return None

    async def _insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await ask()
            except Unavailable:
                await asyncio.sleep(AGAIN_SECONDS)

    def _tell(self, what: str, *detail: Any) -> None:
        self._witness.tell(self._process, what, *detail)


def _is_right(name: str, result: list[str] | None) -> bool:
    if name == purchases.name:
        return is_right_purchase(result)
    return is_right(name, result) if name in ERRANDS else is_right_family(name, result)
