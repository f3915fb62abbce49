"""One stream of a worker: requests and their responses, news, and its end."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from onward.core.instant import SECOND
from onward.errors import PayloadTooLarge, Unavailable
from onward.wire.commit_queue import Wire
from onward.wire.messages import messages
from onward.wire.problems import to_error
from onward.wire.rpc import WORK
from onward.wire.stream import BEAT, Stream

if TYPE_CHECKING:
    from onward.core.instant import Instant
    from onward.core.ports import Clock
    from onward.wire.network import Network
    from onward.wire.stream import Beat

HELLO_SECONDS = 10.0
REQUEST_SECONDS = 30.0
"""How long a request may be unanswered; a claim may be for longer."""
_LOOK_SECONDS = 5.0
_READS = frozenset(
    {"load", "messages", "peek", "peek_ids", "end_of", "effect", "cached_result", "handler"}
)
"""Requests whose responses have payloads of runs, so they may be too large."""


class StreamOwner(Protocol):
    """The worker that a stream belongs to."""

    def on_time(self, at: Instant, asked: int) -> None:
        """Take the database's time of a response, and when its request was sent."""
        ...

    def on_commits(self, reply: Any, at: Instant) -> None:
        """Take the outcomes of commits."""
        ...

    def on_refused_commits(self, frame: int, error: Exception) -> None:
        """Handle the server's refusal of a frame of commits."""
        ...

    def on_news(self, news: Any) -> None:
        """Handle news of changes."""
        ...

    def on_goodbye(self, session: WorkSession) -> None:
        """Handle the end of the server: it answers the requests it has, and no more."""
        ...


class _Pending(NamedTuple):
    name: str
    parts: list[Any]
    done: asyncio.Future[list[Any]]
    begun: int


class WorkSession:
    """A stream of a worker that said hello, until it breaks."""

    def __init__(
        self, network: Network, clock: Clock, listener: StreamOwner, beat: Beat = BEAT
    ) -> None:
        ping = messages.Request(ping=messages.Ping())
        self._where = network.where
        self._stream = Stream(network, WORK, self._on_frame, ping, beat, self._on_unsent)
        self._clock = clock
        self._listener = listener
        self._ids = 0
        self._timer: asyncio.TimerHandle | None = None
        self._context = copy_context()  # not that of a run
        self._pending: dict[int, _Pending] = {}
        self._part_at = 0
        """When the last part arrived of a response that continues."""
        loop = asyncio.get_running_loop()
        self.wire = Wire(self._send_commits, loop.create_future())
        """What the commits of the worker go through."""

    @property
    def closed(self) -> asyncio.Future[Exception]:
        """Done with the reason once the stream is over."""
        return self.wire.closed

    async def open(self, hello: Any) -> Any:
        """Open the stream, say hello, and return the welcome.

        Raises:
            Unavailable: no server can be reached, or it does not answer.
            LeaseLost: the worker has lost its lease.
        """
        await self._stream.open()
        assert self._stream.closed is not None
        self._stream.closed.add_done_callback(self._over)
        self._look()
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                [welcome] = await self.ask("hello", hello)
        except TimeoutError:
            self.close()
            raise Unavailable(self._where, "did not answer the worker's hello") from None
        except BaseException:
            self.close()
            raise
        return welcome

    def ask(self, name: str, request: Any) -> asyncio.Future[list[Any]]:
        """Send a request, and return the future of its response, as a list of one.

        The lists of a response that arrives in parts are joined.
        """
        done: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        self._ids += 1
        if self._stream.failure is not None:
            done.set_exception(self._stream.failure)
            return done
        self._pending[self._ids] = _Pending(name, [], done, self._clock.monotonic())
        self._stream.send(messages.Request(id=self._ids, **{name: request}))
        return done

    def end(self) -> None:
        """Send nothing more."""
        self._stream.end()

    def close(self) -> None:
        """Drop the stream at once."""
        self._stream.close()

    def _send_commits(self, request: Any) -> int:
        self._ids += 1
        request.id = self._ids
        self._stream.send(request)
        return self._ids

    def _look(self) -> None:
        """Fail requests that are not answered in time.

        A timer for each would keep the context of its run in memory until it is due.
        """
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_LOOK_SECONDS, self._look, context=self._context)
        before = self._clock.monotonic() - REQUEST_SECONDS * SECOND
        if self._part_at >= before:
            return  # the others wait behind a large response
        late = [no for no, each in self._pending.items() if each.begun < before]
        for pending in [self._pending.pop(no) for no in late if self._pending[no].name != "claim"]:
            if not pending.done.done():
                fact = f"has not answered the {pending.name!r} request"
                pending.done.set_exception(Unavailable(self._where, fact))

    def _over(self, _: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
        failure = self._stream.failure or Unavailable(self._where, "was disconnected")
        passing = _as_outage(failure)
        if not self.closed.done():
            self.closed.set_result(passing)
        pending, self._pending = self._pending, {}
        for each in pending.values():
            if not each.done.done():
                each.done.set_exception(failure if each.name in _READS else passing)

    def _on_unsent(self, request: Any, error: PayloadTooLarge) -> None:
        """Fail a request that no server takes; the stream stays open."""
        if request.id in self._pending:
            self._refused(
                request.id,
                PayloadTooLarge(
                    f"a {request.WhichOneof('request')!r} request",
                    error.size_bytes,
                    error.max_bytes,
                ),
            )
        else:
            self._listener.on_refused_commits(
                request.id,
                PayloadTooLarge("a commit with results", error.size_bytes, error.max_bytes),
            )

    def _refused(self, no: int, error: Exception) -> None:
        done = self._pending.pop(no).done
        if not done.done():
            done.set_exception(error)

    # --- what arrives ----------------------------------------------------------------------------

    def _on_frame(self, frame: Any) -> None:
        kind = frame.WhichOneof("response")
        if kind == "commits":
            self._listener.on_commits(frame.commits, frame.at)
        elif kind == "news":
            self._listener.on_news(frame.news)
        elif kind == "goodbye":
            self._listener.on_goodbye(self)
        elif kind is not None and kind != "ping":
            self._on_reply(kind, frame)

    def _on_reply(self, kind: str, frame: Any) -> None:
        pending = self._pending.get(frame.id)
        if kind == "problem":
            error = to_error(frame.problem)
            if pending is None:
                self._listener.on_refused_commits(frame.id, error)
                return
            self._refused(frame.id, error)
            return
        if pending is None:
            return  # its caller was cancelled
        if kind != pending.name:
            raise Unavailable(
                self._where, f"answered the {pending.name!r} request with a {kind!r} response"
            )
        if pending.parts:
            pending.parts[0].MergeFrom(getattr(frame, kind))
        else:
            pending.parts.append(getattr(frame, kind))
        if frame.more:
            self._part_at = self._clock.monotonic()
            return
        del self._pending[frame.id]
        if frame.at:
            self._listener.on_time(frame.at, pending.begun)
        if not pending.done.done():
            pending.done.set_result(pending.parts)


def _as_outage(failure: Exception) -> Exception:
    """Return why a stream ended, for what is sent again after a response was too large.

    Only the unanswered requests that return payloads fail with `PayloadTooLarge`: one of them would
    get the same response again.
    """
    if isinstance(failure, PayloadTooLarge):
        return Unavailable(failure.what, f"was too large ({failure.size_bytes:,} bytes)")
    return failure
