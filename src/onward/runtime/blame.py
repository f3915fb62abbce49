"""Whose error it is that ended a body, and what need not be done again if the run is retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.chain import Outcome, culprit_of
from onward.core.replay import RecordKind, RecordState
from onward.runtime.calls import Awaited, TimerCall
from onward.runtime.children import tied_child

if TYPE_CHECKING:
    from onward.core.replay import Record
    from onward.runtime.calls import Call

# Effects have their ledger, and signals their inbox: a retry finds them there.
_KEPT = frozenset({RecordKind.STEP, RecordKind.CHILD, RecordKind.START})


class Blame:
    """How the calls of a body ended, as far as that counts when the body fails."""

    def __init__(self) -> None:
        self._outcomes: list[Outcome] = []
        # By id, as errors need not be hashable; the error is kept, so that no other has its id.
        self._errors: dict[int, tuple[BaseException, Outcome]] = {}

    def note(self, call: Call, record: Record) -> None:
        """Take note of how a call ended that the body was just handed."""
        is_good = record.state is RecordState.SUCCEEDED
        seq = record.seq or 0
        if is_good and (seq - call.asked <= 1 or not _is_kept(call, record)):
            return  # nothing else was handed over meanwhile, as in nearly all cases
        outcome = Outcome(record.identity, call.asked, seq, is_good)
        self._outcomes.append(outcome)
        error = None if is_good else _error_of(call)
        if error is not None:
            self._errors[id(error)] = error, outcome

    def forget(self) -> None:
        """Keep none: errors know the frames that they went through, and those their body."""
        self._errors.clear()

    def culprit(self, error: BaseException | None) -> str | None:
        """Return the call whose error this is, or came from, and what was finished beside it."""
        blamed = sorted(self._blamed(error, set()), key=lambda outcome: outcome.seq)
        culprit = culprit_of(self._outcomes, blamed[0] if blamed else None)
        return None if culprit is None else culprit.kept()

    def _blamed(self, error: BaseException | None, seen: set[int]) -> list[Outcome]:
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if id(error) in self._errors:
                return [self._errors[id(error)][1]]
            if isinstance(error, BaseExceptionGroup):
                found = [self._blamed(each, seen) for each in error.exceptions]
                if any(found):
                    return [outcome for some in found for outcome in some]
            error = error.__cause__ or error.__context__
        return []


def _is_kept(call: Call, record: Record) -> bool:
    """Say whether what a call came to can be handed to a retry."""
    if isinstance(call, TimerCall):
        return call.is_sleep
    if record.kind is RecordKind.START:  # one that ends with the run has ended
        return tied_child(record.payload.payload) is None
    return record.kind in _KEPT


def _error_of(call: Call) -> BaseException | None:
    if not isinstance(call, Awaited) or not call.future.done() or call.future.cancelled():
        return None
    return call.future.exception()
