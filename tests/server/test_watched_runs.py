"""Streams of clients that wait for the ends of runs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.server.limits import StreamLimits
from onward.wire.messages import messages
from tests.kit.watching import until
from tests.server.raw import TIMEOUT, succeeded, uid_of
from tests.server.test_large_data import watch
from tests.server.test_reply_limits import SMALL_REPLIES, TOO_LARGE, claim_all

if TYPE_CHECKING:
    from collections.abc import Collection

    import pytest

    from onward.server.watched_runs import WatchedRuns
    from tests.server.conftest import World, Worlds


class WatchStream:
    """A stream that waits for runs."""

    def __init__(self, world: World) -> None:
        channel: Any = world.channel
        self._stream = channel.stream_stream("/onward.v1.Engine/Watch")()

    async def watch(self, *runs: str) -> None:
        watched = [messages.Watched(run=run) for run in runs]
        await self._stream.write(messages.WatchRequest(watch=watched).SerializeToString())

    async def unwatch(self, *runs: str) -> None:
        await self._stream.write(messages.WatchRequest(unwatch=runs).SerializeToString())

    async def reply(self) -> Any:
        """Return the next reply."""
        async with asyncio.timeout(TIMEOUT):
            return messages.WatchReply.FromString(await self._stream.read())

    def close(self) -> None:
        self._stream.cancel()


def only_watches(world: World) -> WatchedRuns:
    """Return the server's side of the only stream."""
    [watches] = world.server._clients.watches
    return watches


async def end_run(world: World, worker: Any, name: str, result: bytes = b"json:1") -> None:
    await world.client.start(name)
    [run] = await worker.claim()
    assert await worker.commit(succeeded(1, run, result)) == {1: "done"}


async def test_what_is_not_a_uid_fails_alone(either: Worlds) -> None:
    async with either.serve() as world, world.worker() as worker:
        honest, bad = WatchStream(world), WatchStream(world)
        await world.client.start("r1")
        await honest.watch(uid_of("r1"))
        await bad.watch("a\0b", "r1")
        reply = await bad.reply()
        assert [each.run for each in reply.failures] == ["a\0b", "r1"]
        assert {each.problem.code for each in reply.failures} == {"bad_input"}
        [run] = await worker.claim()
        await worker.commit(succeeded(1, run))
        reply = await honest.reply()
        assert [end.uid for end in reply.ends] == [uid_of("r1")]
        honest.close()
        bad.close()


async def test_a_run_that_is_watched_again_before_its_outcome_was_sent_is_answered(
    sqlite: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        for name in ("r1", "r2"):
            await end_run(world, worker, name)
        hub = await world.server.hub("default")
        outcomes, states = asyncio.Event(), asyncio.Event()
        states.set()
        read_outcomes, read_states = hub.store.ends, hub.ends._read

        async def slow_outcomes(uids: Collection[str]) -> Any:
            await outcomes.wait()
            return await read_outcomes(uids)

        async def slow_states(uids: Collection[str]) -> Any:
            await states.wait()
            return await read_states(uids)

        monkeypatch.setattr(hub.store, "ends", slow_outcomes)
        monkeypatch.setattr(hub.ends, "_read", slow_states)
        stream = WatchStream(world)
        await stream.watch(uid_of("r1"))
        first, second = (uid_of("r1"), False), (uid_of("r2"), False)
        await until(lambda: bool(world.server._clients.watches))
        watches = only_watches(world)
        await until(lambda: first in watches._watched and watches._watched[first].done())
        await stream.watch(uid_of("r2"))
        await until(lambda: second in watches._watched and watches._watched[second].done())
        states.clear()
        await stream.unwatch(uid_of("r2"))
        await stream.watch(uid_of("r2"))
        await until(lambda: second in watches._watched and not watches._watched[second].done())
        outcomes.set()
        assert [end.uid for end in (await stream.reply()).ends] == [uid_of("r1")]
        states.set()
        assert [end.uid for end in (await stream.reply()).ends] == [uid_of("r2")]
        stream.close()


async def test_a_client_that_reads_nothing_fills_no_memory_by_watching_again(
    sqlite: Worlds,
) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await end_run(world, worker, "r1")
        stream = WatchStream(world)
        uid, key = uid_of("r1"), (uid_of("r1"), False)
        await stream.watch(uid)
        await stream.reply()
        watches = only_watches(world)
        # As if the client read nothing: how much the connection holds for it differs.
        watches.outbox._limits = StreamLimits(unsent_bytes=0)
        assert watches.outbox.is_full
        for _ in range(20):
            await stream.watch(uid)
            await until(lambda: key in watches._watched and watches._watched[key].done())
            await stream.unwatch(uid)
            await until(lambda: key not in watches._watched)
        assert len(watches._over) <= 1
        stream.close()


async def test_an_outcome_that_no_frame_can_hold_fails_the_wait_for_its_run_alone(
    sqlite: Worlds,
) -> None:
    async with sqlite.serve(limits=SMALL_REPLIES) as world, world.worker() as worker:
        for name in ("r1", "r2"):
            await world.client.start(name)
        for run in await claim_all(worker):
            result = TOO_LARGE if run.uid == uid_of("r1") else b"json:1"
            assert await worker.commit(succeeded(1, run, result)) == {1: "done"}
        replies = await watch(world, [uid_of("r1"), uid_of("r2")], 2)
        [failure] = [each for reply in replies for each in reply.failures]
        assert (failure.run, failure.problem.code) == (uid_of("r1"), "payload_too_large")
        assert [end.uid for reply in replies for end in reply.ends] == [uid_of("r2")]
