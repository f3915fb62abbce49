"""A remote worker whose streams break, and one that has lost its lease."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from onward.errors import LeaseLost, Unavailable
from onward.model.workers import News
from onward.runtime.worker.inbox_reader import InboxReader
from onward.runtime.worker.outage import Outage
from onward.telemetry.observer import SILENT
from onward.wire.problems import to_problem
from onward.wire.stream import Beat
from tests.unit.wire.fake_network import REGISTRATION
from tests.unit.wire.test_remote_worker import World, joined, settle

pytestmark = pytest.mark.usefixtures("onward_clock")


async def test_a_join_whose_stream_breaks_is_sent_again() -> None:
    world = World(Beat())
    joining = asyncio.ensure_future(world.worker.join(REGISTRATION, 15_000_000))
    first = await world.network.opened()
    await first.sent("hello")
    first.cut()
    _, hello = await world.network.greeted()
    await joining
    assert not hello.is_reconnect
    world.worker.disconnect()
    await world.network.close()


async def test_a_hello_that_is_answered_by_a_frame_that_cannot_be_read_is_sent_again() -> None:
    async with joined() as world:
        world.stream.cut()
        again = await world.network.opened()
        await again.sent("hello")
        again.put_bytes(b"\xff")
        _, hello = await world.network.greeted()
        assert hello.is_reconnect


async def test_a_join_that_no_server_answers_is_unavailable_after_a_while() -> None:
    world = World(Beat())
    world.network.refusing = Unavailable("fake", "is away")
    began = asyncio.get_running_loop().time()
    with pytest.raises(Unavailable):
        await world.worker.join(REGISTRATION, 15_000_000)
    assert asyncio.get_running_loop().time() - began < 2
    assert world.network.tries > 1


async def test_inboxes_that_are_read_when_the_lease_is_lost_leave_no_error_behind() -> None:
    async with joined() as world:
        run: Any = SimpleNamespace(uid="a", fence=1, seen=0, is_stopped=False, dropped=0)
        run.drop = lambda: setattr(run, "dropped", run.dropped + 1)
        reader = InboxReader(world.worker, Outage("w1", world.network.randomness, SILENT))
        world.stream.cut()
        stream = await world.network.opened()
        request = await stream.sent("hello")
        stream.answer(request, problem=to_problem(LeaseLost("w1", "the lease of worker")))
        await world.worker.wait(10)
        reader.read_all({"a": run}, News(("a",)))
        reader.read_again(run)
        await settle(lambda: not reader._reads)  # the test fails if a task has an error
        assert run.dropped == 1


async def test_the_delays_between_tries_to_connect_grow_to_five_seconds() -> None:
    async with joined() as world:
        world.network.refusing = Unavailable("fake", "is away")
        world.stream.cut()
        await asyncio.sleep(60)
        tries = world.network.tries
        await asyncio.sleep(60)
        assert 7 <= world.network.tries - tries <= 20
        world.network.refusing = None
        await world.network.greeted()


async def test_a_worker_reconnects_at_once_however_often_its_servers_die() -> None:
    async with joined() as world:
        stream, loop = world.stream, asyncio.get_running_loop()
        for _ in range(10):
            await asyncio.sleep(3)
            stream.cut()
            cut_at = loop.time()
            stream, _ = await world.network.greeted()
            assert loop.time() - cut_at < 0.1
