"""The other runs of a run: those that it starts, waits for, and no longer needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.codec import encode_error
from onward.core.instant import SECOND
from onward.core.replay import RecordState
from onward.engine.payloads import pack
from onward.errors import LeaseLost
from onward.model.ends import ChildEnd, read_child_end
from onward.runtime.body.children import REFUSED, ChildCall, RoutedStepCall, StartCall, bound_child
from onward.runtime.execution.guard import on_done
from onward.runtime.execution.replies import is_away

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable

    from onward.core.instant import Duration, Instant
    from onward.model.messages import InboxRow
    from onward.model.runs import ClaimedRun, NewRun, RunEnd, Started
    from onward.runtime.body.body import Body
    from onward.runtime.execution.execution import Execution
    from onward.runtime.execution.host import Host
    from onward.runtime.execution.journal import Journal

LOOK_FIRST: Duration = SECOND // 20
MAX_LOOK: Duration = 30 * SECOND
"""How soon, and at last how seldom, a run looks for the end of one that does not tell it."""


def look_at(now: Instant, looks: int) -> Instant:
    """Return when to look again for the end of a run, after so many looks in vain."""
    return now + min(MAX_LOOK, LOOK_FIRST << min(looks, 20))


class Children:
    """Starts, hears of and dismisses the children of one run."""

    def __init__(
        self, execution: Execution, journal: Journal, host: Host, bound: Iterable[str]
    ) -> None:
        self._execution = execution
        self._journal = journal
        self._host = host
        self._dismissed: list[str] = []
        self._started = list(bound)

    def start_child(self, call: ChildCall) -> None:
        """Start the run that a call waits for; one with an id of its own must find it free."""
        if not self._execution.is_wanted(call):
            return  # it was given up before it began
        run = None if call.is_begun else call.start_row(self._parent)
        if call.is_begun:
            self._look(call)
        elif run is None:
            self._wait_for(call, None)
        elif call.has_id:
            self._ask(run, call, None)
        elif isinstance(call, RoutedStepCall):
            self._send(run, call)
        else:
            self._wait_for(call, run.uid, (run,))

    def _send(self, run: NewRun, call: RoutedStepCall) -> None:
        """Start the run of a step, once the limit that it is under holds."""
        limit, key = call.limit, run.flow_key
        declared = None
        if limit is not None and key is not None:
            declared = self._host.engine_calls.set_limit(self._execution.claimed, key, limit)
        if declared is None:
            self._wait_for(call, run.uid, (run,))
            return
        self._execution.asking += 1
        on_done(self._execution, declared, lambda done: self._limited(call, run, done))

    def _limited(self, call: RoutedStepCall, run: NewRun, done: asyncio.Future[None]) -> None:
        self._execution.asking -= 1
        if is_away(done):
            self._execution.drop()  # the store is away
        elif self._execution.is_wanted(call):
            self._wait_for(call, run.uid, (run,))
        else:
            self._execution.pump()

    def start(self, call: StartCall) -> None:
        """Start a run that goes on by itself."""
        if not self._execution.is_wanted(call):
            return
        run = call.start_row(self._parent)
        if call.has_id:
            self._ask(run, call, call.on_conflict)
        else:
            self._close(call, run.uid, run, (run,))

    @property
    def _parent(self) -> ClaimedRun:
        """The run as its children know it: their spans are below its own, if it has one."""
        trace = self._host.observer.trace_of(self._execution.scope)
        run = self._execution.claimed
        return run if trace is None else run._replace(trace=trace)

    def _ask(self, run: NewRun, call: ChildCall | StartCall, on_conflict: str | None) -> None:
        self._execution.asking += 1
        asked = self._host.engine_calls.start(self._execution.claimed, run, on_conflict)
        on_done(self._execution, asked, lambda done: self._answered(call, run, done))

    def _answered(
        self, call: ChildCall | StartCall, run: NewRun, done: asyncio.Future[Started | None]
    ) -> None:
        self._execution.asking -= 1
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or self._execution.is_stopped:
            return
        if isinstance(error, LeaseLost):
            self._execution.drop()
            return
        started = None if error is not None else done.result()
        if isinstance(call, ChildCall) and started is not None:
            self._wait_for(call, started.uid, is_told=started.uid == run.uid)
        elif not self._execution.is_wanted(call):
            self._execution.pump()
        elif error is not None:
            kept, pump = pack(encode_error(error)), self._execution.pump
            self._journal.close(call, RecordState.FAILED, pump, payload=REFUSED, error=kept)
        elif started is None:
            self._later(call)
        elif isinstance(call, StartCall):
            self._close(call, started.uid, run)

    def _wait_for(
        self,
        call: ChildCall,
        child: str | None,
        starts: tuple[NewRun, ...] = (),
        *,
        is_told: bool = True,
    ) -> None:
        call.begin(child, is_told=is_told)
        if not self._execution.is_wanted(call):
            self.abandon(call)
            self._execution.pump()
            return
        if call.is_told:
            self._execution.waits.add(call)
            self._journal.open(call, call.opening(), starts, self._execution.pump)
        else:
            self._journal.open(call, call.opening(), starts, lambda: self._look(call))

    def _look(self, call: ChildCall) -> None:
        """See whether a run is over that does not tell this one."""
        self._execution.asking += 1
        end = self._host.engine_calls.end_of(call.child)
        on_done(self._execution, end, lambda done: self._seen(call, done))

    def _seen(self, call: ChildCall, done: asyncio.Future[RunEnd | None]) -> None:
        self._execution.asking -= 1
        if done.cancelled() or self._execution.is_stopped:
            return
        end = None if is_away(done) else done.result()
        if not self._execution.is_wanted(call):
            self._execution.pump()
        elif end is None:
            self._later(call)
        else:
            told = ChildEnd(end.state, end.reason, end.result or end.error or b"")
            self._over(call, told, None)

    def _later(self, call: ChildCall | StartCall) -> None:
        call.due = look_at(self._host.now(), call.looks)
        call.looks += 1
        self._execution.waits.add(call)
        self._execution.pump()

    def look_again(self, call: ChildCall | StartCall) -> None:
        """Ask once more what could not be answered before."""
        call.due = None
        if isinstance(call, StartCall):
            self.start(call)
        else:
            self.start_child(call)

    def _close(
        self, call: StartCall, uid: str, run: NewRun, starts: tuple[NewRun, ...] = ()
    ) -> None:
        kept = call.closing(uid, run)
        if bound_child(kept) is not None:
            self._started.append(uid)
        state, pump = RecordState.SUCCEEDED, self._execution.pump
        self._journal.close(call, state, pump, payload=kept, starts=starts)

    def on_message(self, call: ChildCall, message: InboxRow) -> None:
        """Write that a child is over."""
        assert message.payload is not None
        self._over(call, read_child_end(message.payload), message.seq)

    def _over(self, call: ChildCall, end: ChildEnd, seq: int | None) -> None:
        state, payload, error = call.closing(end)
        pump = self._execution.pump
        self._journal.close(call, state, pump, payload=payload, error=error, message=seq)

    def abandon(self, call: ChildCall) -> None:
        """Note that a child is no longer awaited."""
        if call.is_begun and call.is_cancelled_with_parent:
            self._dismissed.append(call.child)

    def keep(self, call: ChildCall) -> None:
        """Keep a child that was given up and is awaited again before it was cancelled."""
        if call.child in self._dismissed:
            self._dismissed.remove(call.child)

    def dismiss(self) -> None:
        """Cancel children that are no longer awaited."""
        if self._dismissed:
            children, self._dismissed = self._dismissed, []
            self.end(children, self._execution.pump)

    def end(self, children: list[str], then: Callable[[], None]) -> None:
        """Tell children to stop, or those that follow them by now; only then go on."""
        self._execution.asking += 1
        told = self._host.engine_calls.dismiss(self._execution.claimed, children)
        on_done(self._execution, told, lambda done: self._told(done, then))

    def end_all(self, children: list[str], then: Callable[[], None]) -> None:
        """Tell children to stop, and those that the run took over from the one it continues."""
        self._execution.asking += 1
        told = self._host.engine_calls.dismiss_all(self._execution.claimed, children)
        on_done(self._execution, told, lambda done: self._told(done, then))

    def _told(self, done: asyncio.Future[None], then: Callable[[], None]) -> None:
        self._execution.asking -= 1
        if is_away(done):
            self._execution.drop()  # the store is away
        else:
            then()

    def left(self, body: Body) -> list[str]:
        """Return the children that end with the run."""
        waited = (call for call in body.calls.values() if isinstance(call, ChildCall))
        bound = [call.child for call in waited if call.is_begun and call.is_cancelled_with_parent]
        return list(dict.fromkeys((*self._dismissed, *self._started, *bound)))
