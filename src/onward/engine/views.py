"""Runs and histories as users see them: typed, with decoded values.

Every face of Onward (the SDK, the command line, a server) formats these and looks nothing up
itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from onward.engine.effect_views import EffectInfo
from onward.engine.redaction import PayloadText, PayloadValue


@dataclass(frozen=True, slots=True)
class RunInfo:
    """The state of a run. In a list of runs, progress, attributes and counters are empty.

    Attributes:
        id: Your id for the run, or its uid.
        uid: The unique key of the run.
        name: The name of the workflow.
        state: ready, running, waiting, paused, succeeded, failed, cancelled or timed_out.
        reason: Why it is in this state, such as `logic` if its code raised an error.
        phase: The phase of a consumer or producer.
        attempt: The number of the current attempt.
        queue: Its queue.
        tags: Its tags.
        parent: The uid of the run that started it.
        created_at: When it was created.
        started_at: When a worker first took it.
        finished_at: When it ended.
        due: When it continues, if it is waiting for a point in time.
        progress: The last value that its code passed to `current().progress`.
        attributes: The attributes that its code set.
        error: Why it ended without a result, or why it is paused.
        counters: The counters that its code added to.
        kind: workflow, step (a routed step), map (a map chunk), producer or consumer.
        priority: Its priority.
        version: The version of the code that it is pinned to.
        root: The uid of the topmost run in its tree.
        follows: The uid of the run that it retries, continues, forks or replaces.
        link: How it follows that run: retry_of, continued_from, forked_from or replaces.
        scheduled_at: When it was scheduled to start.
        deadline: When it is cancelled, if it has not ended by then.
        held_by: The ids of the paused runs that hold it: the run itself, or runs above it in its
            tree.
        worker: The id of the worker that owns it.
        crashes: How many workers in a row have died while executing it. When the run makes
            progress, the count is reset to 0.
        parent_id: The id of the run that started it.
        follows_id: The id of the run that it follows.
        followed_by: The uid of the run that follows it under the same id.
        followed_link: How that run follows it.
        error_type: The type of the error that ended it, with the module unless the type is built
            in; the reason, such as `deadline`, if there was no error.
        failed_step: The name of the step, effect or child whose error ended it.
        discarded: Who discarded it as a dead letter, and when and why.
        diverged_at: What the current code does not match: a recorded call, or the arguments of the
            run. None unless the run is paused for this reason.

    Example:
        >>> import asyncio
        >>> from onward import App, workflow
        >>> @workflow
        ... async def wave() -> None: ...
        >>> async def main() -> list[str]:
        ...     async with App(":memory:") as app:
        ...         await app.start(wave.options(id="wave-1", tags=["sea"]))
        ...         return [f"{info.id} {info.state} {info.tags}" for info in await app.runs()]
        >>> asyncio.run(main())
        ["wave-1 ready ('sea',)"]
    """

    id: str
    uid: str
    name: str
    state: str
    reason: str | None
    phase: str | None
    attempt: int
    queue: str
    tags: tuple[str, ...]
    parent: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    due: datetime | None
    progress: PayloadValue = None
    attributes: Mapping[str, PayloadValue] = field(default_factory=dict)
    error: PayloadText | None = None
    counters: Mapping[str, int | float] = field(default_factory=dict)
    kind: str = "workflow"
    priority: int = 0
    version: str | None = None
    root: str | None = None
    follows: str | None = None
    link: str | None = None
    scheduled_at: datetime | None = None
    deadline: datetime | None = None
    held_by: tuple[str, ...] = ()
    worker: str | None = None
    crashes: int = 0
    parent_id: str | None = None
    follows_id: str | None = None
    followed_by: str | None = None
    followed_link: str | None = None
    error_type: str | None = None
    failed_step: str | None = None
    discarded: Discard | None = None
    diverged_at: DivergedAt | None = None


@dataclass(frozen=True, slots=True)
class DivergedAt:
    """What the code does not fit: a recorded call, or the arguments of the run.

    Attributes:
        step: The identity of the call, such as `charge#1`, from which the run can be forked; None
            for the arguments of the run.
        needs_result: Whether the fork has to replace its result.
    """

    step: str | None
    needs_result: bool


@dataclass(frozen=True, slots=True)
class Discard:
    """The record of a discarded dead letter.

    Attributes:
        at: When it was discarded.
        by: Who discarded it.
        reason: Why it was discarded.
    """

    at: datetime
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Dead letters of one workflow that failed in the same call with the same type of error.

    Attributes:
        name: The name of the workflow.
        error_type: The type of the error, or the reason if the runs ended without an error.
        failed_step: The name of the call whose error ended them; None if the body raised it.
        count: The number of dead letters, counted up to a limit.
        is_capped: Whether there are more than `count` dead letters.
        first_at: When the first of them failed.
        last_at: When the last of them failed.
        last_run: The id of the run that failed last.
        last_error: The error of that run.
        timeline: How many failed in each interval, from `since` (or the first failure) to now.
    """

    name: str
    error_type: str
    failed_step: str | None
    count: int
    is_capped: bool
    first_at: datetime
    last_at: datetime
    last_run: str
    last_error: PayloadText | None
    timeline: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A result in the cache, without its value.

    Attributes:
        key: A hash of the step, its version, and its arguments or cache key.
        step: The name of the step.
        version: The version that the step declares.
        run: The id of the run that wrote the result; None if that run was deleted.
        size: The size of the result in bytes.
        created_at: When it was written.
        expires_at: When it expires.
    """

    key: str
    step: str
    version: str | None
    run: str | None
    size: int
    created_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """A recorded error that user code raised; `str()` returns its type and message.

    Attributes:
        type: The name of its type, with the module unless the type is built in.
        message: Its message.
        traceback: Its frames, innermost last.
        text: Its type and message; for an exception group, the types and messages of its first
            errors.
        where: The file, line number and function that raised it.
        source: The text of that line.
        notes: The notes that were added with `add_note`.
        causes: The errors that led to it: its cause or context, and the members of a group.
    """

    type: str
    message: PayloadText
    traceback: PayloadText
    text: PayloadText
    where: str | None = None
    source: str | None = None
    notes: tuple[PayloadText, ...] = ()
    causes: tuple[ErrorInfo, ...] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """A record in a run's history: a call and its outcome, or a note.

    Attributes:
        seq: Its position in the history; None for notes, and while the call is open.
        identity: The identity of the call: its branch, its name, and its number among the calls
            with that name.
        kind: The kind: step, effect, timer, signal, child, cancel, note and others.
        name: The name of the step, signal or workflow.
        state: open, succeeded, failed or cancelled.
        attempt: The number of the attempt; for an effect, the number of sends.
        version: The version of the code that made the call.
        value: The result, or other data in the record.
        error: The error that the call raised.
        due: When a timer fires, or when the next attempt after a failed one starts.
        message: The number of the inbox message that ended the wait.
        args_hash: The fingerprint of the arguments.
        opened_at: When the attempt began.
        closed_at: When the attempt ended.
        arguments: The arguments by parameter name, without those that equal their defaults; None
            if they are not stored.

    Example:
        >>> import asyncio
        >>> from onward import App, step, workflow
        >>> @step
        ... async def weigh(n: int) -> int:
        ...     return 7 * n
        >>> @workflow
        ... async def parcel() -> int:
        ...     return await weigh(3)
        >>> async def main() -> None:
        ...     app = App(":memory:")
        ...     async with app, app.worker(workflows=[parcel]):
        ...         run = await app.start(parcel)
        ...         await run.result(timeout="10s")
        ...         for event in await run.history():
        ...             print(event.seq, event.kind, event.name, event.state, event.value)
        >>> asyncio.run(main())
        1 step weigh succeeded 21
    """

    seq: int | None
    identity: str
    kind: str
    name: str
    state: str
    attempt: int
    version: str | None
    value: PayloadValue
    error: ErrorInfo | None
    due: datetime | None
    message: int | None
    args_hash: PayloadText | None
    opened_at: datetime
    closed_at: datetime | None
    arguments: PayloadValue = None

    @property
    def took(self) -> timedelta | None:
        """How long the attempt took; None while it is open."""
        return None if self.closed_at is None else self.closed_at - self.opened_at


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that a run waits for, since when and until when; `run` is the run that makes it."""

    kind: str
    name: str
    since: datetime
    until: datetime | None
    run: str | None


