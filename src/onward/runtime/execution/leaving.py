"""How a run leaves its worker: it waits, pauses, ends, continues as another run, or breaks.

Each stops the body first, writes, and then informs the worker.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from onward.codec import encode, encode_error
from onward.core.chain import Link
from onward.core.lease import Fate
from onward.core.replay import CANCEL_IDENTITY, Diverged
from onward.core.run import Reason, RunState
from onward.engine.failures import classified
from onward.engine.payloads import pack
from onward.errors import BadInput, InvariantBroken, Undecodable
from onward.model.following import Continuation
from onward.model.runs import Move
from onward.runtime.body.calls import TimerCall
from onward.runtime.body.divergence import divergence_error, place_of
from onward.runtime.body.effects import EffectCall
from onward.runtime.execution.guard import GuardedRun, on_done
from onward.runtime.execution.handler_ends import failed_end, pause_of
from onward.runtime.execution.replies import Overtaken
from onward.runtime.execution.reporting import report_unawaited, report_unread_signals
from onward.runtime.execution.stopping import Stop, read_stop, recalled
from onward.runtime.reading import STORE_ERRORS
from onward.telemetry.failpoints import failpoint
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Sequence

    from onward.codec import Arguments
    from onward.core.replay import Ended, Record, Replay
    from onward.model.commits import Attachments
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.body import Body
    from onward.runtime.body.calls import Call
    from onward.runtime.body.notes import Notes
    from onward.runtime.body.waits import RunInbox, Waits
    from onward.runtime.definition import Program, ProgramShape
    from onward.runtime.execution.children import Children
    from onward.runtime.execution.host import Host
    from onward.runtime.execution.journal import Journal
    from onward.runtime.execution.ledger import Ledger
    from onward.runtime.execution.loaded_history import LoadedHistory
    from onward.runtime.pipelines.phases import PhaseCall
    from onward.telemetry.scope import RunScope

CONTINUED = Move(RunState.SUCCEEDED, Reason.CONTINUED)
"""The move of a run that continues as a new one."""


class ContinueAsNew(BaseException):
    """A body continues as a new run, with different arguments."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__init__()
        self.arguments = args, kwargs


def end_by_force(body: Body) -> Move:
    """Return the move of a run whose cleanup took too long."""
    assert body.cancelled is not None
    return _stopped(body, recalled(body.cancelled))


def _stopped(body: Body, stop: Stop) -> Move:
    return stop.move._replace(failed_call=body.failures.stopped_call(body.calls.values()))


def end_of(body: Body, shape: ProgramShape) -> Move:
    """Return the move of a run whose body has ended.

    A cancelled run ends as cancelled whatever it returns, but an error in its cleanup counts.
    """
    main = body.main
    stop = None if body.cancelled is None else recalled(body.cancelled)
    if main.cancelled():
        return Move(RunState.CANCELLED) if stop is None else _stopped(body, stop)
    error = main.exception()
    if stop is not None and (error is None or isinstance(error, ContinueAsNew)):
        return _stopped(body, stop)
    if error is None:
        try:
            return Move(RunState.SUCCEEDED, result=pack(shape.encode_result(main.result())))
        except BaseException as refused:  # noqa: BLE001 - a result that cannot be encoded is a failure
            raise_interrupt(refused)
            error = refused
    return failure(body, error)


def failure(body: Body, error: BaseException) -> Move:
    """Return the move of a run whose body ends with an error."""
    return Move(
        RunState.FAILED,
        Reason.LOGIC,
        error=pack(encode_error(error)),
        failed_call=body.failures.failed_call(error, body.calls.values()),
    )


def leaves_plans(body: Body, history: LoadedHistory) -> bool:
    """Return whether a run may end with effects that were planned and never sent."""
    if body.diverged is not None:  # the code has not asked for all of them
        return history.has_open_effects
    if not body.calls:
        return False
    effects = (call for call in body.calls.values() if isinstance(call, EffectCall))
    return any(call.may_be_planned for call in effects)


def check_alone(body: Body) -> None:
    """Refuse to continue as a new run while something of the old one is under way.

    Raises:
        BadInput: other branches, children or steps are not over.
    """
    if body.has_open_branches:
        raise BadInput(
            "continue_as_new",
            "was called while other branches of the run were still open",
            "Await them first",
        )


