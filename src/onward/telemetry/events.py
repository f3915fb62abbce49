"""Every log record that Onward writes about itself, by name, and the function that writes one.

A record is the name of its event and facts: `run.failed: run=order-7 workflow=buy ...`. The facts
are also attributes of the record: always the seven of `scope.NOWHERE`, then those of the event.
They are ids, names, numbers and errors. Arguments, results and other payloads are never logged;
an error is logged with its type, its message, which its author wrote, and in most events its
traceback.
"""

from __future__ import annotations

import json
import logging
import re
import traceback
from typing import TYPE_CHECKING, Final, NamedTuple

from onward.errors import Unavailable, UserError
from onward.telemetry.error_text import clip, describe, type_name
from onward.telemetry.interrupts import raise_interrupt
from onward.telemetry.scope import NOWHERE
from onward.telemetry.tracebacks import traceback_text

if TYPE_CHECKING:
    from onward.telemetry.scope import Scope

MAX_ERROR_CHARS: Final = 2000

_WITHOUT_TRACEBACK: Final = frozenset({"effect.uncertain"})
"""Events that need no human: a lost reply is normal, so its traceback is shown only at DEBUG."""

_EXPECTED: Final = (UserError, Unavailable)
"""Errors after which a worker ends and whose message says it all, such as a missing key."""

_PLAIN: Final = re.compile(r'[^\s"=]+')

_RUN = "run workflow"
_STEP = "run kind step attempt"


class LogEvent(NamedTuple):
    """Where a record goes, how much it matters, and what it says."""

    logger: logging.Logger
    level: int
    text: str


def _event(name: str, logger: str, level: int, keys: str, hint: str = "") -> tuple[str, LogEvent]:
    facts = " ".join(f"{key}=%({key})s" for key in keys.split())
    advice = f' hint="{hint}"' if hint else ""
    return name, LogEvent(logging.getLogger(f"onward.{logger}"), level, f"{name}: {facts}{advice}")


_DEBUG, _INFO, _WARNING, _ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR

