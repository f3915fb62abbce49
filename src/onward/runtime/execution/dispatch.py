"""What a call of a body needs: first when it is asked for, then when what it waits for has come."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from onward.core.replay import RecordState
from onward.runtime.body.calls import StepCall, TimerCall
from onward.runtime.body.children import ChildCall, PatchCall, StartCall
from onward.runtime.body.clock import ClockCall
from onward.runtime.body.effects import EffectCall

if TYPE_CHECKING:
    from onward.model.messages import InboxRow
    from onward.model.records import RecordRow
    from onward.runtime.body.calls import Call
    from onward.runtime.execution.execution import Execution
    from onward.runtime.execution.loaded_history import LoadedHistory


def do(execution: Execution, call: Call, past: LoadedHistory) -> None:
    """Do what a call asks for: run a step, start a run, or wait."""
    if isinstance(call, PatchCall | ClockCall):
        execution.later(partial(_mark, execution, call))
    elif call.is_abandoned():
        execution.body.abandon(call)
    elif execution.journal.is_recording(call.identity):
        # It has a key, and was given up and asked for again before its record was written.
        then = partial(_take_up, execution, call, past)
        execution.journal.when_recorded(call.identity, then)
    elif past.memos and (memo := past.memo_of(call)) is not None:
        execution.later(partial(_recall, execution, call, memo, past))
    elif isinstance(call, StepCall) and call.due is None:
        execution.steps.perform(call)
    elif isinstance(call, EffectCall):
        execution.later(partial(execution.ledger.take, call))
    elif isinstance(call, StartCall):
        execution.later(partial(execution.kin.start, call))
    elif isinstance(call, ChildCall) and not (call.is_begun and call.is_told):
        execution.later(partial(execution.kin.start_child, call))
    else:
        if isinstance(call, ChildCall):
            execution.kin.keep(call)
        execution.waits.add(call)


def _take_up(execution: Execution, call: Call, past: LoadedHistory) -> None:
    """Go on with a call from the record that another one of its key has left."""
    record = execution.replay.record_of(call.identity)
    if record is not None and record.seq is None and execution.is_wanted(call):
        call.take_up(record)
        do(execution, call, past)
        execution.pump()


def _mark(execution: Execution, call: PatchCall | ClockCall) -> None:
    if isinstance(call, ClockCall):
        execution.journal.keep_time(call, execution.pump)
    else:
        execution.journal.close(call, RecordState.SUCCEEDED, execution.pump)


def _recall(execution: Execution, call: Call, memo: RecordRow, past: LoadedHistory) -> None:
    """Hand over what came of a call in the run that this one is a retry of."""
    if execution.is_wanted(call):
        notes = execution.steps.notes_of(call, past.noted_by(call))
        state, pump = RecordState.SUCCEEDED, execution.pump
        execution.journal.close(call, state, pump, payload=memo.payload, notes=notes)


def come(execution: Execution, call: Call, letter: InboxRow | None) -> None:
    """Go on with a call whose message or time has come."""
    close, pump = execution.journal.close, execution.pump
    if isinstance(call, StepCall):
        execution.steps.perform(call)
    elif isinstance(call, EffectCall):
        execution.ledger.wake(call)
    elif isinstance(call, ChildCall) and letter is not None:
        execution.kin.hear(call, letter)
    elif isinstance(call, ChildCall | StartCall):
        execution.kin.look_again(call)
    elif letter is not None:
        execution.body.unheard[call.identity] = letter.seq
        close(call, RecordState.SUCCEEDED, pump, payload=letter.payload, message=letter.seq)
    elif isinstance(call, TimerCall):
        close(call, RecordState.SUCCEEDED, pump)
    else:
        close(call, RecordState.TIMED_OUT, pump)
