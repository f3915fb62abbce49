"""A replay of a history that executes and writes nothing: does the code still fit?

The body runs on what history has. A call that history does not have, or has without an outcome, is
never answered, so the replay ends there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from onward.core.replay import Diverged, Policy, RecordKind, Replay
from onward.engine.payloads import unpack
from onward.errors import OnwardError, Undecodable
from onward.runtime.body.body import Body
from onward.runtime.body.children import ChildCall, StartCall
from onward.runtime.body.divergence import Place, is_inner, place_of
from onward.runtime.body.effects import EffectCall
from onward.runtime.body.notes import Notes
from onward.runtime.body.runloop import Exited
from onward.runtime.execution.leaving import asks_to_continue
from onward.runtime.execution.loaded_history import read_history
from onward.runtime.execution.reporting import scope_of
from onward.runtime.reading import reading
from onward.telemetry.interrupts import raise_interrupt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.instant import Instant
    from onward.core.replay import Ask, Record
    from onward.model.records import RecordRow
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.calls import Call
    from onward.runtime.definition import Program
    from onward.runtime.registry import Registry


@dataclass(frozen=True, slots=True)
class ReplayMisfit:
    """Why a run cannot continue with the code.

    Attributes:
        kind: In what they differ (kind, name, arguments, order, unread), `undecodable` for a stored
            value that does not fit the annotations, `unreadable` for a damaged row, or `error` if
            the code ends with an error before it has read its history.
        text: The reason as text.
        recorded: The call in history, if it is about one.
        asked: The call that the code makes instead, if it makes one.
        asked_args: The arguments of that call as they would be stored.
        place: The line of the user's code.
    """

    kind: str
    text: str
    recorded: Record | None = None
    asked: Ask | None = None
    asked_args: bytes | None = None
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """How the code fits the history of a run.

    Attributes:
        misfit: Why the run cannot continue; None if it can.
        unread: Recorded calls that the code has not made again; it continues without them.
        has_ended: Whether the body has ended, so that it will not make them later either.
    """

    misfit: ReplayMisfit | None
    unread: tuple[str, ...] = ()
    has_ended: bool = False


class NoCalls:
    """A `CallSink` that does nothing."""

    def __init__(self, names: Registry, now: Instant) -> None:
        self.names = names
        self._now = now

    def now(self) -> Instant:
        return self._now

    latest = now

    def do(self, call: Call) -> None:
        """Leave the call without an answer."""

    def abandoned(self, call: Call) -> None:
        """Do nothing."""

    def report_progress(self, value: bytes) -> None:
        """Do nothing."""

    async def read_history(self, run: str) -> Sequence[RecordRow]:  # noqa: ARG002
        """Return nothing: no step is performed that could ask."""
        return ()


def rehearse(
    run: ClaimedRun,
    program: Program,
    history: Sequence[RecordRow],
    names: Registry,
    now: Instant,
) -> Rehearsal:
    """Replay a history; it must be called on a running event loop.

    Args:
        run: The run, as its next claim would return it.
        program: What it executes.
        history: Its records.
        names: Whose the names of what it calls are.
        now: The database's time.
    """
    try:
        loaded = read_history(history)
        replay = Replay(loaded.records, policy=Policy.STRICT if program.strict else Policy.ADDITIVE)
        with reading(f"the attributes of run {run.id}"):
            notes = Notes(loaded.notes, run.attributes, lambda *_: None)
        sink, scope = NoCalls(names, now), scope_of(run, "")
        body = Body(run, replay, notes, sink, scope, program.retry)
        with reading(f"the arguments of run {run.id}"):
            args, kwargs = program.shape.decode(unpack(run.input))
    except Undecodable as misfit:
        return Rehearsal(ReplayMisfit("undecodable", str(misfit), place=place_of(program.fn)))
    except OnwardError as damaged:
        return Rehearsal(ReplayMisfit("unreadable", str(damaged)))
    scope.silent = True
    body.start(program.fn(*args, **kwargs))
    try:
        return _replayed(body, replay, program)
    finally:
        body.evict()
        body.part()


def _replayed(body: Body, replay: Replay, program: Program) -> Rehearsal:
    try:
        body.advance()
        if body.diverged is None and not body.main.done():
            body.check_wait()
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        raise_interrupt(error)
        raised = error.error if isinstance(error, Exited) else error
        return Rehearsal(_error(raised, program))
    if body.diverged is not None:
        return Rehearsal(_misfit(body, body.diverged))
    if not body.main.done():
        return Rehearsal(None, _named(body.out_of_turn()))
    return _ended(body, replay, program)


def _ended(body: Body, replay: Replay, program: Program) -> Rehearsal:
    """Return how a body has ended that needs nothing beyond its history."""
    ended, main = replay.end(), body.main
    left = [ended.recorded] if isinstance(ended, Diverged) else [*body.out_of_turn(), *ended.unread]
    error = None if main.cancelled() else main.exception()
    if error is not None and left and asks_to_continue(main) is None:
        return Rehearsal(_error(error, program), _named(left))
    if isinstance(ended, Diverged):
        body.place = place_of(program.fn)
        return Rehearsal(_misfit(body, ended))
    return Rehearsal(None, _named(left), has_ended=True)


def _misfit(body: Body, found: Diverged | Undecodable) -> ReplayMisfit:
    if not isinstance(found, Diverged):
        return ReplayMisfit("undecodable", str(found), place=body.place)
    call = body.diverged_call or _held(body, found.asked)
    args = None if call is None else _arguments(call, body.run)
    return ReplayMisfit(
        found.difference.value, str(found), found.recorded, found.asked, args, body.place
    )


def _held(body: Body, asked: Ask | None) -> Call | None:
    """Return a call of the body that replay has held back."""
    if asked is None:
        return None
    same = (call for call in body.calls.values() if call.name == asked.name)
    return next((call for call in same if call.args_hash == asked.args_hash), None)


def _arguments(call: Call, run: ClaimedRun) -> bytes | None:
    if isinstance(call, EffectCall):
        return call.args
    if isinstance(call, ChildCall | StartCall):
        start = call.start_row(run)
        return None if start is None else start.input
    return call.shown_args


def _error(error: BaseException, program: Program) -> ReplayMisfit:
    """Return that the code ends with an error, and the line that raised it."""
    place = place_of(program.fn)
    trace = error.__traceback__
    while trace is not None:
        if not is_inner(trace.tb_frame.f_globals):
            place = Place(trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    text = f"the code raises {type(error).__name__} before the history is fully replayed: {error}"
    return ReplayMisfit("error", text, place=place)


def _named(records: Sequence[Record]) -> tuple[str, ...]:
    calls = (record.identity for record in records if record.kind is not RecordKind.PATCH)
    return tuple(dict.fromkeys(calls))