EVENTS: dict[str, LogEvent] = dict(
    [
        _event("run.started", "run", _DEBUG, _RUN),
        _event("run.claimed", "run", _DEBUG, f"{_RUN} worker"),
        _event("run.waiting", "run", _DEBUG, _RUN),
        _event(
            "run.ready",
            "run",
            _INFO,
            f"{_RUN} worker",
            "the worker released this run, probably because the worker is stopping; another"
            " worker can continue it",
        ),
        _event(
            "run.lost",
            "run",
            _WARNING,
            f"{_RUN} worker",
            "this worker no longer owns the run: another worker has it, or it was forcibly ended",
        ),
        _event("run.paused", "run", _WARNING, f"{_RUN} reason error"),
        _event("run.stuck", "run", _WARNING, f"{_RUN} state waited_seconds why next"),
        _event(
            "run.unread",
            "run",
            _WARNING,
            f"{_RUN} unread_count unread",
            "the current code makes these recorded calls in a different order, or not at all; if "
            "you renamed a step, keep its old name with name=",
        ),
        _event(
            "run.unread_signals",
            "run",
            _WARNING,
            f"{_RUN} unread_count signals",
            "the run ended before any wait received these signals; check their names",
        ),
        _event(
            "run.long",
            "run",
            _WARNING,
            f"{_RUN} records",
            "a run fails if its history gets too long; use map for many items, or continue_as_new",
        ),
        _event(
            "run.unretried",
            "run",
            _WARNING,
            f"{_RUN} reason effects",
            "the run was not retried: with reason=undone, the run sent these effects because of its"
            " error, and they may have undone work that a retry would keep; with reason=forked, a"
            " fork sent them, and a retry would send them again; to retry anyway: onward runs retry"
            " --force",
        ),
        _event(
            "run.end_failed",
            "run",
            _ERROR,
            f"{_RUN} worker error",
            "the rows of this run are damaged, so it could not be started or ended; to find"
            " damaged rows, run: onward doctor",
        ),
        _event(
            "run.unawaited",
            "run",
            _WARNING,
            f"{_RUN} calls where",
            "a step that is not awaited does not run, and a task that outlives its run is"
            " cancelled; await these calls",
        ),
        _event(
            "run.blocking",
            "run",
            _WARNING,
            f"{_RUN} blocked_seconds where",
            "move blocking code into a step",
        ),
        _event("run.succeeded", "run", _INFO, _RUN),
        _event("run.failed", "run", _ERROR, f"{_RUN} reason error"),
        _event("run.cancelled", "run", _INFO, f"{_RUN} reason"),
        _event("run.timed_out", "run", _WARNING, f"{_RUN} reason"),
        _event("step.succeeded", "step", _DEBUG, _STEP),
        _event("step.retried", "step", _WARNING, f"{_STEP} retry_seconds error"),
        _event("step.failed", "step", _WARNING, f"{_STEP} error"),
        _event("step.cancelled", "step", _DEBUG, _STEP),
        _event(
            "step.blocking",
            "step",
            _WARNING,
            f"{_STEP} blocked_seconds where",
            "use an async library, or put the blocking call in a sync step, which runs in a thread",
        ),
        _event(
            "step.abandoned",
            "step",
            _WARNING,
            f"{_STEP} overrun_seconds",
            "this code was cancelled but is still running; its result is ignored; let "
            "CancelledError propagate",
        ),
        _event(
            "step.thread_abandoned",
            "step",
            _WARNING,
            f"{_STEP} overrun_seconds abandoned_threads",
            "this code was cancelled but is still running, because a thread cannot be stopped; its "
            "result is ignored; a new thread takes the place of this one, unless the worker has "
            "already replaced as many threads as it started with; give this code its own timeout",
        ),
        _event(
            "step.waits_for_thread",
            "step",
            _WARNING,
            f"{_STEP} waited_seconds worker held_by",
            "all threads of the worker are in use; start the worker with more threads: "
            "worker(threads=...)",
        ),
        _event(
            "effect.waits",
            "effect",
            _WARNING,
            "run effect key reason",
            "to see the possible verdicts, run: onward effects show %(key)s",
        ),
        _event("effect.uncertain", "effect", _WARNING, f"{_STEP} error"),
        _event(
            "effect.unanswered",
            "effect",
            _WARNING,
            "run effect key error",
            "the reconciler failed, which counts as Unknown",
        ),
        _event("schedule.started", "schedule", _DEBUG, "schedule run late_seconds"),
        _event("schedule.skipped", "schedule", _INFO, "schedule disposition slots late_seconds"),
        _event(
            "schedule.rewound",
            "schedule",
            _WARNING,
            "schedule ahead_seconds",
            "the database's clock was set back; the schedule continues from the corrected time",
        ),
        _event(
            "schedule.parked",
            "schedule",
            _ERROR,
            "schedule error",
            "the schedule starts no runs until you correct it (onward schedules update), or fix the"
            " worker's machine and resume the schedule (onward schedules resume)",
        ),
        _event(
            "pipeline.unread",
            "pipeline",
            _WARNING,
            "pipeline topic",
            "events are published to this topic, but no consumer in this process subscribes to it",
        ),
        _event(
            "pipeline.not_served",
            "pipeline",
            _WARNING,
            "pipeline error",
            "this process already raised an error about this pipeline, so the worker does not serve"
            " it",
        ),
        _event(
            "handler.wake_clamped",
            "handler",
            _WARNING,
            "handler asked_seconds wake_seconds",
            "wake_at is outside the limits of the consumer; change min_wake= or max_wake=",
        ),
        _event("worker.ready", "worker", _INFO, "worker store queues workflows"),
        _event(
            "worker.unclear",
            "worker",
            _WARNING,
            "worker workflow places",
            "two workflows share this name, so the worker takes no runs of either workflow until "
            "code in this process starts a run of one of them; rename one of the workflows",
        ),
        _event(
            "worker.stalled",
            "worker",
            _WARNING,
            "worker blocked_seconds run where released_runs",
            "this code blocks the event loop; other workers can continue the released runs",
        ),
        _event(
            "worker.stuck",
            "worker",
            _ERROR,
            "worker blocked_seconds run where",
            "this code blocks the event loop, so the lease is not renewed; restart the process",
        ),
        _event(
            "worker.exits",
            "worker",
            _ERROR,
            "worker blocked_seconds run where",
            "this code blocks the event loop, so the process exits; move the code into a sync step",
        ),
        _event(
            "worker.stopping",
            "worker",
            _INFO,
            "worker signal runs drain_seconds",
            "waiting for running steps; a second signal abandons them",
        ),
        _event("worker.metrics", "worker", _INFO, "address"),
        _event("worker.left", "worker", _INFO, "worker"),
        _event("worker.failed", "worker", _ERROR, "worker error"),
        _event("worker.connected", "server", _INFO, "worker server namespace"),
        _event("worker.disconnected", "server", _INFO, "worker server namespace why"),
        _event("server.ready", "server", _INFO, "server store address"),
        _event("server.stopping", "server", _INFO, "server workers"),
        _event("server.stopped", "server", _INFO, "server"),
        _event("server.failed", "server", _ERROR, "server where error"),
        _event("lease.renewed", "worker", _DEBUG, "worker"),
        _event(
            "lease.lost",
            "worker",
            _ERROR,
            "worker",
            "another worker deleted the lease, because it was not renewed in time; this worker can"
            " no longer write, and other workers continue its runs",
        ),
        _event(
            "worker.dead",
            "worker",
            _WARNING,
            "worker runs continued_by",
            "the worker did not renew its lease, because it died or was cut off",
        ),
        _event(
            "worker.replaced",
            "worker",
            _WARNING,
            "lost_worker worker lost_runs",
            "the lost worker was cut off for longer than its lease; other workers continue its"
            " runs, and this process continues as a new worker",
        ),
        _event(
            "store.away",
            "store",
            _WARNING,
            "worker error",
            "the worker does no work until the store answers again",
        ),
        _event("store.still_away", "store", _WARNING, "worker outage_seconds error"),
        _event("store.back", "store", _INFO, "worker outage_seconds"),
        _event(
            "clock.forward",
            "store",
            _WARNING,
            "worker jump_seconds",
            "the database server's clock was set forward; waits in progress keep their length, so"
            " they end later by this amount; if that time really passed (for example, a virtual"
            " machine was paused), count it toward waits: onward clock --accept",
        ),
        _event(
            "clock.back",
            "store",
            _WARNING,
            "worker jump_seconds",
            "the database server's clock was set back; timers fire later by this amount; to restart"
            " timers set while the clock was ahead, run: onward clock --retime",
        ),
        _event("retention.deleted", "store", _INFO, "worker runs records messages effects"),
        _event(
            "store.locked",
            "store",
            _WARNING,
            "file holder_pid waited_seconds is_own_process",
            "a write is waiting for the lock on this file; commit the holder's open"
            " transaction, or end the holder's process if it hangs",
        ),
        _event(
            "clock.behind",
            "store",
            _WARNING,
            "file behind",
            "the machine's clock is behind the store's time, which runs at half speed until the"
            " clock has caught up; if the store's time is wrong, run: onward clock --reset",
        ),
        _event(
            "clock.jumped",
            "store",
            _WARNING,
            "file jump",
            "the machine's clock was set forward; while a worker runs, waits in progress keep"
            " their length, so they end later by this amount; if that time really passed, count it"
            " toward waits: onward clock --accept",
        ),
        _event("attention.failed", "attention", _ERROR, "run error where"),
        _event(
            "attention.dropped",
            "attention",
            _ERROR,
            "run",
            "on_attention is too slow, so calls to it are being dropped and will not be made later;"
            " make it return sooner, and look for paused and failed runs",
        ),
        _event(
            "attention.left",
            "attention",
            _ERROR,
            "calls",
            "the app closed before it could make these calls to on_attention, and they will not be"
            " made later; look for paused and failed runs and for effects that wait for a verdict",
        ),
        _event(
            "telemetry.failed",
            "telemetry",
            _ERROR,
            "call error where",
            "further errors from this call are not logged",
        ),
        _event("server.certificates_read", "server", _INFO, "file"),
        _event(
            "server.certificates_kept",
            "server",
            _ERROR,
            "error",
            "the server continues to use its current certificates",
        ),
    ]
)