def asks_to_continue(main: asyncio.Task[Any]) -> ContinueAsNew | None:
    """Return the request of an ended body to continue as a new run, if it made one."""
    error = None if main.cancelled() else main.exception()
    return error if isinstance(error, ContinueAsNew) else None


def _is_opened(call: Call, *, is_paused: bool) -> bool:
    """Return whether a wait is written when its run parks.

    A limit is not if the run is paused: nothing is done within it meanwhile, so it does not count.
    """
    if call.is_kept or call.attempt > 1:
        return False
    return not (is_paused and isinstance(call, TimerCall) and call.is_limit)


class LeavingRun(GuardedRun, Protocol):
    """The run that leaves its worker."""

    claimed: ClaimedRun
    scope: RunScope
    program: Program
    body: Body
    replay: Replay
    inbox: RunInbox
    waits: Waits
    notes: Notes

    @property
    def children(self) -> Children: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def seen(self) -> int: ...

    @property
    def undelivered_signals(self) -> tuple[int, ...]: ...

    def children_left(self) -> list[str]: ...

    def leaves_plans(self) -> bool: ...

    def report_abandoned(self) -> None: ...

    def report(self, left: Sequence[Record] = ()) -> None: ...

    def write_todo(self) -> None: ...

    def stop(self, move: Move) -> None: ...

    def look_again(self) -> None: ...

    def leave_parked(self, *, paused: bool) -> None: ...

    def leave_over(self) -> None: ...

    def drop(self) -> None: ...


