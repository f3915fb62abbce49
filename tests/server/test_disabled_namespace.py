"""A disabled namespace takes no new work from clients; large errors of workers are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import pytest

from onward import App, workflow
from onward.core.access import role_scopes
from onward.engine.access.administration import Administration
from onward.errors import RunFailed
from onward.model.runs import NewRun
from onward.store import open_store
from onward.wire.messages import messages
from tests.server.raw import RawStream, call, uid_of

if TYPE_CHECKING:
    from tests.server.conftest import Worlds

CALLS: dict[str, dict[str, Any]] = {
    "start": {"run": NewRun(uid_of("r2"), "r2", "greet", b"json:[]", "h"), "on_conflict": "return"},
    "retry": {"run": "r1"},
    "fork": {"run": "r1", "step": None, "new_id": "r1-fork"},
    "schedules.trigger": {"name": "nightly"},
    "pipelines.trigger": {"name": "mail", "producer": None},
    "pipelines.resume": {"name": "mail"},
}


async def test_a_disabled_namespace_takes_no_new_work(sqlite: Worlds) -> None:
    async with open_store(sqlite.url) as store:
        admin = Administration(store)
        scopes = role_scopes("operator") | role_scopes("worker")
        key = (await admin.create_key("default", "k", scopes, by="t")).key.reveal()
        await admin.enable("default", enabled=False)
    async with sqlite.serve() as world:
        world.client.metadata = (("authorization", f"Bearer {key}"),)
        for operation, given in CALLS.items():
            problem = (await world.client.reply(operation, given)).problem
            assert (operation, problem.code) == (operation, "namespace_disabled")
        assert await world.client.call("pipelines.pause", name=None) is None


async def test_a_worker_cannot_note_an_error_that_no_frame_could_carry(sqlite: Worlds) -> None:
    large = (("grpc.max_send_message_length", 16 * 1024 * 1024),)
    async with (
        sqlite.serve() as world,
        grpc.aio.insecure_channel(world.server.address, options=large) as channel,
        RawStream(channel, "w1") as worker,
    ):
        await worker.join()
        await world.client.start("r1")
        [run] = await worker.claim()
        error = b"x" * (8 * 1024 * 1024)
        fits = messages.NoteBlockedRequest(worker="w1", run=run.uid, error=error)
        await call(channel, "Workers/NoteBlocked", fits)
        for changes in ({"error": error + b"x"}, {"run": "a\0b", "error": b"x"}):
            request = messages.NoteBlockedRequest(**({"worker": "w1", "run": run.uid} | changes))
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(channel, "Workers/NoteBlocked", request)
            assert refused.value.code() is not grpc.StatusCode.UNAVAILABLE  # it is not sent again


@workflow
async def fails_here() -> None:
    raise LookupError("no such page")


async def test_a_bulk_action_in_a_namespace_that_was_disabled_ends_with_a_report(
    sqlite: Worlds,
) -> None:
    async with open_store(sqlite.url) as store:
        scopes = role_scopes("operator") | role_scopes("worker")
        key = (await Administration(store).create_key("default", "k", scopes, by="t")).key.reveal()
    async with sqlite.serve() as world, App(f"onward://{world.server.address}", key=key) as app:
        async with app.worker(workflows=[fails_here]):
            run = await app.start(fails_here)
            with pytest.raises(RunFailed):
                await run.result(timeout="60s")
        asked = await app.bulk.retry(name=fails_here.name)
        assert asked.run is not None
    async with open_store(sqlite.url) as store:
        await Administration(store).enable("default", enabled=False)
    async with sqlite.serve() as world, App(f"onward://{world.server.address}", key=key) as app:
        async with app.worker(workflows=[fails_here]):
            report = await (await app.get(asked.run.id)).result(timeout="60s")
        assert report.by_error == {"namespace_disabled": 1}