def emit(
    event: str, scope: Scope | None = None, *, cause: BaseException | None = None, **facts: object
) -> None:
    """Write a log record, if it is enabled. Errors of logging never reach the caller.

    Args:
        event: A name of `EVENTS`.
        scope: Which run or step it is about.
        cause: The error that it is about; the record has its type, message and, for most events,
            traceback.
        facts: What else there is to know; they win over what the scope says.
    """
    logger, level, text = EVENTS[event]
    if not logger.isEnabledFor(level):
        return
    fields = {**(NOWHERE if scope is None else scope.fields()), **facts}
    try:
        if cause is not None:
            fields |= {"error": error_text(cause), "error_type": type_name(cause)}
        is_expected = event == "worker.failed" and isinstance(cause, _EXPECTED)
        if (is_expected or event in _WITHOUT_TRACEBACK) and not logger.isEnabledFor(_DEBUG):
            cause = None
        _write(logger, level, text, {"event": event, **fields}, cause)
    except BaseException as error:  # noqa: BLE001 - a filter of the user's failed: that must not end a run
        raise_interrupt(error)
        if logging.raiseExceptions:
            traceback.print_exc()


def _write(
    logger: logging.Logger,
    level: int,
    text: str,
    fields: dict[str, object],
    cause: BaseException | None,
) -> None:
    file, line, function, _ = logger.findCaller(stacklevel=3)
    shown = {key: _shown(value) for key, value in fields.items()}
    trace = None if cause is None else (type(cause), cause, cause.__traceback__)
    record = logger.makeRecord(
        logger.name, level, file, line, text, (shown,), trace, function, fields
    )
    if cause is not None:
        # What the formatter would make of it lacks the frames of recorded errors.
        record.exc_text = traceback_text(cause)
    logger.handle(record)


def _shown(value: object) -> str:
    """Return a fact for a line of `key=value`, in quotes if it has blanks."""
    if isinstance(value, float):
        value = round(value, 3)
    if isinstance(value, tuple | list):
        value = ",".join(map(str, value))
    text = "-" if value is None or value == "" else str(value)
    if _PLAIN.fullmatch(text) and text.isprintable():
        return text
    # In ASCII, if a terminal would obey it or hide it.
    return json.dumps(text, ensure_ascii=not text.replace("\n", "").isprintable())


def error_text(error: BaseException) -> str:
    """Return an error in one line of a log: its type and message."""
    return clip(describe(error), MAX_ERROR_CHARS)


def where_of(error: BaseException) -> str:
    """Return the line on which an error was raised."""
    trace = error.__traceback__
    if trace is None:
        return "an unknown line"
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}"
