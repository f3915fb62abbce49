"""Waiting for runs to end through a server: one stream for all waiting callers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.run import TERMINAL
from onward.errors import NotOpen, OnwardError, StoreUnusable, Unavailable
from onward.errors.stores import CLOSED_MEANWHILE
from onward.model.runs import RunEnd
from onward.wire.messages import messages
from onward.wire.network import RECONNECTING, STEADY_SECONDS
from onward.wire.problems import to_error
from onward.wire.rows import codec
from onward.wire.rpc import WATCH
from onward.wire.stream import BEAT, Stream

if TYPE_CHECKING:
    from onward.wire.network import Network
    from onward.wire.stream import Beat

_RUN_END = codec(RunEnd, messages.RunEnd)
_MAX_WATCHED = 5000
"""How many runs one frame names."""

_Key = tuple[str, bool]
"""The uid of a run, and whether a pause ends the wait too."""


class Watches:
    """Reports to callers how the runs they wait for ended; server restarts do not end a wait."""

    def __init__(self, network: Network, namespace: str, beat: Beat = BEAT) -> None:
        self._network = network
        self._namespace = namespace
        self._beat = beat
        self._waiting: dict[_Key, dict[asyncio.Future[RunEnd], None]] = {}
        self._new: list[_Key] = []
        self._stream: Stream | None = None
        self._task: asyncio.Task[None] | None = None

    async def end_of(self, uid: str, *, also_paused: bool = False) -> RunEnd:
        """Wait until a run has ended (or is paused, if asked), and return how."""
        self._network.check_open()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[RunEnd] = loop.create_future()
        key = (uid, also_paused)
        waiting = self._waiting.setdefault(key, {})
        waiting[answer] = None
        if self._task is None:
            self._task = self._network.spawn(self._keep(), "onward watch")
        elif len(waiting) == 1:
            if not self._new:
                loop.call_soon(self._send_new)
            self._new.append(key)
        try:
            return await answer
        finally:
            self._forget(key, answer)

    def close(self) -> None:
        """Stop watching; callers that still wait get `NotOpen`."""
        if self._task is not None:
            self._task.cancel()
        self._fail_all(NotOpen(self._network.where, CLOSED_MEANWHILE))

    def _forget(self, key: _Key, answer: asyncio.Future[RunEnd]) -> None:
        waiting = self._waiting.get(key, {})
        waiting.pop(answer, None)
        if waiting:
            return
        self._waiting.pop(key, None)
        uid, also_paused = key
        is_over = answer.done() and not answer.cancelled()
        if self._stream is None or is_over:
            return
        self._stream.send(messages.WatchRequest(unwatch=[uid]))
        if (uid, not also_paused) in self._waiting:
            self._watch([(uid, not also_paused)])

    async def _keep(self) -> None:
        tries = 0
        try:
            while True:
                tries = 0 if await self._watch_once() else tries + 1
                if tries:
                    delay = RECONNECTING.delay_after(tries, self._network.randomness.random())
                    await asyncio.sleep(delay / 1_000_000)
        except OnwardError as error:  # waiting would not help
            self._fail_all(error)
        finally:
            self._task = None

    def _fail_all(self, error: OnwardError) -> None:
        for answers in self._waiting.values():
            for answer in answers:
                if not answer.done():
                    answer.set_exception(error)

    async def _watch_once(self) -> bool:
        """Watch until the stream is over, and return whether it was steady."""
        loop = asyncio.get_running_loop()
        ping = messages.WatchRequest(ping=True)
        stream = Stream(self._network, WATCH, self._on_frame, ping, self._beat)
        begun = loop.time()
        try:
            await stream.open()
        except Unavailable:
            return False
        self._stream = stream
        stream.send(messages.WatchRequest(namespace=self._namespace))
        self._new.clear()
        self._watch(list(self._waiting))
        assert stream.closed is not None
        try:
            await asyncio.wait([stream.closed])
        finally:
            self._stream = None
            stream.close()
        if stream.failure is not None and not isinstance(
            stream.failure, (Unavailable, StoreUnusable)
        ):
            raise stream.failure
        return loop.time() - begun > STEADY_SECONDS

    def _send_new(self) -> None:
        new, self._new = self._new, []
        self._watch([key for key in new if key in self._waiting])

    def _watch(self, keys: list[_Key]) -> None:
        if self._stream is None:
            return  # it asks for all of them when it is open
        for first in range(0, len(keys), _MAX_WATCHED):
            part = keys[first : first + _MAX_WATCHED]
            watched = [messages.Watched(run=uid, also_paused=also) for uid, also in part]
            self._stream.send(messages.WatchRequest(watch=watched))

    def _on_frame(self, frame: Any) -> None:
        for message in frame.ends:
            end = _RUN_END.to_row(message)
            self._settle((end.uid, True), end)
            if end.state in TERMINAL:
                self._settle((end.uid, False), end)
        for each in frame.failures:
            self._settle((each.run, each.also_paused), to_error(each.problem))
        if frame.goodbye and self._stream is not None:
            self._stream.close()

    def _settle(self, key: _Key, answer: RunEnd | Exception) -> None:
        for waiting in self._waiting.pop(key, ()):
            if waiting.done():
                continue
            if isinstance(answer, Exception):
                waiting.set_exception(answer)
            else:
                waiting.set_result(answer)
