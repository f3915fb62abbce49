"""The commits of a remote worker: sent in frames, answered in any order, resent in order.

Commits that arrive while two frames are in flight become the next one, so there are no timers, and
a thousand runs share a few frames. While many commits are unanswered, the second frame is sent only
when it is full: many small frames would become many small transactions. A frame counts as in flight
until its first answer: a commit that waits for a lock does not delay others. When a stream breaks,
everything that was not answered is sent again on the next one, before anything newer. This is safe,
because every statement recognises its own result.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.core.lease import Fate
from onward.errors import PayloadTooLarge, Unavailable
from onward.model.commits import CommitOutcome
from onward.store.writing.lane import call_each
from onward.wire.messages import messages
from onward.wire.rpc import MAX_COMMIT_BYTES
from onward.wire.work import add_commit, outcome_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping

    from onward.core.instant import Instant
    from onward.core.ports import Clock
    from onward.engine.worker_engine import WorkerHooks
    from onward.model.commits import Answered, Commit

MAX_FRAMES = 2
"""How many frames may be in flight."""
FEW_COMMITS = 100
"""While fewer are unanswered, the second frame need not be full."""
MAX_COMMITS = 500
MAX_BYTES = 1024 * 1024
"""How many commits, and about how many bytes of payload, go into a frame."""

PATIENCE_SECONDS = 2.0
"""How long to wait for an answer before the worker is asked whether to keep waiting."""


class _Frame:
    __slots__ = ("begun", "id", "is_answered", "size")

    def __init__(self, begun: int) -> None:
        self.begun = begun
        self.id = 0
        self.size = 0
        self.is_answered = False


class _Sent(NamedTuple):
    commit: Commit
    then: Answered
    frame: _Frame


class WireLimits(NamedTuple):
    """What a server takes: how many unanswered commits, and about how many bytes in a frame."""

    commits: int = 4096
    frame_bytes: int = MAX_BYTES


class Wire:
    """A stream that takes commits."""

    def __init__(self, send: Callable[[Any], int], closed: asyncio.Future[Exception]) -> None:
        self.send = send
        """Sends a request with commits and returns its id."""
        self.closed = closed
        """Has the reason once the stream is over."""
        self.limits = WireLimits()


class CommitQueue:
    """The commits of one worker.

    Args:
        worker: Its id.
        clock: A steady clock.
        hooks: Repeats while no server can be reached, and hears of the time.
        connected: Returns the stream that is open, or waits for one for a while.
        spawn: Starts a task.
    """

    def __init__(
        self,
        worker: str,
        clock: Clock,
        hooks: WorkerHooks,
        connected: Callable[[], Awaitable[Wire]],
        spawn: Callable[[Coroutine[Any, Any, None], str], asyncio.Task[None]],
    ) -> None:
        self._worker = worker
        self._clock = clock
        self._hooks = hooks
        self._connected = connected
        self._spawn = spawn
        self._context = copy_context()  # not that of the first run
        self._numbers = 0
        self._waiting: deque[tuple[Commit, Answered]] = deque()
        self._sent: dict[int, _Sent] = {}
        """By number, in the order in which they were sent."""
        self._frames = 0
        self._wire: Wire | None = None
        self._task: asyncio.Task[None] | None = None
        self._is_scheduled = False
        self._answers = 0
        self._emptied = asyncio.Event()

    def put(self, commit: Commit, then: Answered) -> None:
        """Send a commit, together with others; call `then` with its outcome, or its error."""
        self._waiting.append((commit, then))
        if self._task is None:
            self._task = self._spawn(self._run(), f"onward commits {self._worker}")
        elif self._wire is not None and self._may_send and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush, context=self._context)

    async def flush(self) -> None:
        """Wait until everything that was submitted has its answer."""
        while self._waiting or self._sent:
            self._emptied.clear()
            await self._emptied.wait()

    def close(self) -> None:
        """Send nothing more; what has no answer yet fails."""
        if self._task is not None:
            self._task.cancel()

    def refused(self, frame: int, error: Exception) -> None:
        """Fail the commits of a frame that the server did not take."""
        self._settle({no: error for no, sent in self._sent.items() if sent.frame.id == frame}, 0)

    def answered(self, reply: Any, at: Instant) -> None:
        """Take the answers to some commits."""
        done = CommitOutcome(Fate.DONE, at)
        answers: dict[int, CommitOutcome | Exception] = dict.fromkeys(reply.done, done)
        answers |= {each.no: outcome_of(each) for each in reply.others}
        # A run hears of its commits in the order in which it made them.
        self._settle(dict(sorted(answers.items())), at)

    def _settle(self, answers: Mapping[int, CommitOutcome | Exception], at: Instant) -> None:
        calls: deque[tuple[Answered, CommitOutcome | BaseException]] = deque()
        away: Unavailable | None = None
        for no, answer in answers.items():
            sent = self._sent.get(no)
            if sent is None:
                continue  # it was answered before
            if isinstance(answer, Unavailable):
                away = answer
                continue
            del self._sent[no]
            calls.append((sent.then, answer))
            frame = sent.frame
            if not frame.is_answered:
                frame.is_answered = True
                self._frames -= 1
                self._measure(frame, at)
        self._answers += 1
        if self._waiting:
            self._flush()  # first the next frame goes out
        self._call(calls)
        if away is not None:
            raise away  # it ends the stream, and all that are left are sent again in their order

    def _call(self, calls: deque[tuple[Answered, CommitOutcome | BaseException]]) -> None:
        loop = asyncio.get_running_loop()
        loop.call_soon(call_each, calls, context=self._context)
        if not self._waiting and not self._sent:
            loop.call_soon(self._emptied.set)

    def _measure(self, frame: _Frame, at: Instant) -> None:
        if at:
            self._hooks.on_time(at, frame.begun)
        if self._hooks.observer.measures:
            length = self._clock.monotonic() - frame.begun
            self._hooks.observer.commit_took(self._worker, frame.size, length)

    async def _run(self) -> None:
        try:
            while self._waiting or self._sent:
                await self._hooks.send(self._exchange)
        except BaseException as error:
            self._fail(error)
            if not isinstance(error, Exception):
                raise
        finally:
            self._task = None

    async def _exchange(self) -> None:
        """Send and receive until everything is answered, on one stream.

        Raises:
            Unavailable: the stream broke, or there was no answer for a while.
        """
        wire = await self._connected()
        if wire is not self._wire:
            self._wire = wire
            self._frames = 0
            left = [(sent.commit, sent.then) for sent in self._sent.values()]
            self._waiting.extendleft(reversed(left))
            self._sent.clear()
        self._flush()
        while self._waiting or self._sent:
            answers = self._answers
            done, _ = await asyncio.wait([wire.closed], timeout=PATIENCE_SECONDS)
            if done:
                self._wire = None
                if self._waiting or self._sent:
                    raise wire.closed.result()
            elif answers == self._answers and self._sent:
                raise Unavailable("the server", "has not answered a commit yet")

    def _flush(self) -> None:
        self._is_scheduled = False
        wire = self._wire
        while (
            wire is not None
            and self._waiting
            and self._may_send
            and len(self._sent) < wire.limits.commits
        ):
            self._send_frame(wire)

    @property
    def _may_send(self) -> bool:
        if not self._frames:
            return True
        is_worthwhile = len(self._sent) < FEW_COMMITS or len(self._waiting) >= MAX_COMMITS
        return is_worthwhile and self._frames < MAX_FRAMES

    def _send_frame(self, wire: Wire) -> None:
        frame = _Frame(self._clock.monotonic())
        request = messages.Request()
        size = 0
        room = min(MAX_COMMITS, wire.limits.commits - len(self._sent))
        while self._waiting and frame.size < room:
            commit, then = self._waiting[0]
            own = commit.weigh()[1]
            if own > MAX_COMMIT_BYTES:  # no stream could carry it: only its run fails
                self._waiting.popleft()
                error = PayloadTooLarge("a commit with results", own, MAX_COMMIT_BYTES)
                self._call(deque([(then, error)]))
                continue
            size += own
            if frame.size and size > wire.limits.frame_bytes:
                break
            self._waiting.popleft()
            self._numbers += 1
            self._sent[self._numbers] = _Sent(commit, then, frame)
            add_commit(request.commits, self._numbers, commit)
            frame.size += 1
        if frame.size:
            self._frames += 1
            frame.id = wire.send(request)

    def _fail(self, error: BaseException) -> None:
        left = [sent.then for sent in self._sent.values()]
        left += [then for _, then in self._waiting]
        self._sent.clear()
        self._waiting.clear()
        self._call(deque((then, error) for then in left))
