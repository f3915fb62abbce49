"""Starting runs: idempotent by id; the same id with something else is a conflict."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from onward.codec import check_id
from onward.core.ids import is_uid
from onward.core.inbox import MessageKind
from onward.core.instant import MAX_DURATION, show
from onward.core.run import TERMINAL, Reason, RunState, in_words
from onward.engine.payloads import pack
from onward.engine.policies import read_policy, write_policy
from onward.engine.sending import wakes_for
from onward.errors import BadInput, Conflict
from onward.model.flow import EVERY_KEY
from onward.model.messages import NewMessage
from onward.model.runs import NewRun
from onward.model.stopping import ForcedEnd
from onward.store.hints import run_subject
from onward.store.runs.owning import stop_or_cancel
from onward.store.runs.replacing import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from onward.codec import Arguments
    from onward.core.instant import Duration, Instant
    from onward.core.retry import Retry
    from onward.model.flow import DeclaredLimits
    from onward.model.runs import RunOwner, Started
    from onward.store.store import Store

MAX_PRIORITY = 1_000_000
LOOK_SECONDS = 1.0
PATIENCE_SECONDS = 70.0
"""How long a run may take to make room for another: the grace of a cancel, and a little more."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """How a run is started."""

    id: str | None = None
    queue: str = "default"
    priority: int = 0
    tags: tuple[str, ...] = ()
    delay: Duration = 0
    at: Instant | None = None
    deadline: Duration | None = None
    on_conflict: str = "return"
    retry: Retry | None = None
    key: str | None = None
    limits: DeclaredLimits | None = None


async def start(store: Store, run: NewRun, on_conflict: str = "return") -> Started:
    """Start a run, or find the one that has the id.

    A run that was retried, forked in place or continued since is still the same start.

    With "replace" the one that has the id is cancelled first, and the new one starts when it is
    over.

    Raises:
        Conflict: the id belongs to a run of another workflow or with other arguments, or to any
            run if that is to be rejected.
    """
    started = await store.start(run)
    while not started.created:
        if on_conflict != "replace":
            return check_started(run, started, on_conflict)
        if not started.is_deleted:
            await _end_of(store, started.uid)
        started = await replace(store, started.uid, run)
    return started


def check_started(
    run: NewRun, started: Started, on_conflict: str, advice: str = Conflict.advice
) -> Started:
    """Return the answer to a start, if the run that has the id may stand for the one wanted.

    Raises:
        Conflict: it may not.
    """
    if started.created:
        return started
    if (started.name, started.start_hash) != (run.name, run.args_hash):
        is_same = started.name == run.name
        what = "different arguments" if is_same else f"a different workflow ({started.name})"
        raise Conflict(run.id, f"its run was started with {what}", advice)
    if on_conflict == "reject":
        raise Conflict(run.id, f"the run with this id {in_words(started.state)}", advice)
    return started


async def _end_of(store: Store, uid: str) -> None:
    """Cancel a run that is to be replaced, and wait until it is over.

    If no worker does that in time, it is ended by force, so that a start never waits without end.
    """
    clock = asyncio.get_running_loop()
    patient_until = clock.time() + PATIENCE_SECONDS
    with store.subscribe([run_subject(uid)]) as subscription:
        is_over = await ask_to_end(store, uid)
        while not is_over:
            if clock.time() > patient_until:
                await store.stop(uid, state=RunState.CANCELLED, reason=Reason.REPLACED, by_uid=True)
            else:
                await subscription.wait(min(LOOK_SECONDS, PATIENCE_SECONDS))
            is_over = (await store.run(uid)).state in TERMINAL


async def ask_to_end(store: Store, uid: str, owner: RunOwner | None = None) -> bool:
    """Cancel a run that is to be replaced, and return whether it has ended.

    Raises:
        LeaseLost: an owner does this for a run that it does not have any more.
    """
    kind = MessageKind.CANCEL
    cancel = NewMessage(uid, "cancel", kind, Reason.REPLACED, wakes=wakes_for(kind), by_uid=1)
    unbegun = ForcedEnd(RunState.CANCELLED, Reason.REPLACED, unstarted_only=True)
    await stop_or_cancel(store, uid, unbegun, cancel, owner)
    return (await store.run(uid)).state in TERMINAL


def new_run(
    uid: str, name: str, arguments: Arguments, options: StartOptions, version: str | None = None
) -> NewRun:
    """Return the row of a run that is to be started."""
    run_id = uid if options.id is None else check_run_id(options.id)
    return NewRun(
        uid,
        run_id,
        name,
        pack(arguments.payload()),
        arguments.fingerprint(),
        queue=check_id(options.queue, "the queue"),
        version=version,
        priority=check_priority(options.priority),
        tags=" ".join(check_tag(tag) for tag in options.tags),
        delay_in=options.delay,
        due=options.at,
        deadline_in=options.deadline,
        retry=None if options.retry is None else write_policy(options.retry),
    )


def check_run_id(given: Any) -> str:
    """Return the id that a user chose for a run.

    Raises:
        BadInput: it cannot be one, or it could be mistaken for a uid.
    """
    run_id = check_id(given, "the run id")
    if is_uid(run_id):
        raise BadInput(
            f"run id {run_id!r}",
            "is a version 7 UUID, which is the format of run uids",
            'Add a prefix, such as "order-"',
        )
    return run_id


def check_priority(priority: int) -> int:
    """Return the priority of a run.

    Raises:
        BadInput: it is no whole number, or too large.
    """
    if type(priority) is not int or not -MAX_PRIORITY <= priority <= MAX_PRIORITY:
        raise BadInput(
            f"priority {priority!r}",
            f"is not a whole number between -{MAX_PRIORITY:,} and {MAX_PRIORITY:,}",
            "Use a number in this range; the default is 0",
        )
    return priority


def check_tags(tags: Iterable[str]) -> tuple[str, ...]:
    """Return tags.

    Raises:
        BadInput: one is none, or there is one text where there should be several.
    """
    if isinstance(tags, str):
        raise BadInput(f"tags={tags!r}", "is a single string", f"Write tags=[{tags!r}]")
    return tuple(check_tag(tag) for tag in tags)


def check_tag(tag: Any) -> str:
    """Return a tag, which is an id without spaces.

    Raises:
        BadInput: it is none.
    """
    checked = check_id(tag, "a tag")
    if checked.split() != [checked]:
        raise BadInput(f"tag {checked!r}", "contains a space", "Use a hyphen")
    return checked


def check_flow_key(given: Any) -> str:
    """Return a key by which runs are limited and take turns.

    Raises:
        BadInput: it cannot be one.
    """
    if given == EVERY_KEY:
        raise BadInput(f"key={EVERY_KEY!r}", "stands for every key", "Use another key")
    return check_id(given, "the flow key")


def check_run_options(run: NewRun) -> None:
    """Refuse options that `Workflow.options` would refuse: the caller may not be the SDK.

    Raises:
        BadInput: one of them is not valid.
    """
    check_id(run.queue, "the queue")
    check_priority(run.priority)
    if run.flow_key:  # it is empty if only the workflow has limits
        check_flow_key(run.flow_key)
    check_tags(run.tags.split(" ") if run.tags else ())
    for option, length in (("delay", run.delay_in), ("deadline", run.deadline_in)):
        if length is not None and not 0 <= length <= MAX_DURATION:
            fact = "is negative, or longer than a thousand years"
            raise BadInput(f"{option} {show(length)}", fact, "Use a shorter duration, or 0")
    if run.retry is not None:
        _check_policy(run.retry)


def _check_policy(text: str) -> None:
    try:
        read_policy(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadInput("the retry policy", f"is not valid ({error})", "Check the client") from error
