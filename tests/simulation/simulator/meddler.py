"""What a client does to runs beside what they need: retries and forks by hand, odd ids."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.run import RunState
from onward.engine import following
from onward.engine.starting import StartOptions, new_run
from onward.errors import BadInput
from onward.sdk.run import Run
from tests.simulation.simulator.kinds import KINDS
from tests.simulation.simulator.samplers import SAMPLERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.engine.client_engine import ClientEngine
    from onward.model.following import Followed
    from onward.store.store import Store
    from tests.simulation.simulator.draw import Draw
    from tests.simulation.simulator.witness import Witness


class Meddler:
    """Meddles with runs.

    Args:
        engine: The engine of the client.
        store: Its store, for what goes past the engine.
        witness: Records what is wrong.
        draw: Decides what is done when.
        insist: Asks again while the database is away.
    """

    def __init__(
        self,
        engine: ClientEngine,
        store: Store,
        witness: Witness,
        draw: Draw,
        insist: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]],
    ) -> None:
        self._engine = engine
        self._store = store
        self._witness = witness
        self._draw = draw
        self._insist = insist

    async def retry(self, run: Run[list[str]]) -> None:
        """Retry a run that has failed, once; the cause is gone by then."""
        newest = await self._insist(lambda: self._store.newest(run.id))
        # A pause that it had not heard of when it failed ended with it: a retry lets it go on.
        self._witness.control.let_go(run.id)
        await self._insist(lambda: following.retry(self._store, newest.uid))

    async def start_twin(self, run: Run[Any], name: str) -> Run[list[str]] | None:
        """Start a run whose id is the uid of another; None: it was refused."""
        definition = KINDS[name].definition
        arguments, options = definition.shape.bind((), {}), StartOptions(id=run.uid)
        engine = self._engine
        try:
            started = await self._insist(
                lambda: engine.start(
                    new_run(engine.new_uid(), definition.name, arguments, options), "return"
                )
            )
        except BadInput:
            return None
        return Run(started.uid, run.uid, self._engine, definition)

    async def fork(self, run: Run[Any], name: str) -> None:
        """Fork a run that takes samples, from anywhere in its history, while it goes on or later.

        The fork is a run beside it, and must come to its end, too.
        """
        if name not in SAMPLERS:
            return
        await asyncio.sleep(self._draw.upto(20))
        uid = (await self._insist(lambda: self._store.newest(run.id))).uid
        history = (await self._insist(lambda: self._store.history([uid])))[uid]
        places = [row.identity for row in history if row.seq is not None and row.kind == "step"]
        step = self._draw.one_of(places) if places and self._draw.happens(0.7) else None
        own = f"fork of {run.id}"
        forked: Followed = await self._insist(
            lambda: following.fork(self._store, uid, step, id=own)
        )
        if forked.uid is None:
            self._witness.accuse(f"{run.id} could not be forked: {forked}")
            return
        end = await self._engine.end_of(forked.uid)
        while end.follower is not None:
            end = await self._engine.end_of(end.follower)
        if end.state != RunState.SUCCEEDED:
            self._witness.accuse(f"{own} of {name} ended as {end}")
