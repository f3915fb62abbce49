"""Whose error it is that ended a body, and what need not be done again if the run is retried."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.chain import Outcome, culprit_of
from onward.core.replay import RecordKind, RecordState
from onward.runtime.body.calls import Awaited, TimerCall
from onward.runtime.body.children import ChildCall
from onward.runtime.body.chunks import failed_items

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from onward.core.replay import Record
    from onward.runtime.body.calls import Call

# Effects have their ledger, and signals their inbox: a retry finds them there.
_KEPT = frozenset({RecordKind.STEP, RecordKind.CHILD, RecordKind.START})
# But what came of an error is told from what was beside it (ADR 0021).
_TOLD_APART = _KEPT | {RecordKind.EFFECT}


class Blame:
    """How the calls of a body ended, as far as that counts when the body fails."""

    def __init__(self) -> None:
        self._outcomes: dict[str, Outcome] = {}
        self._parts: dict[str, int] = {}
        """Parts of maps in which items have failed, and when they were asked for."""
        self._abandoned: list[Call] = []
        # By id, as errors need not be hashable; the error is kept, so that no other has its id.
        self._errors: dict[int, tuple[BaseException, Outcome]] = {}

    def note(self, call: Call, record: Record) -> None:
        """Take note of how a call ended that the body was just handed."""
        seq = record.seq or 0
        is_alone = seq - call.asked <= 1  # nothing else was handed over meanwhile, as nearly always
        succeeded = record.state is RecordState.SUCCEEDED
        if succeeded and is_alone and not isinstance(call, ChildCall):
            return
        errors = list(_errors_of(call))
        is_good = succeeded and not errors
        if is_good and (is_alone or not _is_told_apart(call)):
            return
        # One that is read out of its turn may have been asked for later than it was handed over.
        outcome = Outcome(record.identity, min(call.asked, seq - 1), seq, is_good)
        self._outcomes[record.identity] = outcome
        if succeeded and errors:
            self._parts[record.identity] = outcome.asked  # its other items need not be done again
        self._errors.update((id(error), (error, outcome)) for error in errors)

    def note_again(self, call: Call) -> None:
        """Take note that a call was handed what another of the same key was handed before."""
        outcome = self._outcomes.get(call.identity)
        if outcome is not None:
            self._errors.update((id(error), (error, outcome)) for error in _errors_of(call))

    def note_abandoned(self, call: Call) -> None:
        """Take note of a call that the body no longer waits for: it may yet be finished."""
        if _is_told_apart(call):
            self._abandoned.append(call)

    def forget(self) -> None:
        """Keep none: errors know the frames that they went through, and those their body."""
        self._errors.clear()
        self._abandoned.clear()

    def culprit(self, error: BaseException | None, under_way: Iterable[Call]) -> str | None:
        """Return the call whose error this is, or came from, and what was finished beside it.

        What is under way when the body ends may be finished before the run is.
        """
        blamed = sorted(self._blamed(error, set()), key=lambda outcome: outcome.seq)
        calls = (call for call in (*under_way, *self._abandoned) if _is_told_apart(call))
        unheard = {**self._parts, **{call.identity: call.asked for call in calls}}
        first = blamed[0] if blamed else None
        culprit = culprit_of(list(self._outcomes.values()), first, unheard=unheard)
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


def _is_told_apart(call: Call) -> bool:
    """Say whether it counts if a call was beside an error, or came of it."""
    return call.is_sleep if isinstance(call, TimerCall) else call.kind in _TOLD_APART


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
