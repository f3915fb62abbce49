"""Why a run does not proceed: what it waits for, what holds it, and what to do about each."""

from __future__ import annotations

from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, Final

from onward.core.instant import show
from onward.core.replay import RecordKind
from onward.core.run import TERMINAL, Reason, RunState, in_words
from onward.engine.effect_info import effect_wait_text
from onward.engine.pipelines.reading import one_pipeline
from onward.engine.report import report
from onward.engine.views import Blocker
from onward.errors import NotFound
from onward.errors.root import closed
from onward.store.pipelines.overview import blocked_handlers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from onward.engine.effect_views import EffectInfo
    from onward.engine.views import PendingCall, RunInfo, RunReport
    from onward.model.runs import RunRow
    from onward.model.workers import Renewal
    from onward.store.store import Store

_DECIDED_BY_HUMANS = ("approval", "verdict")

_NOT_EXECUTED = ("worker", "takeover")

STUCK: Final = frozenset({"worker", "limit", "rate", "paused", "divergence", *_DECIDED_BY_HUMANS})
"""The kinds of blockers that end only if something outside of the run changes."""

MAX_DEPTH: Final = 4
MAX_AWAITED: Final = 10


async def find_blockers(store: Store, row: RunRow, deep: int = MAX_DEPTH) -> list[Blocker]:
    """Return why a run does not proceed, and the same for the runs that it waits for."""
    known = await report(store, row)
    found = [*_blockers(known), *known.held_back]
    if not found and row.state == RunState.READY:
        found += await full_workers(store, row)
    if not found and row.state == RunState.RUNNING and row.worker is not None:
        found += _silent_worker(await store.last_renewal(row.worker))
    if row.state in TERMINAL and row.handler is not None:
        found += await _blocks_handler(store, row)
    awaited = [call.run for call in known.waits_for if call.run is not None]
    for uid in awaited[:MAX_AWAITED] if deep > 1 else ():
        try:
            other = await store.run(uid)
        except NotFound:
            continue
        below = await find_blockers(store, other, deep - 1)
        found += [replace(each, text=f"run {other.id}: {each.text}") for each in below]
    return found


async def find_pipeline_blockers(store: Store, name: str) -> list[Blocker]:
    """Return why handlers of a pipeline do not run although they have work.

    Raises:
        NotFound: there is no such pipeline.
    """
    info = await one_pipeline(store, name)
    return [
        Blocker(each.state, f"{each.name} {each.key}".strip() + f": {each.why}", each.next)
        for each in info.handlers
        if each.why
    ]


async def _blocks_handler(store: Store, row: RunRow) -> list[Blocker]:
    """Return that a run of a handler has ended so that it blocks the handler, if so."""
    return [
        Blocker(
            "blocked",
            f"it has ended, and blocks {each.handler} of pipeline {each.pipeline} "
            "until new code is deployed or an operator resumes the pipeline",
            f"onward pipelines resume {quote(each.pipeline)}",
        )
        for each in await store.read(blocked_handlers)
        if each.run == row.uid
    ]


async def full_workers(store: Store, row: RunRow) -> list[Blocker]:
    """Return that the workers which could take a run have no free slots, if so."""
    workers = [
        worker
        for worker in await store.workers()
        if worker.is_alive
        and not worker.draining
        and row.queue in worker.queues.split("\n")
        and row.name in worker.names.split("\n")
    ]
    if not workers or any(worker.running < worker.slots for worker in workers):
        return []
    those = "worker" if len(workers) == 1 else f"{len(workers)} workers"
    text = f"all slots of the {those} that could take the run are in use"
    return [Blocker("slots", text, "Wait, start another worker, or raise --slots")]


def _silent_worker(renewal: Renewal) -> list[Blocker]:
    """Return that the worker of a running run may be gone, if it is late to renew its lease."""
    if not renewal.is_late:
        return []
    text = f"its worker {renewal.worker} last renewed its lease {renewal.silence} ago"
    move = (
        f"Wait; if the worker is gone, its lease of {show(renewal.length)} will expire, and "
        "another worker will continue the run"
    )
    return [Blocker("lease", text, move)]


