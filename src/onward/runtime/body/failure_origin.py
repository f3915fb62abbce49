"""The origin of a body's failure: what its calls came to, kept for when the run is retried."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from onward.core.failure_origin import CallOutcome, failed_call_of, stopped_call_of
from onward.core.replay import RecordKind, RecordState
from onward.errors import NotApplied
from onward.runtime.body.calls import Awaited, TimerCall
from onward.runtime.body.children import ChildCall, StartCall
from onward.runtime.body.chunk_data import failed_items
from onward.runtime.body.effects import EffectCall

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onward.core.replay import Record
    from onward.runtime.body.calls import Call

# Looked up once: see `core.replay.machine`.
_SUCCEEDED, _CANCELLED = RecordState.SUCCEEDED, RecordState.CANCELLED
_ALWAYS_NOTED = (ChildCall, TimerCall)
# A signal is in the inbox, which a retry reads again.
_KEPT = frozenset({RecordKind.STEP, RecordKind.CHILD, RecordKind.START, RecordKind.EFFECT})


class FailureOrigins:
    """How the calls of a body ended, as far as that matters when the body fails."""

    def __init__(self) -> None:
        self._outcomes: dict[str, CallOutcome] = {}
        self._first_failed = math.inf
        self._abandoned: list[Call] = []
        self._stopped: tuple[int, list[CallOutcome]] | None = None
        self._limit: CallOutcome | None = None
        """The last limit that was reached, such as that of `asyncio.timeout`."""
        # By id, as errors need not be hashable; the error is kept, so that no other has its id.
        self._errors: dict[int, tuple[BaseException, CallOutcome]] = {}

    def note(self, call: Call, record: Record) -> None:
        """Take note of how a call ended that the body was just handed."""
        seq, state = record.seq or 0, record.state
        if state is _CANCELLED and isinstance(call, EffectCall):
            return  # the run was cancelled: that is no failure of the call
        is_alone = seq - call.asked <= 1  # nothing else was handed over meanwhile, as nearly always
        succeeded = state is _SUCCEEDED
        is_early = call.asked < self._first_failed
        if succeeded and is_alone and is_early and not isinstance(call, _ALWAYS_NOTED):
            return
        errors = list(_errors_of(call))
        is_good = succeeded and not errors
        # One that is read out of its turn may have been requested later than it was handed over.
        outcome = CallOutcome(
            record.identity,
            min(call.asked, seq - 1),
            seq,
            is_good,
            succeeded,
            call.branch,
            call.kind,
            _reaches_out(call, errors),
        )
        if isinstance(call, TimerCall) and not call.is_sleep:
            self._limit = outcome
            return
        if is_good and is_early and (is_alone or not _is_kept(call)):
            return
        self._outcomes[record.identity] = outcome
        if not is_good:
            self._first_failed = min(self._first_failed, seq)
            self._errors.update((id(error), (error, outcome)) for error in errors)

    def note_again(self, call: Call) -> None:
        """Take note that a call was handed what another of the same key was handed before."""
        outcome = self._outcomes.get(call.identity)
        if outcome is not None:
            self._errors.update((id(error), (error, outcome)) for error in _errors_of(call))

    def note_abandoned(self, call: Call) -> None:
        """Take note of a call that the body no longer waits for: it may yet be finished."""
        if _is_kept(call):
            self._abandoned.append(call)

    def note_stopped(self, under_way: Iterable[Call], seq: int) -> None:
        """Take note of what is under way as the body hears that it must stop."""
        self._stopped = seq, [_unheard(call) for call in under_way]

    def forget(self) -> None:
        """Keep none: errors know the frames that they went through, and those their body."""
        self._errors.clear()
        self._abandoned.clear()

    def failed_call(self, error: BaseException | None, under_way: Iterable[Call]) -> str | None:
        """Return where a retry of a run begins that ended with this error.

        What is under way when the body ends may be finished before the run is.
        """
        failed_call = failed_call_of(self._known(under_way), self._origins_of(error, set()))
        return None if failed_call is None else failed_call.kept()

    def stopped_call(self, under_way: Iterable[Call]) -> str | None:
        """Return where the retry of a cancelled run begins, if not at the cancel."""
        if self._stopped is None:
            return None
        seq, cut_off = self._stopped
        failed_call = stopped_call_of(self._known(under_way), cut_off, seq)
        return None if failed_call is None else failed_call.kept()

    def _known(self, under_way: Iterable[Call]) -> list[CallOutcome]:
        calls = (call for call in (*under_way, *self._abandoned) if _is_kept(call))
        unheard = {call.identity: _unheard(call) for call in calls}
        return list({**unheard, **self._outcomes}.values())

    def _origins_of(self, error: BaseException | None, seen: set[int]) -> list[CallOutcome]:
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if id(error) in self._errors:
                return [self._errors[id(error)][1]]
            if self._limit is not None and type(error) is TimeoutError:
                return [self._limit]  # set anew in a retry, or it would be over at once
            if isinstance(error, BaseExceptionGroup):
                found = [self._origins_of(each, seen) for each in error.exceptions]
                if any(found):
                    return [outcome for some in found for outcome in some]
            error = error.__cause__ or error.__context__
        return []


def _is_kept(call: Call) -> bool:
    """Say whether a retry keeps the result of a call that was made beside a failed one.

    A limit is set anew. Of effects the ledger knows; here they separate what followed a
    failure from what was beside it (ADR 0021).
    """
    return call.is_sleep if isinstance(call, TimerCall) else call.kind in _KEPT


def _unheard(call: Call) -> CallOutcome:
    """Return what is known of a call whose outcome the body was not handed."""
    return CallOutcome(
        call.identity,
        call.asked,
        None,
        branch=call.branch,
        kind=call.kind,
        reaches_out=_reaches_out(call, ()),
    )


def _reaches_out(call: Call, errors: Iterable[BaseException]) -> bool:
    """Say whether a call has, or may have, changed something outside its run."""
    if isinstance(call, EffectCall):
        return not any(isinstance(error, NotApplied) for error in errors)
    return isinstance(call, StartCall) or (isinstance(call, ChildCall) and call.reaches_out)


def _errors_of(call: Call) -> Iterator[BaseException]:
    """Yield what a call has raised: each who waits for it is handed an error of its own."""
    if not isinstance(call, Awaited):
        return
    for future in (call.future, *call.followers):
        if not future.done() or future.cancelled():
            continue
        error = future.exception()
        if error is not None:
            yield error
        elif isinstance(call, ChildCall):
            yield from failed_items(future.result())
