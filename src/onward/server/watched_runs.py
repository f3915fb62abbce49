"""The ends of runs, for everything that one client waits for: one stream, not one per run."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from functools import partial
from typing import TYPE_CHECKING, Any

from grpc.aio import EOF  # type: ignore[attr-defined]  # the stubs lack it

from onward.core.ids import is_uid
from onward.engine.loading import read_each
from onward.errors import BadInput, PayloadTooLarge, StoreUnusable, Unavailable
from onward.errors.root import count_text
from onward.model.runs import RunEnd
from onward.server.faults import problem_of
from onward.server.gate import check_namespace
from onward.server.limits import ENVELOPE_BYTES, READ_BYTES
from onward.server.outbox import Outbox
from onward.wire.messages import messages
from onward.wire.rows import codec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.core.access import Principal
    from onward.model.runs import EndState
    from onward.server.hub import Hub
    from onward.server.limits import StreamLimits

_END = codec(RunEnd, messages.RunEnd)

_TURN = 500
"""How many runs are added, or read, before other work has its turn."""

_ASSUMED_BYTES = 64 * 1024
"""How large an outcome is assumed to be before the first was read."""

_Key = tuple[str, bool]
"""The uid of a run, and whether a pause ends the wait too."""

_Over = tuple[_Key, "asyncio.Future[EndState]"]


class WatchedRuns:
    """The runs whose ends one client waits for.

    The hub says which of them have ended. Their outcomes, which may be large, are read a few at a
    time, as fast as the client takes them.
    """

    def __init__(self, hub: Hub, principal: Principal, limits: StreamLimits, server: str) -> None:
        self.principal = principal
        self._hub = hub
        self._limits = limits
        self.outbox = Outbox(limits)
        self._server = server
        self._watched: dict[_Key, asyncio.Future[EndState]] = {}
        """Those whose end has not been sent yet."""
        self._over: OrderedDict[_Key, asyncio.Future[EndState]] = OrderedDict()
        """Those of them that have ended, or cannot be waited for."""
        self._is_over = asyncio.Event()
        self._end_bytes = _ASSUMED_BYTES
        """The average size of the outcomes that were read last."""
        self.heard_at = self.pinged_at = asyncio.get_running_loop().time()
        self._ended = asyncio.Event()

    async def serve(self, context: Any) -> None:
        """Answer until the client ends the stream, or the server."""
        reader = asyncio.create_task(self._read(context))
        answerer = asyncio.create_task(self._answer())
        writer = asyncio.create_task(self.outbox.send(context.write))
        end = asyncio.create_task(self._ended.wait())
        tasks: list[asyncio.Task[Any]] = [reader, answerer, writer, end]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if end.done():
                self.outbox.put(messages.WatchReply(goodbye=True))
            self.outbox.end()
            await asyncio.wait([writer], timeout=1)
            if reader.done():
                reader.result()
            if answerer.done():
                answerer.result()
        finally:
            for task in tasks:
                task.cancel()
            for waiting in self._watched.values():
                waiting.cancel()
            await asyncio.wait(tasks)

    def end(self, why: str) -> None:  # noqa: ARG002 - clients watch again, whatever the reason
        """End the stream; the client watches through another server."""
        self._ended.set()

    def ping(self) -> None:
        """Send a frame, so that proxies do not close the stream."""
        self.outbox.put(messages.WatchReply(ping=True))

    # --- requests --------------------------------------------------------------------------------

    async def _read(self, context: Any) -> None:
        loop = asyncio.get_running_loop()
        while (data := await context.read()) is not EOF:
            self.heard_at = loop.time()
            request = messages.WatchRequest.FromString(data)
            check_namespace(request.namespace, self.principal)
            for first in range(0, len(request.watch), _TURN):
                keys = [
                    (each.run, each.also_paused) for each in request.watch[first : first + _TURN]
                ]
                await self._add(keys)
            for run in request.unwatch:
                for key in ((run, False), (run, True)):
                    if key in self._watched:
                        self._watched.pop(key).cancel()
                        self._over.pop(key, None)

    async def _add(self, keys: Iterable[_Key]) -> None:
        """Watch runs; those that are too many fail, and what cannot be the uid of a run."""
        reply = messages.WatchReply()
        for key in keys:
            if key in self._watched:
                continue
            if not is_uid(key[0]):
                wrong = BadInput(f"run {key[0][:100]!r}", "is not a uid", "Pass the uid of a run")
                self._add_failure(reply, key, wrong)
            elif len(self._watched) < self._limits.watched:
                self._expect(key)
            else:
                watched = count_text(self._limits.watched, "run")
                fact = f"is one too many: this client is already waiting for {watched}"
                self._add_failure(
                    reply, key, BadInput(f"run {key[0]}", fact, "Wait for fewer runs at once")
                )
        if reply.failures:
            await self.outbox.has_room()
            self.outbox.put(reply)
        await asyncio.sleep(0)

    def _expect(self, key: _Key) -> None:
        run, also_paused = key
        waiting = self._watched[key] = self._hub.ends.expect(run, also_paused=also_paused)
        waiting.add_done_callback(partial(self._note, key))

    def _note(self, key: _Key, done: asyncio.Future[EndState]) -> None:
        if not done.cancelled() and self._watched.get(key) is done:
            self._over[key] = done
            self._is_over.set()

    # --- answers ---------------------------------------------------------------------------------

    async def _answer(self) -> None:
        """Send the outcomes of runs that have ended, a few at a time."""
        while True:
            await self._is_over.wait()
            self._is_over.clear()
            while self._over:
                await self.outbox.has_room()
                count = min(len(self._over), _TURN, max(1, READ_BYTES // self._end_bytes))
                await self._answer_some([self._over.popitem(last=False) for _ in range(count)])

    async def _answer_some(self, over: list[_Over]) -> None:
        failed: dict[_Key, BaseException]
        failed = {key: error for key, done in over if (error := done.exception())}
        found: dict[str, RunEnd] = {}
        try:
            wanted = dict.fromkeys(uid for (uid, _), done in over if done.exception() is None)
            found, unread = await read_each(self._read_ends, list(wanted))
            failed |= {key: unread[key[0]] for key, _ in over if key[0] in unread}
        except (Unavailable, StoreUnusable):
            pass  # they are expected again
        except Exception as error:  # noqa: BLE001 - the client gets it
            failed |= {key: error for key, _ in over if key not in failed}
        for key, done in over:
            is_watched = self._watched.get(key) is done
            if is_watched and key[0] not in found and key not in failed:
                self._expect(key)  # it was resumed or deleted meanwhile, or could not be read
        await self._send(over, found, failed)

    async def _read_ends(self, uids: list[str]) -> dict[str, RunEnd]:
        return {end.uid: end for end in await self._hub.store.ends(uids)}

    async def _send(
        self, over: list[_Over], found: dict[str, RunEnd], failed: dict[_Key, BaseException]
    ) -> None:
        """Send outcomes and failures, in frames that are not too large."""
        limit = self._limits.reply_bytes - ENVELOPE_BYTES
        reply, size, sizes = messages.WatchReply(), 0, 0
        for key, done in over:
            end = _END.to_message(found[key[0]]) if key[0] in found else None
            own = 0 if end is None else end.ByteSize()
            sizes += own
            if own <= limit and size and size + own > self._limits.frame_bytes:
                await self.outbox.has_room()
                self.outbox.put(reply)
                reply, size = messages.WatchReply(), 0
            if self._watched.get(key) is not done:
                continue  # it is not waited for any more, or once more
            if key in failed:
                self._add_failure(reply, key, failed[key])
            elif own > limit:
                self._add_failure(
                    reply, key, PayloadTooLarge(f"the outcome of run {key[0]}", own, limit)
                )
            elif end is not None:
                reply.ends.append(end)
                size += own
            else:
                continue
            del self._watched[key]
        if sizes:
            self._end_bytes = sizes // len(found)
        if reply.ends or reply.failures:
            self.outbox.put(reply)

    def _add_failure(self, reply: Any, key: _Key, error: BaseException) -> None:
        run, also_paused = key
        problem = problem_of(error, self._server, "Watch")
        reply.failures.add(run=run, also_paused=also_paused, problem=problem)
