"""The other runs of a run: each that it starts or waits for is one coroutine.

A child reports its end to its parent by a message. A run that the parent did not start, but found
under the id that it chose, reports to another run: that one is polled.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from onward.codec import encode_error
from onward.core.instant import SECOND
from onward.core.replay import RecordState
from onward.engine.payloads import pack
from onward.errors import LeaseLost
from onward.model.ends import ChildEnd, read_child_end
from onward.runtime.body.children import REFUSED, ChildCall, StartCall, bound_child
from onward.runtime.execution.call_task import CallTasks, TaskRun, suspend
from onward.runtime.execution.replies import is_away

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable

    from onward.core.instant import Duration, Instant
    from onward.model.messages import InboxRow
    from onward.model.runs import ClaimedRun, NewRun, Started
    from onward.runtime.body.calls import Call
    from onward.runtime.body.waits import Waits
    from onward.runtime.execution.host import Host
    from onward.runtime.execution.journal import Journal
    from onward.telemetry.scope import RunScope

FIRST_POLL: Duration = SECOND // 20
MAX_POLL: Duration = 30 * SECOND
"""How soon, and at last how seldom, a run polls for the end of one that does not report it."""


def poll_at(now: Instant, polls: int) -> Instant:
    """Return when to poll again for the end of a run, after so many polls without a result."""
    return now + min(MAX_POLL, FIRST_POLL << min(polls, 20))


C = TypeVar("C", ChildCall, StartCall)


class ParentRun(TaskRun, Protocol):
    """The run whose children these are."""

    claimed: ClaimedRun
    scope: RunScope
    waits: Waits

    def is_wanted(self, call: Call) -> bool: ...

    def later(self, write: Callable[[], None]) -> None:
        """Call this when the body has run, as nothing can be written before."""
        ...


class _End(NamedTuple):
    """How a child ended, and the number of the message that says so, if it was one."""

    end: ChildEnd
    message: int | None = None


class Children:
    """Starts the children of one run, records their ends, cancels those no longer awaited."""

    def __init__(self, run: ParentRun, journal: Journal, host: Host, bound: Iterable[str]) -> None:
        self._run = run
        self._journal = journal
        self._host = host
        self._tasks = CallTasks(run)
        self._unwanted: list[str] = []
        self._started = list(bound)

    @property
    def is_busy(self) -> bool:
        """Whether another run is being started, polled or cancelled."""
        return self._tasks.has_requests

    def close(self) -> None:
        """End what is under way here: the run has left."""
        self._tasks.close()

    # --- requests of the run ---------------------------------------------------------------------

    def take(self, call: ChildCall | StartCall) -> None:
        """Carry out a call: at once if it only waits, or else when something can be written."""
        if isinstance(call, StartCall):
            self._run.later(partial(self._begin, call, self._start))
        elif not (call.is_begun and call.is_reported):
            self._run.later(partial(self._begin, call, self._live))
        else:
            # It may have been given up, and be awaited again before it was cancelled.
            if call.child in self._unwanted:
                self._unwanted.remove(call.child)
            self._tasks.start(call, self._live(call))

    def _begin(self, call: C, live: Callable[[C], Coroutine[Any, Any, None]]) -> None:
        if self._run.is_wanted(call):
            self._tasks.start(call, live(call))

    def resume(self, call: ChildCall | StartCall, message: InboxRow | None = None) -> None:
        """Continue a call: the message about its end is here, or it is time to ask again."""
        self._tasks.resume(call, message)

    def abandon(self, call: ChildCall) -> None:
        """Wait for a child no longer, and cancel it if it ends with its parent."""
        if call.is_begun and call.is_cancelled_with_parent:
            self._unwanted.append(call.child)
        self._tasks.drop(call)

    def cancel_unwanted(self) -> None:
        """Cancel children that are no longer awaited."""
        if self._unwanted:
            children, self._unwanted = self._unwanted, []
            self.cancel(children, self._run.pump)

    def cancel(self, children: list[str], then: Callable[[], None]) -> None:
        """Cancel children, or the runs that follow them by now; then call `then`."""
        cancelled = self._host.engine_calls.dismiss(self._run.claimed, children)
        self._tasks.when_done(cancelled, then)

    def cancel_all(self, children: list[str], then: Callable[[], None]) -> None:
        """Cancel children, and those that the run took over from the one it continues."""
        cancelled = self._host.engine_calls.dismiss_all(self._run.claimed, children)
        self._tasks.when_done(cancelled, then)

    def left(self, calls: Iterable[Call]) -> list[str]:
        """Return the children that end with the run, given the calls that it waits for."""
        awaited = (call for call in calls if isinstance(call, ChildCall))
        bound = [call.child for call in awaited if call.is_begun and call.is_cancelled_with_parent]
        left = dict.fromkeys((*self._unwanted, *self._started, *bound))
        return [child for child in left if child not in self._journal.not_started]

    # --- the life of a child ---------------------------------------------------------------------

    async def _live(self, call: ChildCall) -> None:
        """Start the run of a call, unless it was started before, and record its end."""
        if not (call.is_begun or await self._start_child(call)):
            return
        ended = await (self._reported_end(call) if call.is_reported else self._polled_end(call))
        if ended is not None:
            state, payload, error = call.closing(ended.end)
            pump, message = self._run.pump, ended.message
            self._journal.close(call, state, pump, payload=payload, error=error, message=message)

    async def _start_child(self, call: ChildCall) -> bool:
        """Start a child and record that the call waits for it; False if it is not to be awaited."""
        run = call.start_row(self._parent)
        starts: tuple[NewRun, ...] = ()
        if run is not None and call.declares:
            await self._declare(call)
            if not self._run.is_wanted(call):
                return False
        if run is None:
            call.begin(None)  # the body has started it before
        elif call.has_id:
            started = await self._start_with_id(call, None)
            if started is None:
                return False
            call.begin(started.uid, is_reported=started.uid == run.uid)
        else:
            call.begin(run.uid)
            starts = (run,)
        if not self._run.is_wanted(call):
            self.abandon(call)  # it was given up while it was started
            return False
        payload = call.opening()
        await suspend(lambda task: self._journal.open(call, payload, starts, task.resume))
        return self._run.is_wanted(call)

    async def _declare(self, call: ChildCall | StartCall) -> None:
        """See that the limits of a run hold before it is started."""
        for flow, limits in call.declares.items():
            declared = self._host.engine_calls.declare(self._run.claimed, flow, limits)
            if declared is not None:
                await self._tasks.reply(declared)

    async def _reported_end(self, call: ChildCall) -> _End:
        """Return the end of a child that sends its parent a message about it."""
        self._run.waits.add(call)
        return _end_in(await self._tasks.resumed())

    async def _polled_end(self, call: ChildCall) -> _End | None:
        """Return the end of a run that does not report it; None if it is no longer awaited."""
        polls = 0
        while True:
            done = await self._tasks.done(self._host.engine_calls.end_of(call.child))
            if not self._run.is_wanted(call):
                return None
            end = None if is_away(done) else done.result()
            if end is not None:
                return _End(ChildEnd(end.state, end.reason, end.result or end.error or b""))
            message = await self._wait(call, polls)
            if message is not None:
                return _end_in(message)
            polls += 1

    async def _wait(self, call: ChildCall | StartCall, polls: int) -> InboxRow | None:
        """Wait until it is time to ask again, or for the end of the child if it is reported."""
        call.due = poll_at(self._host.now(), polls)
        self._run.waits.add(call)
        message: InboxRow | None = await self._tasks.resumed()
        call.due = None
        return message

    # --- a run that continues on its own ---------------------------------------------------------

    async def _start(self, call: StartCall) -> None:
        await self._declare(call)
        if not self._run.is_wanted(call):
            return
        run = call.start_row(self._parent)
        uid, starts = run.uid, [run]
        if call.has_id:
            started = await self._start_with_id(call, call.on_conflict)
            if started is None or not self._run.is_wanted(call):
                return
            uid, starts = started.uid, []
        payload = call.closing(uid, run)
        if bound_child(payload) is not None:
            self._started.append(uid)
        state, pump = RecordState.SUCCEEDED, self._run.pump
        self._journal.close(call, state, pump, payload=payload, starts=tuple(starts))

    async def _start_with_id(
        self, call: ChildCall | StartCall, on_conflict: str | None
    ) -> Started | None:
        """Start a run under an id that may be taken; None if it was refused, or is not wanted."""
        polls = 0
        while True:
            run = call.start_row(self._parent)
            assert run is not None
            asked = self._host.engine_calls.start(self._run.claimed, run, on_conflict)
            done = await self._tasks.done(asked)
            error = None if done.cancelled() else done.exception()
            if isinstance(error, LeaseLost):
                self._run.drop()
            if done.cancelled() or isinstance(error, LeaseLost):
                await self._tasks.closed()
            started = None if error is not None else done.result()
            if started is not None:
                return started
            if not self._run.is_wanted(call):
                return None
            if error is not None:
                refused, pump = pack(encode_error(error)), self._run.pump
                state = RecordState.FAILED
                self._journal.close(call, state, pump, payload=REFUSED, error=refused)
                return None
            await self._wait(call, polls)
            polls += 1

    @property
    def _parent(self) -> ClaimedRun:
        """The run as its children know it: their spans are below its own, if it has one."""
        trace = self._host.observer.trace_of(self._run.scope)
        run = self._run.claimed
        return run if trace is None else run._replace(trace=trace)


def _end_in(message: InboxRow) -> _End:
    assert message.payload is not None
    return _End(read_child_end(message.payload), message.seq)
