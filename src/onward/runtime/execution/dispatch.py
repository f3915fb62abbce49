"""What is done for a call of a body: when it is made, and when what it waits for is ready."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from onward.codec import encode_error
from onward.core.replay import RecordState
from onward.engine.payloads import pack
from onward.errors import BadInput
from onward.model.commits import Attachments
from onward.model.pipelines import PipelineWrite
from onward.runtime.body.calls import StepCall, TimerCall
from onward.runtime.body.children import ChildCall, PatchCall, StartCall
from onward.runtime.body.clock import ClockCall
from onward.runtime.body.effects import EffectCall
from onward.runtime.pipelines.publishing import PublishCall

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from onward.core.instant import Instant
    from onward.core.replay import Replay
    from onward.model.messages import InboxRow
    from onward.model.records import RecordRow
    from onward.runtime.body.body import Body
    from onward.runtime.body.calls import Call
    from onward.runtime.body.waits import Waits
    from onward.runtime.execution.children import Children
    from onward.runtime.execution.host import Host
    from onward.runtime.execution.journal import Journal
    from onward.runtime.execution.ledger import Ledger
    from onward.runtime.execution.loaded_history import LoadedHistory
    from onward.runtime.execution.steps import Steps


_MARKS = (PatchCall, ClockCall)


class DispatchRun(Protocol):
    """The run whose calls are dispatched."""

    body: Body
    replay: Replay
    steps: Steps
    waits: Waits
    uid: str

    @property
    def ledger(self) -> Ledger: ...

    @property
    def fence(self) -> int: ...

    @property
    def children(self) -> Children: ...

    def is_wanted(self, call: Call) -> bool: ...

    def later(self, write: Callable[[], None]) -> None: ...

    def pump(self) -> None: ...


class Dispatch:
    """Carries out the calls of one body (a `CallSink`)."""

    def __init__(
        self, execution: DispatchRun, journal: Journal, host: Host, loaded: LoadedHistory
    ) -> None:
        self.names = host.names
        self._execution = execution
        self._journal = journal
        self._host = host
        self._history = loaded

    def now(self) -> Instant:
        return self._host.now()

    def latest(self) -> Instant:
        return self._host.latest()

    def report_progress(self, value: bytes) -> None:
        self._host.progress(self._execution, value)

    def read_history(self, run: str) -> asyncio.Future[Sequence[RecordRow]]:
        return self._host.engine_calls.history(run)

    def do(self, call: Call) -> None:
        """Run a step, start a run, send an effect, or wait."""
        execution = self._execution
        if isinstance(call, _MARKS):
            execution.later(partial(self._mark, call))
        elif call.is_abandoned():
            execution.body.abandon(call)
        elif call.identity in self._journal.recording:
            # It has a key, and was abandoned and made again before its record was written.
            self._journal.when_recorded(call.identity, partial(self._take_up, call))
        elif self._history.memos and (memo := self._history.memo_of(call)) is not None:
            execution.later(partial(self._recall, call, memo))
        elif isinstance(call, StepCall) and call.due is None:
            execution.steps.perform(call)
        elif isinstance(call, EffectCall):
            execution.later(partial(execution.ledger.take, call))
        elif isinstance(call, ChildCall | StartCall):
            execution.children.take(call)
        elif isinstance(call, PublishCall):
            execution.later(partial(self._publish, call))
        else:
            execution.waits.add(call)

    def abandoned(self, call: Call) -> None:
        """Take note that the body has stopped waiting for a call."""
        self._execution.waits.discard(call)
        if isinstance(call, StepCall) and call.running is not None:
            call.running.stop()
        elif isinstance(call, ChildCall):
            self._execution.children.abandon(call)

    def on_ready(self, call: Call, message: InboxRow | None) -> None:
        """Continue a call whose message has arrived, or whose time has come."""
        execution, close = self._execution, self._journal.close
        if isinstance(call, StepCall):
            execution.steps.perform(call)
        elif isinstance(call, EffectCall):
            execution.ledger.resume(call)
        elif isinstance(call, ChildCall | StartCall):
            execution.children.resume(call, message)
        elif message is not None:
            execution.body.undelivered[call.identity] = message.seq
            state, payload = RecordState.SUCCEEDED, message.payload
            close(call, state, execution.pump, payload=payload, message=message.seq)
        elif isinstance(call, TimerCall):
            close(call, RecordState.SUCCEEDED, execution.pump)
        else:
            close(call, RecordState.TIMED_OUT, execution.pump)

    def _take_up(self, call: Call) -> None:
        """Continue a call from the record of an earlier call with its key."""
        record = self._execution.replay.record_of(call.identity)
        if record is not None and record.seq is None and self._execution.is_wanted(call):
            call.take_up(record)
            self.do(call)
            self._execution.pump()

    def _mark(self, call: PatchCall | ClockCall) -> None:
        if isinstance(call, ClockCall):
            self._journal.keep_time(call, self._execution.pump)
        else:
            self._journal.close(call, RecordState.SUCCEEDED, self._execution.pump)

    def _publish(self, call: PublishCall) -> None:
        """Write the event together with its record."""
        unknown = BadInput(
            f"topic {call.name!r}",
            "is not known to the store",
            "Start a worker that serves the pipeline of this topic, or call app.pipelines.declare",
        )
        if self._execution.is_wanted(call):
            self._journal.close(
                call,
                RecordState.SUCCEEDED,
                self._execution.pump,
                attached=Attachments(pipeline=PipelineWrite(published=(call.event,))),
                if_refused=pack(encode_error(unknown)),
            )

    def _recall(self, call: Call, memo: RecordRow) -> None:
        """Record the outcome that the call had in the run that this one retries."""
        execution = self._execution
        if execution.is_wanted(call):
            notes = execution.steps.notes_of(call, self._history.noted_by(call))
            state, pump = RecordState.SUCCEEDED, execution.pump
            self._journal.close(call, state, pump, payload=memo.payload, notes=notes)
