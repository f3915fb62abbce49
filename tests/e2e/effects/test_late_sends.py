"""A worker that stands still around a send, and goes on when somebody else has judged it."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from onward import App
from onward.store import open_store
from tests.e2e.effects.kills import pending
from tests.e2e.effects.orders import one_order
from tests.e2e.effects.sink import is_out
from tests.e2e.engine.supervisor import PATIENCE_SECONDS, SHORT_LEASE
from tests.e2e.engine.sweep import until
from tests.e2e.engine.witness import Witness

if TYPE_CHECKING:
    from onward import Run
    from tests.e2e.effects.sink import Sink
    from tests.e2e.engine.supervisor import Crew, Process

BUSY = (*SHORT_LEASE, "--slots", "1")
"""With its one run it asks for no more: stopped while it asks, it would hold the lock of a file."""


async def overtaken(crew: Crew, run: Run[Any], frozen: Process) -> Process:
    """Let another worker end the run of one that stands still."""
    await until(lambda: is_out(frozen.pid))
    other = await crew.worker(*SHORT_LEASE)
    assert await run.result(timeout=PATIENCE_SECONDS) == "order done"
    return other


async def see_it_wake(crew: Crew, app: App, frozen: Process) -> None:
    """Let a worker go on, and see that it finds itself replaced and writes nothing."""
    async with open_store(crew.url) as store:
        witness = Witness(store)
        before = await witness.rows(), await app.effects.of("the order")
        frozen.send(signal.SIGCONT)
        await frozen.replaced()
        assert (await witness.rows(), await app.effects.of("the order")) == before
        await witness.look()
        assert await pending(app) == []


async def test_a_worker_that_was_frozen_before_its_check_does_not_send(
    crew: Crew, sink: Sink
) -> None:
    async with App(crew.url) as app:
        run = await app.start(one_order.options(id="the order"), "traced", "order")
        frozen = crew.launch(*BUSY, failpoints="effect.intended=stop")
        other = await overtaken(crew, run, frozen)

        await see_it_wake(crew, app, frozen)

        assert [entry.pid for entry in sink.entries("sent")] == [other.pid]
        [effect] = await app.effects.of(run.id)
        assert effect.attempt > 1


@pytest.mark.parametrize("kind", ["traced", "careful_in_a_thread"])
async def test_a_worker_that_was_frozen_before_it_had_its_key_or_its_turn_does_not_send(
    kind: str, crew: Crew, sink: Sink
) -> None:
    async with App(crew.url) as app:
        frozen = crew.launch(*BUSY)
        sink.arm(frozen.pid, "announced", signal.SIGSTOP)
        run = await app.start(one_order.options(id="the order"), kind, "order")
        other = await overtaken(crew, run, frozen)

        await see_it_wake(crew, app, frozen)

        assert [entry.pid for entry in sink.entries("sent")] == [other.pid]


@pytest.mark.parametrize(("kind", "applied"), [("keyed_in_a_thread", 1), ("traced_in_a_thread", 2)])
async def test_a_thread_that_was_frozen_with_its_key_in_hand_sends_late_and_only_the_sink_can_tell(
    kind: str, applied: int, crew: Crew, sink: Sink
) -> None:
    async with App(crew.url) as app:
        frozen = crew.launch(*BUSY)
        sink.arm(frozen.pid, "announced", signal.SIGSTOP)
        run = await app.start(one_order.options(id="the order"), kind, "order")
        other = await overtaken(crew, run, frozen)

        await see_it_wake(crew, app, frozen)

        *before, late = [entry.pid for entry in sink.entries("sent")]
        assert (set(before), late) == ({other.pid}, frozen.pid)
        assert len(sink.entries("applied")) == applied
        [effect] = await app.effects.of(run.id)
        assert {entry.key for entry in sink.entries("sent")} == {effect.id}
        assert effect.state == "applied"  # that, and its key, is how an auditor finds it
