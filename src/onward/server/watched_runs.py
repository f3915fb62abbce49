"""The ends of runs, for everything that one client waits for: one stream, not one per run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from grpc.aio import EOF  # type: ignore[attr-defined]  # the stubs lack it

from onward.model.runs import RunEnd
from onward.server.faults import problem_of
from onward.server.gate import check_namespace
from onward.wire.messages import messages
from onward.wire.rows import codec

if TYPE_CHECKING:
    from onward.core.access import Principal
    from onward.server.hub import Hub
    from onward.server.outbox import Outbox

_END = codec(RunEnd, messages.RunEnd)


class WatchedRuns:
    """The runs whose ends one client waits for."""

    def __init__(self, hub: Hub, principal: Principal, outbox: Outbox, server: str) -> None:
        self.principal = principal
        self._hub = hub
        self._outbox = outbox
        self._server = server
        self._watched: dict[tuple[str, bool], asyncio.Task[None]] = {}
        self._reply = messages.WatchReply()
        self._is_scheduled = False
        self.heard_at = self.pinged_at = asyncio.get_running_loop().time()
        self._ended = asyncio.Event()

    async def serve(self, context: Any) -> None:
        """Answer until the client ends the stream, or the server."""
        reader = asyncio.create_task(self._read(context))
        writer = asyncio.create_task(self._outbox.send(context.write))
        end = asyncio.create_task(self._ended.wait())
        try:
            await asyncio.wait([reader, writer, end], return_when=asyncio.FIRST_COMPLETED)
            if end.done():
                self._outbox.put(messages.WatchReply(goodbye=True))
            self._outbox.end()
            await asyncio.wait([writer], timeout=1)
            if reader.done():
                reader.result()
        finally:
            tasks = [reader, writer, end, *self._watched.values()]
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def end(self, why: str) -> None:  # noqa: ARG002 - clients watch again, whatever the reason
        """End the stream; the client watches through another server."""
        self._ended.set()

    def ping(self) -> None:
        """Send a frame, so that proxies do not close the stream."""
        self._outbox.put(messages.WatchReply(ping=True))

    async def _read(self, context: Any) -> None:
        loop = asyncio.get_running_loop()
        while (data := await context.read()) is not EOF:
            self.heard_at = loop.time()
            request = messages.WatchRequest.FromString(data)
            check_namespace(request.namespace, self.principal)
            for each in request.watch:
                self._add(each.run, also_paused=each.also_paused)
            for run in request.unwatch:
                for key in ((run, False), (run, True)):
                    if key in self._watched:
                        self._watched.pop(key).cancel()

    def _add(self, run: str, *, also_paused: bool) -> None:
        key = (run, also_paused)
        if key not in self._watched:
            self._watched[key] = asyncio.create_task(self._wait(run, also_paused=also_paused))

    async def _wait(self, run: str, *, also_paused: bool) -> None:
        try:
            end = await self._hub.client.end_of(run, also_paused=also_paused)
        except Exception as error:  # noqa: BLE001 - the client gets it
            problem = problem_of(error, self._server, "Watch")
            self._reply.failures.add(run=run, also_paused=also_paused, problem=problem)
        else:
            self._reply.ends.append(_END.to_message(end))
        self._watched.pop((run, also_paused), None)
        if not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_scheduled = False
        reply, self._reply = self._reply, messages.WatchReply()
        self._outbox.put(reply)
