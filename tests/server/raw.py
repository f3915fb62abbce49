"""A worker and a client that speak the protocol with bare messages, as any language could."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict
from typing import Any, Self

import grpc
import msgspec

from onward.core.digest import digest
from onward.core.ids import uid7
from onward.core.instant import SECOND
from onward.model.runs import NewRun
from onward.wire.messages import messages
from onward.wire.operations import to_json
from onward.wire.rpc import PROBLEM_METADATA

TIMEOUT = 20.0


def uid_of(run: str) -> str:
    """Return the uid of a run that a test starts under this id."""
    return uid7(1_000_000, int(digest("test run", run)[:16], 16))


class RawStream:
    """The stream of a worker: sends requests, and keeps responses by their id."""

    def __init__(self, channel: Any, worker: str, metadata: Any = (), **registration: Any) -> None:
        self.worker = worker
        self.registration = messages.Registration(
            worker=worker,
            host="test",
            pid=1,
            **{"queues": ["default"], "names": ["greet"], "slots": 10} | registration,
        )
        self._ids = itertools.count(1)
        self._call: Any = channel.stream_stream("/onward.v1.Workers/Work")(metadata=metadata)
        self._pending: dict[int, asyncio.Queue[Any]] = {}
        self.pushed: defaultdict[str, asyncio.Queue[Any]] = defaultdict(asyncio.Queue)
        """The responses with id 0, by their kind."""
        self.is_over = asyncio.Event()
        self._reader = asyncio.create_task(self._read())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        self._call.cancel()
        await asyncio.wait([self._reader])

    async def _read(self) -> None:
        try:
            async for data in self._call:
                response = messages.Response.FromString(data)
                kind = response.WhichOneof("response")
                queue = self._pending.get(response.id)
                (self.pushed[kind] if queue is None else queue).put_nowait(response)
        except (grpc.aio.AioRpcError, asyncio.CancelledError):
            pass
        finally:
            self.is_over.set()

    async def refusal(self) -> str:
        """Return the code of the problem with which the server has ended the stream."""
        for key, value in await self._call.trailing_metadata():
            if key == PROBLEM_METADATA:
                code: str = messages.Problem.FromString(value).code
                return code
        return f"status {await self._call.code()}"

    async def send_bytes(self, data: bytes) -> None:
        await self._call.write(data)

    async def send(self, **request: Any) -> int:
        """Send a request and return its id."""
        number = next(self._ids)
        self._pending[number] = asyncio.Queue()
        await self.send_bytes(messages.Request(id=number, **request).SerializeToString())
        return number

    async def response(self, number: int) -> Any:
        """Return the next response to a request."""
        async with asyncio.timeout(TIMEOUT):
            return await self._pending[number].get()

    def has_response(self, number: int) -> bool:
        """Return whether a response to a request has arrived that was not returned yet."""
        return not self._pending[number].empty()

    async def ask(self, **request: Any) -> Any:
        """Send a request and return the response."""
        return await self.response(await self.send(**request))

    async def push(self, kind: str) -> Any:
        """Return the next response of a kind that was sent without a request."""
        async with asyncio.timeout(TIMEOUT):
            return getattr(await self.pushed[kind].get(), kind)

    async def hears_of(self, run: str) -> None:
        """Wait for news of a run; a server that has just begun to listen names no run."""
        news = await self.push("news")
        assert news.everything or list(news.runs) == [run]

    async def join(self, **hello: Any) -> Any:
        """Join, and return the whole response."""
        given = {"protocol": 1, "registration": self.registration, "lease": 15 * SECOND} | hello
        return await self.ask(hello=messages.Hello(**given))

    async def claim(self, limit: int = 10, wait: int = 10 * SECOND) -> list[Any]:
        """Claim runs, and return them."""
        request = messages.ClaimRequest(limit=limit, wait=wait)
        return list((await self.ask(claim=request)).claim.runs)

    async def commit(self, *commits: Any) -> dict[int, str]:
        """Commit, and return the fate of each commit by its number."""
        await self.send(commits=messages.CommitsRequest(commits=commits))
        fates: dict[int, str] = {}
        while len(fates) < len(commits):
            reply = await self.push("commits")
            fates |= dict.fromkeys(reply.done, "done")
            fates |= {each.no: each.fate or each.problem.code for each in reply.others}
        return fates


class RawClient:
    """A client of the engine: operations, and runs that it waits for."""

    def __init__(self, channel: Any, namespace: str = "") -> None:
        self._channel = channel
        self.metadata: Any = (("onward-namespace", namespace),) if namespace else ()

    async def reply(self, operation: str, arguments: Any) -> Any:
        """Return the whole reply to a call."""
        data = arguments if isinstance(arguments, bytes) else to_json(arguments)
        request = messages.CallRequest(operation=operation, arguments=data)
        data = await call(self._channel, "Engine/Call", request, self.metadata)
        return messages.CallReply.FromString(data)

    async def call(self, operation: str, **arguments: Any) -> Any:
        """Return the result of an operation, as JSON."""
        reply = await self.reply(operation, arguments)
        assert not reply.HasField("problem"), reply.problem
        return msgspec.json.decode(reply.result)

    async def start(self, run_id: str, **run: Any) -> Any:
        """Start a run of the workflow `greet`; its uid is `uid_of(run_id)`."""
        row = NewRun(uid_of(run_id), run_id, "greet", b"json:[]", "h", **run)
        return await self.call("start", run=row, on_conflict="return")

    async def signal(self, run: str) -> None:
        """Send the signal `go` to a run."""
        await self.call("signal", run=run, name="go", payload={"tag": "json", "data": "bnVsbA=="})

    async def end_of(self, run: str) -> Any:
        """Wait for the end of a run."""
        channel: Any = self._channel
        stream = channel.stream_stream("/onward.v1.Engine/Watch")(metadata=self.metadata)
        watch = messages.WatchRequest(watch=[messages.Watched(run=run)])
        await stream.write(watch.SerializeToString())
        async with asyncio.timeout(TIMEOUT):
            while not (reply := messages.WatchReply.FromString(await stream.read())).ends:
                assert not reply.failures
        await stream.done_writing()
        return reply.ends[0]


def succeeded(no: int, run: Any, result: bytes = b"json:1") -> Any:
    """Return the commit that ends a run."""
    move = messages.Move(state="succeeded", result=result)
    return messages.Commit(no=no, run=run.uid, fence=run.fence, move=move)


def stepped(no: int, run: Any, identity: str = "a#1", seq: int = 1) -> Any:
    """Return the commit of a step."""
    record = messages.NewRecord(
        identity=identity,
        attempt=1,
        seq=seq,
        kind="step",
        name="a",
        state="succeeded",
        payload=b"json:1",
    )
    return messages.Commit(no=no, run=run.uid, fence=run.fence, records=[record])


async def call(channel: Any, method: str, request: Any, metadata: Any = ()) -> bytes:
    """Return the reply to a unary call."""
    data = request if isinstance(request, bytes) else request.SerializeToString()
    service = "" if method.startswith("grpc.") else "onward.v1."
    made = channel.unary_unary(f"/{service}{method}")
    reply: bytes = await made(data, metadata=metadata, timeout=TIMEOUT)
    return reply


async def renew(channel: Any, worker: str) -> Any:
    """Renew the lease of a worker, and return the reply."""
    request = messages.RenewRequest(worker=worker, length=15 * SECOND)
    return messages.RenewReply.FromString(await call(channel, "Workers/Renew", request))
