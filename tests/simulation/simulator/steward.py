"""The operator of pipelines in a simulated world: does everything that one may do, at any time.

When the trouble is over, it puts right whatever waits for a person, until all is at rest.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.engine.local_client import LocalClient
from onward.engine.schedules.local import LocalSchedules
from onward.engine.starting import StartOptions, new_run, start
from onward.errors import InvariantBroken, OnwardError, StoreUnusable, Unavailable
from onward.model.pipelines import NewEvent
from onward.store.runs.ledger import effects_of
from onward.system.clock import SystemClock
from tests.simulation.simulator.letters import (
    KEYS,
    LETTERS,
    PIPELINES,
    POLL,
    ROWS,
    VERSIONS,
    office,
    publisher,
)
from tests.simulation.simulator.operator import Operator
from tests.simulation.simulator.plan import TROUBLE_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.store.store import Store
    from tests.simulation.simulator.draw import Draw
    from tests.simulation.simulator.plan import Post
    from tests.simulation.simulator.post_view import DeliverySeen, HandlerRunSeen
    from tests.simulation.simulator.process import Process
    from tests.simulation.simulator.witness import Witness

ACT_SECONDS = 5.0
LOOK_SECONDS = 3.0
NEEDED = ("publish", "judge", "resume_run")
ACTS = (
    "trigger", "pause", "resume", "pause_run", "cancel", "retry", "skip", "replay", "skip_input",
    "start", "publish_row",
)  # fmt: skip
UNSETTLED = ("planned", "in_flight", "needs_reconcile", "indeterminate")


class Steward:
    """Looks after pipelines.

    Args:
        process: The process that it is.
        store: Its store.
        witness: Knows what there is to act on.
        draw: Decides what it does when.
        plan: How often it does something that nobody needs, and what.
    """

    def __init__(
        self, process: Process, store: Store, witness: Witness, draw: Draw, plan: Post
    ) -> None:
        self._process = process
        self._store = store
        self._witness = witness
        self._draw = draw
        self._meddling, self._acts = plan.meddling, plan.acts or ACTS
        self._published = 0

    async def live(self, patience: float) -> None:
        """Let pipelines run, meddle with them while there is trouble, and wait until they rest."""
        loop = asyncio.get_running_loop()
        end = loop.time() + patience
        async with LocalClient(self._store, SystemClock(), lambda: self._store) as engine:
            self._engine = engine
            self._operator = Operator(self._store, self._witness, self._draw, self._tell)
            for spec in VERSIONS[1].specs:
                await self._insist(lambda spec=spec: engine.pipelines.declare(spec))  # type: ignore[misc]
            while loop.time() < TROUBLE_SECONDS:
                await asyncio.sleep(self._draw.upto(ACT_SECONDS))
                await self._act()
            while left := self._witness.unrest(office().letters):
                if loop.time() > end:
                    self._witness.accuse(f"not at rest after {patience} s: {'; '.join(left)}")
                    return
                await asyncio.sleep(LOOK_SECONDS)
                await self._put_right()
            schedules = LocalSchedules(self._store)
            await self._insist(lambda: schedules.pause(POLL))
            while self._witness.unrest(office().letters):
                await asyncio.sleep(LOOK_SECONDS)
                await self._put_right()

    # --- while there is trouble -------------------------------------------------------------------

    async def _act(self) -> None:
        acts = self._acts if self._draw.happens(self._meddling) else NEEDED
        what = self._draw.one_of(acts)
        await self._try(what, getattr(self, f"_{what}"))

    async def _publish(self) -> object:
        """Publish a new event, or one again that may have another payload."""
        again = self._published > 0 and self._draw.happens(0.4)
        number = self._draw.below(self._published) if again else self._published
        self._published += not again
        said = {"by": "outside", "n": number, "again": self._draw.below(2)}
        event = NewEvent(
            self._store.new_uid(),
            LETTERS.name,
            f"outside {number}",
            LETTERS.encode(said),
            KEYS[number % len(KEYS)],
        )
        return await self._engine.pipelines.publish([event])

    async def _publish_row(self) -> object:
        """Publish to a topic that only handlers publish to, under an id that is known: nothing."""
        rows = [each for each in self._witness.post.events.values() if each.topic == ROWS.name]
        if not rows:
            return None
        row = self._draw.one_of(rows)
        event = NewEvent(self._store.new_uid(), row.topic, row.message, row.payload, row.key)
        return await self._engine.pipelines.publish([event])

    async def _start(self) -> object:
        definition, name = publisher.definition, f"publisher {self._draw.below(3)}"
        arguments, options = definition.shape.bind((name,), {}), StartOptions(id=name)
        store = self._store
        new = new_run(store.new_uid(), definition.name, arguments, options)
        return (await start(store, new)).uid

    async def _trigger(self) -> object:
        return await self._engine.pipelines.trigger(PIPELINES[0], None)

    async def _pause(self) -> None:
        await self._engine.pipelines.pause(self._draw.one_of((*PIPELINES, None)))

    async def _resume(self) -> object:
        return await self._engine.pipelines.resume(self._draw.one_of((*PIPELINES, None)))

    async def _pause_run(self) -> object:
        run = self._one_run(is_open=True)
        return run and await self._engine.pause(self._id(run))

    async def _resume_run(self) -> object:
        run = self._one_run(is_open=True)
        return run and await self._engine.resume(self._id(run))

    async def _cancel(self) -> object:
        run = self._one_run(is_open=True)
        force = self._draw.happens(0.5)
        return run and (force, await self._engine.cancel(self._id(run), force=force))

    async def _retry(self) -> object:
        run = self._one_run(is_open=False)
        return run and await self._engine.retry(self._id(run))

    async def _skip(self) -> object:
        event = self._one_event("pending", "reserved")
        if event is None:
            return None
        topic, message, handler = event
        consumer = self._draw.one_of((handler, None))
        return await self._engine.pipelines.skip(topic, [message], consumer, "so I say", "steward")

    async def _replay(self) -> object:
        event = self._one_event("consumed", "skipped")
        if event is None:
            return None
        topic, message, handler = event
        consumer = self._draw.one_of((handler, None))
        return await self._engine.pipelines.replay(topic, [message], consumer, "steward")

    async def _skip_input(self) -> object:
        inputs = self._witness.post.inputs
        if not inputs or self._draw.happens(0.5):
            return None
        uid = self._draw.one_of(inputs)
        skipped = await self._engine.pipelines.skip_input(uid, "so I say", "steward")
        self._witness.post_rules.skipped_inputs.add(uid)
        return skipped

    async def _judge(self, *, always: bool = False) -> None:
        for effect in self._witness.effects():
            if effect.state not in UNSETTLED or effect.run not in self._witness.post.runs:
                continue
            for row in await effects_of(self._store, effect.run):
                if row.key == effect.key:
                    await self._operator.consider(row, always=always and self._is_over(row.run))

    # --- when the trouble is over -----------------------------------------------------------------

    async def _put_right(self) -> None:
        """Do what a person must do so that everything goes on."""
        await self._try("judge", lambda: self._judge(always=True))
        for run in self._witness.post.runs.values():
            if run.state == "paused":
                await self._try("resume run", lambda run=run: self._engine.resume(self._id(run)))  # type: ignore[misc]
        for run in self._witness.post.runs.values():
            if (
                run.is_open and self._witness.post.handlers[run.handler, ""].removed
            ):  # no worker has it
                await self._try(
                    "give up",
                    lambda run=run: self._engine.cancel(self._id(run), force=True),  # type: ignore[misc]
                )
        post = self._witness.post
        blocked = {each.pipeline for each in post.handlers.values() if each.blocked_by is not None}
        for name in sorted(post.paused | blocked):
            await self._try("resume", lambda name=name: self._engine.pipelines.resume(name or None))  # type: ignore[misc]

    # --- helpers ----------------------------------------------------------------------------------

    def _is_over(self, uid: str) -> bool:
        return not self._witness.post.runs[uid].is_open

    def _id(self, run: HandlerRunSeen) -> str:
        return self._witness.run(run.uid).id

    def _one_run(self, *, is_open: bool) -> HandlerRunSeen | None:
        runs = [
            each
            for each in self._witness.post.runs.values()
            if each.newest and each.is_open == is_open and each.state != "succeeded"
        ]
        return self._draw.one_of(runs) if runs else None

    def _one_event(self, *states: str) -> tuple[str, str, str] | None:
        """Return the topic, id and consumer of a delivery in one of these states."""
        post = self._witness.post
        found: list[DeliverySeen] = [
            each for each in post.deliveries.values() if each.state in states
        ]
        if not found:
            return None
        each = self._draw.one_of(found)
        return each.topic, post.events[each.event].message, each.handler

    async def _try(self, what: str, act: Callable[[], Awaitable[object]]) -> None:
        """Do something that may be refused, and that is not done while the database is away."""
        try:
            done: object = await act()
        except (Unavailable, StoreUnusable):
            return
        except InvariantBroken as error:
            self._witness.accuse(f"{what}: {error!r}")
            return
        except OnwardError as error:
            done = type(error).__name__
        self._tell("operate", what, str(done))

    async def _insist(self, ask: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await ask()
            except (Unavailable, StoreUnusable):
                await asyncio.sleep(0.5)
            else:
                return

    def _tell(self, what: str, *detail: Any) -> None:
        self._witness.tell(self._process, what, *detail)
