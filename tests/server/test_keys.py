"""A server whose database has keys."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import AsyncExitStack, closing
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from onward.core.instant import SECOND
from onward.engine.access.administration import Administration
from onward.errors import BadInput
from onward.server.doors import PROBLEM
from onward.server.process import OnwardServer
from onward.store import open_store
from onward.wire.messages import messages
from tests.server.raw import RawClient, RawStream, call, uid_of

if TYPE_CHECKING:
    from tests.server.conftest import World, Worlds


async def a_key(url: str, *scopes: str, namespace: str = "default") -> str:
    async with open_store(url) as store:
        administration = Administration(store)
        if namespace != "default":
            await administration.create_namespace(namespace)
        created = await administration.create_key(namespace, "test", scopes, by="test")
    return created.key.reveal()


def client_of(world: World, key: str, **metadata: str) -> RawClient:
    client = RawClient(world.channel)
    client.metadata = (("authorization", f"Bearer {key}"), *metadata.items())
    return client


def problem_in(error: grpc.aio.AioRpcError) -> str:
    metadata: Any = error.trailing_metadata()
    [data] = [value for key, value in metadata if key == PROBLEM]
    code: str = messages.Problem.FromString(data).code
    return code


async def test_a_call_without_a_key_is_refused_once_there_is_one(sqlite: Worlds) -> None:
    await a_key(sqlite.url, "run:read")
    async with sqlite.serve() as world:
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await world.client.call("now")
    assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert problem_in(refused.value) == "unauthenticated"


async def test_a_key_decides_on_operations_by_its_scopes(sqlite: Worlds) -> None:
    key = await a_key(sqlite.url, "run:read")
    async with sqlite.serve() as world:
        client = client_of(world, key)
        assert await client.call("now") > 0
        reply = await client.reply("drain_worker", {"worker": "w1"})
        assert reply.problem.code == "forbidden"


async def test_a_key_decides_on_the_namespace(sqlite: Worlds) -> None:
    key = await a_key(sqlite.url, "run:start", "run:read", "payload:read", namespace="shop")
    async with sqlite.serve() as world:
        await client_of(world, key).start("r1")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await client_of(world, key, **{"onward-namespace": "default"}).start("r2")
        assert problem_in(refused.value) == "bad_input"
    async with open_store(sqlite.url, namespace="shop") as store:
        assert (await store.run(uid_of("r1"))).name == "greet"


async def test_a_worker_serves_only_the_queues_of_its_key(sqlite: Worlds) -> None:
    key = await a_key(sqlite.url, "worker:poll:mail")
    async with sqlite.serve() as world:
        metadata = (("authorization", f"Bearer {key}"),)
        async with RawStream(world.channel, "w1", metadata=metadata) as worker:
            assert (await worker.join()).problem.code == "forbidden"
        async with RawStream(world.channel, "w1", metadata=metadata, queues=["mail"]) as worker:
            assert (await worker.join()).HasField("hello")


async def test_the_streams_of_a_revoked_key_end_within_5_seconds(sqlite: Worlds) -> None:
    key = await a_key(sqlite.url, "worker:poll:*")
    async with sqlite.serve() as world:
        metadata = (("authorization", f"Bearer {key}"),)
        async with RawStream(world.channel, "w1", metadata=metadata) as worker:
            await worker.join()
            async with open_store(sqlite.url) as store:
                await Administration(store).revoke(key)
            async with asyncio.timeout(6):
                assert (await worker.push("goodbye")).why == "the key is no longer valid"


async def test_streams_without_a_key_end_within_5_seconds_of_the_first_key(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        channel: Any = world.channel
        watch = channel.stream_stream("/onward.v1.Engine/Watch")()
        await watch.write(messages.WatchRequest(ping=True).SerializeToString())
        await a_key(sqlite.url, "run:read")
        async with asyncio.timeout(6):
            assert (await worker.push("goodbye")).why == "the server now requires a key"
            while isinstance(await watch.read(), bytes):
                pass  # at the end it returns a mark


async def test_a_server_that_others_can_reach_needs_a_key_and_a_certificate(
    sqlite: Worlds,
) -> None:
    with pytest.raises(BadInput, match="onward keys create"):
        async with OnwardServer(sqlite.url, grpc="0.0.0.0:0"):
            pass
    await a_key(sqlite.url, "run:read")
    with pytest.raises(BadInput, match="--tls-cert"):
        async with OnwardServer(sqlite.url, grpc="0.0.0.0:0"):
            pass
    async with OnwardServer(sqlite.url, grpc="0.0.0.0:0", is_behind_proxy=True):
        pass


async def test_one_of_many_processes_creates_the_first_key(either: Worlds) -> None:
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(open_store(either.url)) for _ in range(5)]
        created = await asyncio.gather(
            *(Administration(store).create_first_key(by="test") for store in stores)
        )
        [key] = [each.info.id for each in created if each is not None]
        assert [info.id for info in await Administration(stores[0]).keys()] == [key]
        await Administration(stores[0]).revoke(key)
        assert await Administration(stores[1]).create_first_key(by="test") is None


@pytest.mark.parametrize(
    ("method", "request_type"),
    [
        ("Renew", "RenewRequest"),
        ("ReleaseOthers", "ReleaseOthersRequest"),
        ("NoteBlocked", "NoteBlockedRequest"),
    ],
)
async def test_only_the_key_of_a_worker_may_touch_a_lease(
    method: str, request_type: str, sqlite: Worlds
) -> None:
    key = await a_key(sqlite.url, "run:read", "run:control")
    async with sqlite.serve() as world:
        request = getattr(messages, request_type)(worker="w1")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(
                world.channel,
                f"Workers/{method}",
                request,
                (("authorization", f"Bearer {key}"),),
            )
    assert problem_in(refused.value) == "forbidden"


async def test_a_key_cannot_touch_a_worker_that_joined_with_another_key(either: Worlds) -> None:
    owner, stranger = [await a_key(either.url, "worker:poll:*") for _ in range(2)]
    async with either.serve() as world:
        mine = (("authorization", f"Bearer {owner}"),)
        theirs = (("authorization", f"Bearer {stranger}"),)
        async with RawStream(world.channel, "w1", metadata=mine) as worker:
            await worker.join()
            before = await leases_of(either.url)
            for method, request in UNARY.items():
                reply = await call(world.channel, f"Workers/{method}", request, theirs)
                assert reply == b""
            assert await leases_of(either.url) == before
            for hello in (
                {},
                {"before": messages.LostWorker(worker="w1"), "registration": registered("w2")},
            ):
                async with RawStream(world.channel, "w1", metadata=theirs) as other:
                    assert (await other.join(**hello)).problem.code == "write_refused"
            async with RawStream(world.channel, "w1", metadata=theirs) as other:
                assert (await other.join(is_reconnect=True)).problem.code == "lease_lost"
            assert (await worker.ask(owned=messages.OwnedRequest())).HasField("owned")
            reply = await call(world.channel, "Workers/Renew", UNARY["Renew"], mine)
            assert messages.RenewReply.FromString(reply).is_kept


async def test_a_worker_renews_through_a_server_that_it_has_no_stream_with(
    postgres: Worlds,
) -> None:
    owner, stranger = [await a_key(postgres.url, "worker:poll:*") for _ in range(2)]
    async with postgres.serve() as one, postgres.serve() as two:
        mine = (("authorization", f"Bearer {owner}"),)
        theirs = (("authorization", f"Bearer {stranger}"),)
        async with RawStream(one.channel, "w1", metadata=mine) as worker:
            await worker.join()
            kept = [
                messages.RenewReply.FromString(
                    await call(two.channel, "Workers/Renew", UNARY["Renew"], metadata)
                ).is_kept
                for metadata in (mine, theirs)
            ]
    assert kept == [True, False]


@pytest.mark.parametrize("lease", [-1, 3601 * SECOND])
async def test_a_lease_that_would_outlive_a_revoked_key_by_far_is_refused(
    lease: int, sqlite: Worlds
) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        async with world.stream("w2") as other:
            assert (await other.join(lease=lease)).problem.code == "bad_input"
        for method in ("Renew", "ReleaseOthers"):
            request = getattr(messages, f"{method}Request")(worker=worker.worker, length=lease)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await call(world.channel, f"Workers/{method}", request)
            assert problem_in(refused.value) == "bad_input"


async def test_a_worker_that_takes_a_place_forgives_no_crash_of_runs_in_other_queues(
    sqlite: Worlds,
) -> None:
    async with sqlite.serve() as world, world.worker("w1", queues=["mail"]) as worker:
        await world.client.start("r1", queue="mail")
        [run] = await worker.claim()
        with closing(sqlite3.connect(sqlite.url)) as file, file:
            file.execute("UPDATE onward_run SET crashes = 1")
        async with world.worker("w2"):
            pass
        before = messages.LostWorker(worker="w2", held={run.uid: run.fence - 1})
        for queue, crashes in (("default", 1), ("mail", 0)):
            async with world.stream(f"w-{queue}", queues=[queue]) as other:
                assert (await other.join(before=before)).HasField("hello")
            async with open_store(sqlite.url) as store:
                assert (await store.run(uid_of("r1"))).crashes == crashes


UNARY = {
    "Renew": messages.RenewRequest(worker="w1", length=30 * SECOND),
    "ReleaseOthers": messages.ReleaseOthersRequest(worker="w1", length=30 * SECOND),
    "NoteBlocked": messages.NoteBlockedRequest(worker="w1", run=uid_of("r1"), error=b"json:1"),
}


def registered(worker: str) -> Any:
    return messages.Registration(worker=worker, queues=["default"])


async def leases_of(url: str) -> object:
    async with open_store(url) as store:
        return [(row.worker, row.renewed_at, row.left_at) for row in await store.workers()]
