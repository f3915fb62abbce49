"""The other runs of a run: those that it starts, waits for, and no longer needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.codec import encode_error
from onward.core.replay import RecordState
from onward.engine.payloads import pack
from onward.runtime.children import ChildCall
from onward.store.ends import read_child_end, to_children

if TYPE_CHECKING:
    import asyncio

    from onward.runtime.body import Body
    from onward.runtime.calls import Awaited
    from onward.runtime.children import StartCall
    from onward.runtime.execution import Execution
    from onward.runtime.host import Host
    from onward.runtime.journal import Journal
    from onward.store.rows import InboxRow, NewRun, Started


class Kin:
    """Starts, hears of and dismisses the children of one run."""

    def __init__(self, execution: Execution, journal: Journal, host: Host) -> None:
        self._execution = execution
        self._journal = journal
        self._host = host
        self._dismissed: list[str] = []
        self.starting = 0
        """How many starts are under way."""

    def start_child(self, call: ChildCall) -> None:
        """Start the run that a call waits for; one with an id of its own must find it free."""
        run = call.start_row(self._execution.claimed)
        if run is not None and call.has_id:
            self._ask(run, call, None)
        else:
            self._wait_for(call, run, () if run is None else (run,))

    def start(self, call: StartCall) -> None:
        """Start a run that goes on by itself."""
        run = call.start_row(self._execution.claimed)
        if call.has_id:
            self._ask(run, call, call.on_conflict)
        else:
            self._close(call, call.closing(run.uid, run.id, is_child=True), (run,))

    def _ask(self, run: NewRun, call: ChildCall | StartCall, on_conflict: str | None) -> None:
        self.starting += 1
        asked = self._host.start(run, on_conflict)
        asked.add_done_callback(lambda done: self._answered(call, run, done))

    def _answered(
        self, call: ChildCall | StartCall, run: NewRun, done: asyncio.Future[Started]
    ) -> None:
        self.starting -= 1
        error = None if done.cancelled() else done.exception()
        if done.cancelled() or self._execution.is_stopped:
            return
        if error is not None:
            self._refused(call, error)
        elif isinstance(call, ChildCall):
            self._wait_for(call, run, ())
        elif self._execution.is_wanted(call):
            uid = done.result().uid
            self._close(call, call.closing(uid, run.id, is_child=uid == run.uid), ())

    def _refused(self, call: Awaited, error: BaseException) -> None:
        if self._execution.is_wanted(call):
            kept = pack(encode_error(error))
            self._journal.close(call, RecordState.FAILED, self._execution.pump, error=kept)

    def _wait_for(self, call: ChildCall, run: NewRun | None, starts: tuple[NewRun, ...]) -> None:
        call.begin(run)
        if not self._execution.is_wanted(call):
            self.abandon(call)
            self._execution.pump()
            return
        self._execution.waits.add(call)
        self._journal.open(call, call.opening(), starts, self._execution.pump)

    def _close(self, call: StartCall, kept: bytes, starts: tuple[NewRun, ...]) -> None:
        state, pump = RecordState.SUCCEEDED, self._execution.pump
        self._journal.close(call, state, pump, payload=kept, starts=starts)

    def hear(self, call: ChildCall, letter: InboxRow) -> None:
        """Write that a child is over."""
        assert letter.payload is not None
        state, payload, error = call.closing(read_child_end(letter.payload))
        pump, seq = self._execution.pump, letter.seq
        self._journal.close(call, state, pump, payload=payload, error=error, message=seq)

    def abandon(self, call: ChildCall) -> None:
        """Take note that nobody waits for a child any more."""
        if call.is_kept and call.is_tied:
            self._dismissed.append(call.child)

    def dismiss(self) -> None:
        """Tell children that nobody waits for any more to stop."""
        if self._dismissed:
            self._journal.send(tuple(to_children(self._dismissed)))
            self._dismissed = []

    def left(self, body: Body) -> list[str]:
        """Return the children that end with the run."""
        waited = (call for call in body.calls.values() if isinstance(call, ChildCall))
        tied = [call.child for call in waited if call.is_kept and call.is_tied]
        return [*self._dismissed, *tied]
