"""Every method, operation and request, with every kind of credential: answered as declared."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import pytest
from google.protobuf import descriptor_pb2

from onward.core.access import make_key
from onward.engine.access.administration import Administration
from onward.server.doors import PROBLEM
from onward.store import open_store
from onward.wire.messages import DESCRIPTORS, messages
from onward.wire.operations import BATCHES
from onward.wire.operations import OPERATIONS as SERVED
from tests.server.declared_access import (
    ITS_QUEUES,
    KEYS,
    METHODS,
    NO_KEY,
    OPERATION,
    OPERATIONS,
    REFUSED_WHEN_DISABLED,
    REQUESTS,
    WORKER,
)
from tests.server.raw import RawStream, call, uid_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from tests.server.conftest import World, Worlds

SCOPE_OF = {name: scope for scope, names in OPERATIONS.items() for name in names.split()}
NAMED = messages.CallRequest(operation="now", namespace="default", arguments=b"{}")


class Credential(NamedTuple):
    """What a call sends, and what its holder may do."""

    kind: str
    metadata: tuple[tuple[str, str], ...] = ()
    scopes: frozenset[str] = frozenset()
    refused: str = ""
    """The problem of every call that needs a key."""
    is_enabled: bool = True


def bearer(text: str) -> tuple[str, str]:
    return ("authorization", f"Bearer {text}")


async def created(url: str) -> list[Credential]:
    """Return one credential of every kind; those of the tables are keys for `default`."""
    everything = frozenset(KEYS["role admin"])
    async with open_store(url) as store:
        administration = Administration(store)

        async def text(scopes: frozenset[str], namespace: str = "default") -> str:
            made = await administration.create_key(namespace, "k", scopes, by="test")
            return made.key.reveal()

        for namespace in ("shop", "closed"):
            await administration.create_namespace(namespace)
        keys = [Credential(kind, (bearer(await text(has)),), has) for kind, has in KEYS.items()]
        revoked, foreign, closed = (
            await text(everything),
            await text(everything, "shop"),
            await text(everything, "closed"),
        )
        await administration.revoke(revoked)
        await administration.enable("closed", enabled=False)
    swapped = make_key(1, 1).reveal()
    wrong = "_".join((*foreign.split("_")[:2], *swapped.split("_")[2:]))
    unknown = "unauthenticated"
    return [
        *keys,
        Credential("no key", refused=unknown),
        Credential("an empty key", (bearer(""),), refused=unknown),
        Credential("a malformed key", (bearer("onw_nonsense"),), refused=unknown),
        Credential("another scheme", (("authorization", f"Basic {foreign}"),), refused=unknown),
        Credential("a wrong checksum", (bearer(wrong),), refused=unknown),
        Credential("an unknown key", (bearer(swapped),), refused=unknown),
        Credential("a revoked key", (bearer(revoked),), refused=unknown),
        Credential(
            "a key of another namespace",
            (bearer(foreign), ("onward-namespace", "default")),
            refused="bad_input",
        ),
        Credential("a disabled namespace", (bearer(closed),), everything, is_enabled=False),
    ]


def expected(credential: Credential, needs: str) -> str:
    """Return the problem that a call has as declared; empty if it is answered."""
    if needs == NO_KEY:
        return ""
    if credential.refused:
        return credential.refused
    if needs == WORKER:
        allowed = any(scope.startswith("worker:poll:") for scope in credential.scopes)
    elif needs == ITS_QUEUES:
        allowed = not credential.scopes.isdisjoint(("worker:poll:*", "worker:poll:default"))
    else:
        allowed = needs in credential.scopes
    if not allowed:
        return "forbidden"
    is_start = needs in REFUSED_WHEN_DISABLED
    return "namespace_disabled" if is_start and not credential.is_enabled else ""


def problem_of(error: grpc.aio.AioRpcError) -> str:
    metadata: Any = error.trailing_metadata() or ()
    for key, value in metadata:
        if key == PROBLEM:
            code: str = messages.Problem.FromString(value).code
            return code
    return f"status {error.code()}"


async def unary(world: World, method: str, metadata: Any) -> str:
    """Call a method without a body; return its problem."""
    try:
        await call(world.channel, method.removeprefix("onward.v1."), b"", metadata)
    except grpc.aio.AioRpcError as error:
        return problem_of(error)
    return ""


async def watched(world: World, method: str, metadata: Any) -> str:
    """Open a stream and ask for nothing; return its problem."""
    channel: Any = world.channel
    if method.startswith("grpc."):
        stream = channel.unary_stream(f"/{method}")(b"", metadata=metadata)
    else:
        stream = channel.stream_stream(f"/{method}")(metadata=metadata)
        await stream.done_writing()
    try:
        await stream.read()
    except grpc.aio.AioRpcError as error:
        return problem_of(error)
    finally:
        stream.cancel()
    return ""


async def joined(world: World, credential: Credential) -> str:
    """Join as a worker of the queue `default`; return the problem."""
    worker = f"w {credential.kind}".replace(" ", "-").replace("*", "all")
    async with RawStream(world.channel, worker, metadata=credential.metadata) as stream:
        try:
            number = await stream.send(hello=hello_of(stream))
        except grpc.aio.AioRpcError:  # it was refused before the hello was sent
            return await stream.refusal()
        answer = asyncio.ensure_future(stream.response(number))
        over = asyncio.ensure_future(stream.is_over.wait())
        await asyncio.wait((answer, over), return_when=asyncio.FIRST_COMPLETED)
        over.cancel()
        if not answer.done():
            answer.cancel()
            return await stream.refusal()
        return str(answer.result().problem.code)


def hello_of(stream: RawStream) -> Any:
    return messages.Hello(protocol=1, registration=stream.registration)


async def tried(world: World, credential: Credential, method: str) -> str:
    """Call a method with a credential; return its problem."""
    if method.endswith("/Work"):
        return await joined(world, credential)
    if method.endswith("/Watch"):
        return await watched(world, method, credential.metadata)
    return await unary(world, method, credential.metadata)


async def operated(world: World, credential: Credential, operation: str) -> str:
    """Call an operation with arguments that none has: it does nothing if it is allowed."""
    request = messages.CallRequest(operation=operation, arguments=b'{"no such argument": 1}')
    try:
        data = await call(world.channel, "Engine/Call", request, credential.metadata)
    except grpc.aio.AioRpcError as error:
        return problem_of(error)
    problem = messages.CallReply.FromString(data).problem
    is_read = problem.code == "bad_input" and "no such argument" in problem.message
    return "" if is_read else str(problem.code)


def described_methods() -> Iterator[str]:
    files = descriptor_pb2.FileDescriptorSet.FromString(DESCRIPTORS.read_bytes()).file
    for file in files:
        for service in file.service:
            for method in service.method:
                yield f"{file.package}.{service.name}/{method.name}"


def test_every_method_operation_and_request_is_declared() -> None:
    health = {name for name in METHODS if name.startswith("grpc.health.")}
    assert {*described_methods()} == METHODS.keys() - health
    assert {*SERVED, *BATCHES} == SCOPE_OF.keys()
    requests = {field.name for field in messages.Request.DESCRIPTOR.oneofs[0].fields}
    declared = [name for names in REQUESTS.values() for name in names.split()]
    assert sorted(requests) == sorted(declared)


async def test_a_server_serves_the_declared_methods_alone(sqlite: Worlds) -> None:
    async with sqlite.serve() as world:
        served = {
            f"{handler.service_name()}/{method.rpartition('/')[2]}"
            for service in world.server.services
            for handler in [service.handler()]
            for method in vars(handler)["_method_handlers"]
        }
        assert served == METHODS.keys()
        assert await unary(world, "Workers/Fly", ()) == "status StatusCode.UNIMPLEMENTED"


async def test_every_credential_is_answered_or_refused_as_declared(sqlite: Worlds) -> None:
    """Over 2,500 calls: all methods and all operations, with each of some 30 credentials."""
    credentials = await created(sqlite.url)
    wrong: list[str] = []
    async with sqlite.serve() as world:
        for credential in credentials:
            for method, needs in METHODS.items():
                if needs == OPERATION:
                    continue
                found, due = await tried(world, credential, method), expected(credential, needs)
                if found != due:
                    wrong.append(f"{method}, {credential.kind}: {found!r} and not {due!r}")
            names = list(SCOPE_OF)
            answers = await asyncio.gather(*(operated(world, credential, name) for name in names))
            for name, found in zip(names, answers, strict=True):
                due = expected(credential, SCOPE_OF[name])
                if found != due:
                    wrong.append(f"{name}, {credential.kind}: {found!r} and not {due!r}")
    assert wrong == []
    assert len(credentials) * len(SCOPE_OF) > 2_500


async def test_the_namespace_in_a_request_must_be_that_of_the_key(sqlite: Worlds) -> None:
    credentials = {each.kind: each for each in await created(sqlite.url)}
    foreign = credentials["a key of another namespace"].metadata[:1]
    async with sqlite.serve() as world:
        data = await call(world.channel, "Engine/Call", NAMED, credentials["role admin"].metadata)
        assert messages.CallReply.FromString(data).result
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(world.channel, "Engine/Call", NAMED, foreign)
        assert problem_of(refused.value) == "bad_input"


@asynccontextmanager
async def two_workers(world: World) -> AsyncIterator[tuple[RawStream, Any]]:
    """Enter with a worker that has no run, and a run that another one has."""
    async with world.worker("victim") as victim, world.worker("other") as other:
        await world.client.start("r1")
        [run] = await victim.claim()
        yield other, run


def request_about(name: str, run: Any) -> Any:
    """Return a request about a run, as its fields say."""
    field = messages.Request.DESCRIPTOR.fields_by_name[name]
    request = getattr(messages, field.message_type.name)()
    for each in field.message_type.fields:
        if each.message_type is not None and not each.is_repeated:
            getattr(request, each.name).SetInParent()
    if name == "declare":
        request.flow.kind = "workflow"
    if name == "commits":
        request.commits.add(no=1, run=run.uid, fence=run.fence, move={"state": "succeeded"})
    elif "by" in field.message_type.fields_by_name:
        request.by.run, request.by.fence = run.uid, run.fence
    else:
        request.run = run.uid
        if "fence" in field.message_type.fields_by_name:
            request.fence = run.fence
    return request


async def test_no_request_does_anything_for_the_run_of_another_worker(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, two_workers(world) as (other, run):
        async with open_store(sqlite.url) as store:
            before = await store.run(uid_of("r1"))
        answers = {}
        for name in REQUESTS["a run that it has"].split():
            request = request_about(name, run)
            if name == "commits":
                await other.send(commits=request)
                [outcome] = (await other.push("commits")).others
                answers[name] = outcome.fate
                continue
            answer = await other.ask(**{name: request})
            answers[name] = answer.problem.code
        async with open_store(sqlite.url) as store:
            assert await store.run(uid_of("r1")) == before
    silent = {"keep_progress": "", "commits": "lost"}
    assert answers == dict.fromkeys(answers, "lease_lost") | silent


async def test_no_request_is_answered_before_the_hello(sqlite: Worlds) -> None:
    async with sqlite.serve() as world:
        for name in " ".join(REQUESTS.values()).split():
            if name == "hello":
                continue
            field = messages.Request.DESCRIPTOR.fields_by_name[name]
            async with world.stream() as stream:
                request = getattr(messages, field.message_type.name)()
                assert (await stream.ask(**{name: request})).problem.code == "bad_input", name