def still_open(info: RunInfo, why: Sequence[Blocker]) -> str:
    """Return the state of a run that has not ended, and what it waits for, as a sentence."""
    state = f"it {in_words(info.state)}"
    if info.state == RunState.RUNNING and any(each.kind in _NOT_EXECUTED for each in why):
        state = f"its state is {info.state}"
    elif info.state == RunState.RUNNING and info.worker is not None:
        state = f"{state} on worker {info.worker}"
    elif info.state == RunState.READY and not why:
        state = f"{state}, and no worker has claimed it yet"
    texts = [str(each).partition("\n")[0] for each in why]
    if not (info.state == RunState.WAITING and texts):  # they say what it is waiting for
        texts.insert(0, state)
    text = closed("; ".join(dict.fromkeys(texts)))
    first = min(why, key=lambda each: each.kind not in STUCK, default=None)
    return text if first is None else f"{text} Next: {closed(first.next)}"


def _blockers(report: RunReport) -> list[Blocker]:
    """Return what keeps a run from running; none if it has ended, is running, or is about to."""
    info = report.info
    if info.state in TERMINAL:
        return []
    if info.state == RunState.RUNNING:
        return [] if report.blocked is None else [_gone(report.blocked, report)]
    found = [*_pauses(info), *map(_effect, report.open_effects)]
    if report.blocked is not None:
        found.append(Blocker("worker", report.blocked, "Start a worker that takes the run"))
    # A phase of a handler that raised for a person is tried again when the run is resumed.
    needs_person = info.state == RunState.PAUSED and info.error is not None
    kinds = (RecordKind.EFFECT, RecordKind.STEP) if needs_person else (RecordKind.EFFECT,)
    found += [_call(info, call) for call in report.waits_for if call.kind not in kinds]
    if not found and info.state == RunState.PAUSED:
        text, move = f"it is paused ({info.reason})", f"onward runs resume {quote(info.id)}"
        found.append(Blocker("paused", text, move, info.error or ""))
    if not found and info.state == RunState.WAITING and info.due is not None:
        text = f"it starts at {_time(info.due)}"
        found.append(Blocker("delay", text, f"Wait until {_time(info.due)}"))
    return found


def _gone(text: str, report: RunReport) -> Blocker:
    """Return that the worker of a running run does not execute it any more."""
    if report.is_taken_over:
        move = "Wait; another worker will take over the run within one lease period"
        return Blocker("takeover", text, move)
    return Blocker("worker", text, "Start a worker: onward worker MODULE")


def _pauses(info: RunInfo) -> Iterator[Blocker]:
    for holder in info.held_by:
        yield Blocker("paused", f"run {holder} is paused", f"onward runs resume {quote(holder)}")
    if info.state == RunState.PAUSED and info.reason == Reason.DIVERGENCE:
        at = info.diverged_at
        fits_not = "history" if at is None or at.step is not None else "run's arguments"
        text = f"the code does not match the {fits_not}"
        yield Blocker("divergence", text, next_of_divergence(info), info.error or "")


def next_of_divergence(info: RunInfo) -> str:
    """Return what lets a run go on whose code does not fit its history."""
    at = info.diverged_at
    if at is not None and at.step is None:
        cancel = f"onward runs cancel {quote(info.id)}"
        return (
            "Deploy code that matches the arguments, or cancel the run and start it again with "
            f"arguments that match: {cancel}"
        )
    step = "STEP" if at is None or at.step is None else quote(at.step)
    fork = f"onward runs fork {quote(info.id)} --step {step}"
    if at is not None and at.needs_result:
        return f"{fork} --result JSON"
    return f"Deploy code that matches the history, or: {fork}"


def _effect(effect: EffectInfo) -> Blocker:
    waits_for = str(effect.waits_for)
    text = f"effect {effect.name} is {effect.state} and is waiting for {effect_wait_text(effect)}"
    kind = waits_for if waits_for in _DECIDED_BY_HUMANS else "effect"
    if kind == "effect" and effect.asked_at is not None:
        text += f", due at {_time(effect.asked_at)}"
    return Blocker(kind, text, f"onward effects show {effect.id}")


def _call(info: RunInfo, call: PendingCall) -> Blocker:
    since = f"since {_time(call.since)}"
    until = "" if call.until is None else f", until {_time(call.until)}"
    match call.kind:
        case RecordKind.SIGNAL:
            move = f"onward runs signal {quote(info.id)} {quote(call.name)} VALUE"
        case RecordKind.TIMER if call.until is not None:
            move = f"Wait until {_time(call.until)}"
        case _ if call.run is not None:
            move = f"onward runs show {call.run}"
        case _:
            move = f"Wait until the {call.kind} ends"
    return Blocker(call.kind, f"it is waiting for {call.kind} {call.name} ({since}{until})", move)


def _time(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}Z"