@dataclass(frozen=True, slots=True)
class PendingSignal:
    """A signal that a run has received but not yet read.

    Attributes:
        name: Its name.
        value: The value that was sent.
        sent_at: When it was sent.
    """

    name: str
    value: PayloadValue
    sent_at: datetime


@dataclass(frozen=True, slots=True)
class RunReport:
    """Everything that is known of one run.

    Attributes:
        info: How it stands.
        arguments: What it was started with.
        result: What it returned, if it has succeeded.
        waits_for: The calls that are not over.
        blocked: Why no worker executes it, if it could continue.
        unread_signals: What was sent to it and not asked for.
        history: What it did.
        open_effects: Its effects that are not settled.
        failure: The error that ended it, or that its last attempt of a call has failed with.
        traceback: That error with its frames, notes and causes, as Python prints it.
        renewed_at: When the worker that has it last renewed its lease.
        is_taken_over: Whether that worker is gone, and a live one can continue the run.
        held_back: The limits, rates and pauses that keep a ready run from being claimed.
    """

    info: RunInfo
    arguments: PayloadValue
    result: PayloadValue
    waits_for: tuple[PendingCall, ...]
    blocked: str | None
    unread_signals: tuple[PendingSignal, ...]
    history: tuple[HistoryEvent, ...]
    open_effects: tuple[EffectInfo, ...]
    failure: ErrorInfo | None = None
    traceback: PayloadText | None = None
    renewed_at: datetime | None = None
    is_taken_over: bool = False
    held_back: tuple[Blocker, ...] = ()


@dataclass(frozen=True, slots=True)
class Blocker:
    """A reason why a run is not proceeding.

    Attributes:
        kind: paused, divergence, approval, verdict, effect (Onward will send the effect again, or
            ask its reconciler again), limit, rate, slots (all workers are busy), delay (the run has
            not started yet), worker (no live worker can take the run), takeover (the run's worker
            is gone, and another will continue the run), lease (the run's worker is late in renewing
            its lease), blocked (the run has ended and blocks its pipeline handler), or the kind of
            call that the run awaits: signal, timer, child or step.
        text: The reason as text.
        next: What to do next, as a command or advice.
        error: The error that paused the run, if any. `str()` of the blocker includes it.

    Example:
        >>> import asyncio
        >>> from onward import App, workflow
        >>> @workflow
        ... async def lonely() -> None: ...
        >>> async def main() -> None:
        ...     async with App(":memory:") as app:
        ...         await app.start(lonely.options(id="lonely-1"))
        ...         for blocker in await app.why("lonely-1"):
        ...             print(f"{blocker.text}. {blocker.next}.")
        >>> asyncio.run(main())
        no worker serves queue 'default'. Start a worker that takes the run.
    """

    kind: str
    text: str
    next: str
    error: PayloadText = ""

    def __str__(self) -> str:
        return f"{self.text}: {self.error}" if self.error else self.text


@dataclass(frozen=True, slots=True)
class UnservedRun:
    """A run that could continue but that no live worker can take, and why."""

    run: RunInfo
    why: str
