"""Every log record that Onward writes about itself, by name, and the one way to write one.

A record has the text of its event, which never changes, and its facts as attributes: always the
seven of `scope.NOWHERE`, then what the event adds. Facts are ids, names, numbers and types of
errors. Arguments, results and error messages are left out, because they may hold data.
"""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING, NamedTuple

from onward.errors import OnwardError
from onward.telemetry.interrupts import raise_interrupt
from onward.telemetry.scope import NOWHERE

if TYPE_CHECKING:
    from onward.telemetry.scope import Scope

# Without this, Python prints warnings of a library where no logging is set up.
logging.getLogger("onward").addHandler(logging.NullHandler())

_RUN = "run %(run)s of %(workflow)s "
_STEP = "%(kind)s %(step)s of run %(run)s, attempt %(attempt)s, "


class Event(NamedTuple):
    """Where a record goes, how much it matters, and what it says."""

    logger: logging.Logger
    level: int
    text: str


def _event(logger: str, level: int, text: str) -> Event:
    return Event(logging.getLogger(f"onward.{logger}"), level, text)


EVENTS: dict[str, Event] = {
    "run.started": _event("run", logging.DEBUG, _RUN + "started"),
    "run.claimed": _event("run", logging.DEBUG, _RUN + "claimed by worker %(worker)s"),
    "run.waiting": _event("run", logging.DEBUG, _RUN + "is waiting"),
    "run.ready": _event("run", logging.INFO, _RUN + "released by worker %(worker)s"),
    "run.lost": _event("run", logging.WARNING, _RUN + "is no longer owned by worker %(worker)s"),
    "run.paused": _event("run", logging.WARNING, _RUN + "is paused: %(reason)s"),
    "run.unread": _event(
        "run",
        logging.WARNING,
        _RUN + "continued, but the current code did not make %(count)s recorded calls in their"
        " order: %(unread)s",
    ),
    "run.long": _event(
        "run",
        logging.WARNING,
        _RUN + "has more than %(count)s records: use map for many items, or continue_as_new",
    ),
    "run.unretried": _event(
        "run",
        logging.WARNING,
        _RUN + "is not retried: effects sent after its error may have undone its work: %(effects)s",
    ),
    "run.unended": _event(
        "run",
        logging.ERROR,
        _RUN + "could not be started or ended: worker=%(worker)s error=%(error)s",
    ),
    "run.blocking": _event(
        "run",
        logging.WARNING,
        _RUN + "blocked its worker for %(seconds)s s at %(where)s: move blocking code into a step",
    ),
    "run.succeeded": _event("run", logging.INFO, _RUN + "succeeded"),
    "run.failed": _event("run", logging.ERROR, _RUN + "failed: %(reason)s %(error)s"),
    "run.cancelled": _event("run", logging.INFO, _RUN + "was cancelled"),
    "run.timed_out": _event("run", logging.WARNING, _RUN + "passed its deadline"),
    "step.succeeded": _event("step", logging.DEBUG, _STEP + "succeeded"),
    "step.retried": _event(
        "step", logging.WARNING, _STEP + "failed: %(error)s; next attempt in %(retry_seconds)s s"
    ),
    "step.failed": _event("step", logging.WARNING, _STEP + "failed: %(error)s"),
    "step.cancelled": _event(
        "step", logging.DEBUG, _STEP + "was cancelled: its result is no longer awaited"
    ),
    "step.left": _event(
        "step",
        logging.WARNING,
        _STEP + "still runs %(seconds)s s after it was stopped: its result is ignored; let"
        " CancelledError propagate",
    ),
    "step.left_thread": _event(
        "step",
        logging.WARNING,
        _STEP + "still runs in its thread %(seconds)s s after it was stopped: its result is"
        " ignored, and another thread takes its place (%(count)s so far)",
    ),
    "step.waits_for_thread": _event(
        "step",
        logging.WARNING,
        _STEP
        + "has waited %(seconds)s s for a thread: all threads of worker %(worker)s are used by"
        " %(held)s",
    ),
    "effect.waits": _event(
        "effect",
        logging.WARNING,
        "effect %(effect)s of run %(run)s needs an operator: reason=%(reason)s key=%(key)s",
    ),
    "effect.unanswered": _event(
        "effect",
        logging.WARNING,
        "the reconciler of effect %(effect)s of run %(run)s failed: error=%(error)s key=%(key)s",
    ),
    "worker.ready": _event("worker", logging.INFO, "worker %(worker)s is ready"),
    "worker.unclear": _event(
        "worker",
        logging.WARNING,
        "worker %(worker)s takes no runs of %(workflow)s until this process starts one: %(places)s"
        " share that name; rename one of them with @workflow(name=...)",
    ),
    "worker.left": _event("worker", logging.INFO, "worker %(worker)s stopped"),
    "worker.failed": _event("worker", logging.ERROR, "worker %(worker)s has failed: %(error)s"),
    "lease.renewed": _event("worker", logging.DEBUG, "worker %(worker)s renewed its lease"),
    "lease.lost": _event("worker", logging.ERROR, "worker %(worker)s has lost its lease"),
    "worker.replaced": _event(
        "worker",
        logging.WARNING,
        "lease lost, worker replaced: before=%(before)s worker=%(worker)s runs=%(runs)s",
    ),
    "store.away": _event(
        "store",
        logging.WARNING,
        "store away: worker=%(worker)s error=%(error)s",
    ),
    "store.still_away": _event(
        "store",
        logging.WARNING,
        "store still away: worker=%(worker)s seconds=%(seconds)s error=%(error)s",
    ),
    "store.back": _event(
        "store",
        logging.INFO,
        "store back: worker=%(worker)s seconds=%(seconds)s",
    ),
    "clock.forward": _event(
        "store",
        logging.WARNING,
        "the clock of the database was set forward by %(seconds)s s (seen by worker %(worker)s):"
        " timers on record that are due by the new time fire now. If the clock is wrong, correct"
        " it, then run: onward clock --retime",
    ),
    "clock.back": _event(
        "store",
        logging.WARNING,
        "the clock of the database was set back by %(seconds)s s (seen by worker %(worker)s):"
        " timers on record fire that much later. To restart those that were set while it was ahead,"
        " run: onward clock --retime",
    ),
    "store.locked": _event(
        "store",
        logging.WARNING,
        "still waiting for a lock: file=%(file)s holder_pid=%(holder)s waited=%(seconds)ss",
    ),
    "clock.behind": _event(
        "store",
        logging.WARNING,
        "the machine's clock is behind the time of the store: file=%(file)s behind=%(behind)s; the"
        " store's time runs at half speed, and timers are late, until the clock has caught up. If"
        " the store's time is wrong, run: onward clock --reset",
    ),
    "clock.jumped": _event(
        "store",
        logging.WARNING,
        "the machine's clock jumped ahead: file=%(file)s by=%(jump)s; timers that are due by it"
        " fire now",
    ),
    "attention.failed": _event(
        "attention", logging.ERROR, "on_attention failed for run %(run)s: %(error)s at %(where)s"
    ),
    "attention.dropped": _event(
        "attention", logging.ERROR, "on_attention is too slow: call for run %(run)s dropped"
    ),
    "attention.left": _event(
        "attention",
        logging.ERROR,
        "on_attention calls for %(count)s runs dropped: the app is closing",
    ),
    "telemetry.failed": _event(
        "telemetry",
        logging.ERROR,
        "%(call)s failed (reported once): %(error)s at %(where)s",
    ),
}


def emit(event: str, scope: Scope | None = None, **facts: object) -> None:
    """Write a log record, if it is enabled. Errors of logging never reach the caller.

    Args:
        event: A name of `EVENTS`.
        scope: Which run or step it is about.
        facts: What else there is to know; they win over what the scope says.
    """
    logger, level, text = EVENTS[event]
    if not logger.isEnabledFor(level):
        return
    fields = {**(NOWHERE if scope is None else scope.fields()), **facts}
    try:
        logger.log(level, text, fields, extra={"event": event, **fields}, stacklevel=2)
    except BaseException as error:  # noqa: BLE001 - a filter of the user's failed: that must not end a run
        raise_interrupt(error)
        if logging.raiseExceptions:
            traceback.print_exc()


def name_of(error: BaseException | None) -> str:
    """Return the type of an error, which unlike its message holds no data.

    One that stands for another, of which only a record is left, knows the type of that one.
    """
    if isinstance(error, OnwardError) and error.code == "step_failed":
        return str(getattr(error, "type", error.code))
    return "" if error is None else type(error).__qualname__


def where_of(error: BaseException) -> str:
    """Return the line on which an error was raised."""
    trace = error.__traceback__
    if trace is None:
        return "an unknown line"
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}"
