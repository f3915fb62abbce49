"""The ends of a run in motion: for good, by a run that follows it, or for an error of ours."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from onward.codec import encode_error
from onward.core.run import Reason, RunState
from onward.engine.payloads import pack
from onward.errors import Unavailable
from onward.runtime import endings
from onward.store.rows import Move
from onward.telemetry.failpoints import failpoint

if TYPE_CHECKING:
    import asyncio

    from onward.codec import Arguments
    from onward.runtime.body import Body
    from onward.runtime.execution import Execution
    from onward.runtime.host import Host
    from onward.runtime.journal import Journal
    from onward.runtime.kin import Kin


class Exits:
    """How one run ends; each way out stops the body first."""

    def __init__(self, execution: Execution, journal: Journal, host: Host, kin: Kin) -> None:
        self._execution = execution
        self._journal = journal
        self._host = host
        self._kin = kin
        self._broken = False

    def end(self, move: Move, body: Body, *, may_retry: bool = False) -> None:
        """End the run, or let another follow it if it is to be retried as a whole."""
        failpoint("finish.before")
        self._execution.stop(move)
        retried = self._host.errands.retry(self._execution, move) if may_retry else None
        if retried is not None:
            retried.add_done_callback(partial(self._retried, move, body))
        else:
            self._end_for_good(move, body)

    def _retried(self, move: Move, body: Body, done: asyncio.Future[bool | None]) -> None:
        if done.cancelled() or done.exception() is not None or done.result() is not None:
            self._followed(done)
        else:
            self._end_for_good(move, body)  # it was too late to try again

    def _end_for_good(self, move: Move, body: Body) -> None:
        told = endings.farewell(self._execution.claimed, move)
        end = partial(self._journal.end, move, self._ended, told)
        children = self._kin.left(body)
        if children:
            self._kin.end(children, end)
        else:
            end()

    def go_on(self, wish: endings.ContinueAsNew, body: Body) -> None:
        """End here, and go on as a new run with other arguments."""
        try:
            endings.check_alone(body)
            arguments = self._execution.program.bind(*wish.arguments)
        except Exception as refused:  # noqa: BLE001 - arguments that cannot be kept are a failure
            error = pack(encode_error(refused))
            self.end(Move(RunState.FAILED, Reason.LOGIC, error=error), body)
            return
        failpoint("finish.before")
        # Nothing may have arrived that was not looked at: what is received from here on was not.
        move = endings.CONTINUED._replace(seen=self._execution.seen)
        self._execution.stop(move)
        # What is under way may be a signal, which the new run must have if this one has not.
        self._journal.when_written(partial(self._go_on, arguments, move))

    def _go_on(self, arguments: Arguments, move: Move) -> None:
        gone_on = self._host.errands.go_on(self._execution, arguments, move)
        gone_on.add_done_callback(self._followed)

    def _followed(self, done: asyncio.Future[bool] | asyncio.Future[bool | None]) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, endings.Overtaken):
            self._execution.is_stopped = False
            self._host.look(self._execution)
        elif isinstance(error, Exception) and not isinstance(error, Unavailable):
            self._execution.break_off(error)
        elif done.cancelled() or error is not None or not done.result():
            self._execution.drop()
        else:
            self._ended()

    def _ended(self) -> None:
        failpoint("finish.after")
        self._execution.leave_over()

    def break_off(self, error: Exception, body: Body) -> None:
        """End the run for an error of ours: it must neither hang nor be tried for ever."""
        if self._broken:
            self._execution.drop()  # even that it is broken cannot be written
            return
        self._broken = True
        self.end(Move(RunState.FAILED, Reason.INTERNAL, error=pack(encode_error(error))), body)