class Leaving:
    """Parks, pauses and ends one run."""

    def __init__(self, execution: LeavingRun, journal: Journal, host: Host) -> None:
        self._execution = execution
        self._journal = journal
        self._host = host
        self._break: Move | None = None
        """The end of the run, if it is for an internal error."""
        self._is_breaking = False
        """Whether that end is being written."""

    # --- it waits, or pauses ---------------------------------------------------------------------

    def park(self, move: Move) -> None:
        """Park the run until something happens, or pause it until an operator resumes it."""
        failpoint("park.before")
        execution = self._execution
        execution.report()
        execution.stop(move)
        is_paused = move.state == RunState.PAUSED
        opened = [call for call in execution.waits if _is_opened(call, is_paused=is_paused)]
        self._journal.park(opened, move, partial(self._parked, opened, move))

    def _parked(self, opened: list[Call], move: Move, fate: Fate) -> None:
        if self._execution.is_gone:
            return
        if fate is Fate.BUSY:
            self._execution.look_again()  # a message has arrived: read it first
            return
        failpoint("park.after")
        for call in opened:
            call.is_kept = True
        self._execution.leave_parked(paused=move.state != RunState.WAITING)

    def pause(self, misfit: Diverged | Undecodable) -> None:
        """Pause a run whose code does not fit its history until other code is deployed."""
        execution, body = self._execution, self._execution.body
        stop = self._stop_of_misfit()
        body.diverged = misfit
        asked_args = None if body.diverged_call is None else body.diverged_call.shown_args
        error = divergence_error(misfit, body.place, body.unread, body.run.id, asked_args)
        if stop is not None:
            error.add_note(
                "The run was cancelled, but its history does not match the code, so no cleanup ran."
            )
            self.end(stop.move._replace(error=pack(encode_error(error))))
            return
        why = pack(encode_error(error))
        move = Move(
            RunState.PAUSED,
            Reason.DIVERGENCE,
            error=why,
            parked_by=execution.program.code or None,
            seen=execution.seen,
        )
        execution.stop(move)
        self._journal.park((), move, partial(self._parked, [], move))

    def _stop_of_misfit(self) -> Stop | None:
        """Return the request that the run stops, if its body has not received it."""
        cancel = self._execution.inbox.take_cancel()
        if cancel is not None:
            return read_stop(cancel)
        record = self._execution.replay.record_of(CANCEL_IDENTITY)
        if record is None or self._execution.body.cancelled is not None:
            return None
        return recalled(record)

    # --- its code has ended ----------------------------------------------------------------------

    def finish(self) -> None:
        """End a run whose body has ended, or continue it as a new run if the body asked to."""
        execution, body = self._execution, self._execution.body
        ended = execution.replay.end()
        if isinstance(ended, Diverged):
            body.place = place_of(execution.program.fn)
            self.pause(ended)
            return
        execution.report(ended.unread)
        execution.notes.release()  # it may have ended on what history has
        execution.write_todo()
        request = asks_to_continue(body.main)
        if self._journal.writing and (request is not None or execution.claimed.retry is not None):
            return  # a run that follows needs everything written
        if self._pauses_handler():
            return
        if request is None or body.cancelled is not None:
            move = end_of(body, execution.program.shape)
            if body.calls and move.state == RunState.SUCCEEDED:
                report_unawaited(execution.scope, body, execution.program.fn)
            self.end(move)
            return
        stop = self._late_stop(ended)
        if stop is not None:
            self.end(stop.move)
        else:
            self._continue(request)

    def _late_stop(self, ended: Ended) -> Stop | None:
        """Return a request that the run stops which came too late for its body."""
        if ended.unheard is not None:
            return recalled(ended.unheard)
        cancel = self._execution.inbox.take_cancel()
        return None if cancel is None else read_stop(cancel)

    def end(self, move: Move) -> None:
        """End the run, or retry it as a whole if its policy says so."""
        # A cancelled run is not retried, even if its cleanup failed.
        may_retry = move.state == RunState.FAILED and not self._execution.inbox.is_stopping
        failpoint("finish.before")
        progress = self._host.pending_progress(self._execution.claimed.uid)
        if progress is not None:
            move = move._replace(progress=progress)
        self._execution.stop(move)
        if not (may_retry and self._retry(move)):
            self._end_for_good(move)

    def _retry(self, move: Move) -> bool:
        """Retry the run if it has a policy, and return whether it has."""
        # A message that arrives from here on must be read before the run ends.
        seen = move._replace(seen=self._execution.seen)
        retried = self._host.engine_calls.retry(self._execution.claimed, seen)
        if retried is not None:
            on_done(self._execution, retried, partial(self._retried, move))
        return retried is not None

    def _retried(self, move: Move, done: asyncio.Future[bool | None]) -> None:
        if self._execution.is_gone:
            return
        if done.cancelled() or done.exception() is not None or done.result() is not None:
            self._followed(done)
        else:
            self._end_for_good(move)  # it is not retried

    def _end_for_good(self, move: Move) -> None:
        if self._execution.claimed.handler is not None and move.state != RunState.SUCCEEDED:
            self._end_handler(move)
            return
        move = classified(move)
        end = partial(self._journal.end, move, self._ended_for_good)
        if self._execution.leaves_plans():  # a plan may be under way
            withdraw = partial(self._execution.ledger.withdraw_planned, end)
            end = partial(self._journal.when_written, withdraw)
        children = self._execution.children_left()
        if self._execution.claimed.link == Link.CONTINUE:
            self._execution.children.cancel_all(children, end)
        elif children:
            self._execution.children.cancel(children, end)
        else:
            end()

    def _ended_for_good(self) -> None:
        self._execution.report_abandoned()
        if self._execution.inbox.signals and not self._execution.is_gone:
            report_unread_signals(self._execution.scope, self._execution.inbox.signals.values())
        self._ended()

    def _ended(self) -> None:
        failpoint("finish.after")
        self._execution.leave_over()

    # --- it is the run of a handler ---------------------------------------------------------------

    def complete(self, call: PhaseCall, payload: bytes | None, attached: Attachments) -> None:
        """End the run in the commit that records its last phase, and all that this writes."""
        failpoint("finish.before")
        move = Move(RunState.SUCCEEDED, result=payload)
        self._execution.stop(move)
        self._journal.complete(call, payload, move, attached, self._completed)

    def _completed(self, fate: Fate) -> None:
        if self._execution.is_gone:
            return
        if fate is Fate.BUSY:
            self.break_off(InvariantBroken("the state of a handler was changed by another run"))
        else:
            self._ended()

    def _pauses_handler(self) -> bool:
        """Pause the run of a handler whose `mutate` needs an operator; return whether it does."""
        execution = self._execution
        pause = pause_of(execution.claimed, execution.body)
        if pause is not None:
            self.park(pause._replace(seen=execution.seen))
        return pause is not None

    def _end_handler(self, move: Move) -> None:
        """End the run of a handler that did not succeed, with what follows from that."""
        if CANCEL_IDENTITY in self._journal.recording:
            self._journal.when_written(partial(self._end_handler, move))
            return
        execution, host = self._execution, self._host
        end, retry_in = failed_end(
            move, execution.body, execution.program.transient, host.randomness()
        )
        if retry_in is not None:
            # A cancel that comes too late for the code, or from here on, keeps it from a retry.
            stop = self._stop_of_handler()
            end = end._replace(seen=execution.seen) if stop is None else stop.move
            retry_in = retry_in if stop is None else None
        execution.stop(end)
        execution.scope.blocks_handler = end.state == RunState.FAILED and retry_in is None
        ended = host.engine_calls.end_handler(
            execution.claimed, classified(end), execution.program.code, retry_in
        )
        on_done(execution, ended, self._followed)

    def _stop_of_handler(self) -> Stop | None:
        """Return the request that the run stops, whether or not its body has received it."""
        received = self._execution.body.cancelled
        return self._stop_of_misfit() if received is None else recalled(received)

    # --- another follows it ----------------------------------------------------------------------

    def _continue(self, request: ContinueAsNew) -> None:
        """End the run, and continue as a new one with different arguments."""
        try:
            check_alone(self._execution.body)
            arguments = self._execution.program.bind(*request.arguments)
        except BaseException as refused:  # noqa: BLE001 - arguments that cannot be encoded are a failure
            raise_interrupt(refused)
            self._end_for_good(self._failed(Reason.LOGIC, refused))
            return
        failpoint("finish.before")
        # A message that arrives from here on must be read before the run ends.
        progress = self._host.pending_progress(self._execution.claimed.uid)
        move = CONTINUED._replace(seen=self._execution.seen, progress=progress)
        self._execution.stop(move)
        # A commit under way may be of a signal, which the new run takes over if this body has not.
        self._journal.when_written(partial(self._go_on, arguments, move))

    def _go_on(self, arguments: Arguments, move: Move) -> None:
        attributes = self._execution.notes.seen.attributes
        given = Continuation(
            pack(arguments.payload()),
            arguments.fingerprint(),
            pack(encode(attributes)) if attributes else None,
            self._execution.undelivered_signals,
        )
        continued = self._host.engine_calls.continue_run(self._execution.claimed, move, given)
        on_done(self._execution, continued, self._followed)

    def _followed(self, done: asyncio.Future[bool] | asyncio.Future[bool | None]) -> None:
        error = None if done.cancelled() else done.exception()
        if self._execution.is_gone:
            return
        if isinstance(error, Overtaken):
            self._execution.look_again()
        elif isinstance(error, Exception) and not isinstance(error, STORE_ERRORS):
            self.break_off(error)
        elif done.cancelled() or error is not None or not done.result():
            self._execution.drop()
        else:
            self._ended()

    def end_failed(self, error: BaseException) -> None:
        """End a run whose body could not continue after an error."""
        self.end(failure(self._execution.body, error))

    # --- something is broken ---------------------------------------------------------------------

    def break_off(self, error: BaseException) -> None:
        """End the run for an internal error: it must neither hang nor be retried endlessly."""
        if self._is_breaking:
            self._execution.drop()  # not even the failure can be written
            return
        if self._break is None:
            self._break = self._failed(Reason.INTERNAL, error)
        # Commits under way may be refused as well: then the children that they start do not exist.
        self._journal.when_written(partial(self._write_break, self._break))

    def _write_break(self, move: Move) -> None:
        if not (self._is_breaking or self._execution.is_gone):
            self._is_breaking = True
            self._end_for_good(move)

    def _failed(self, reason: Reason, error: BaseException) -> Move:
        """Do no more for the body, and return the move of its run."""
        failpoint("finish.before")
        move = Move(RunState.FAILED, reason, error=pack(encode_error(error)))
        self._execution.stop(move)
        return move
