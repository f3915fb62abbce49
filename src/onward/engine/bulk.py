"""Bulk actions: which runs match, and what is done to one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from onward.core.bulk import TARGETS, BulkAction, Targets, override
from onward.core.run import DEAD, RunState
from onward.engine import dead, following, sending
from onward.engine.client_engine import Decision
from onward.engine.follow_errors import uid_of
from onward.errors import BadInput, NotFound, OnwardError, RunOver, StoreUnusable, Unavailable
from onward.model.bulk import Refusal

if TYPE_CHECKING:
    from onward.model.bulk import BulkOptions, Target
    from onward.model.run_filter import RunQuery
    from onward.store.store import Store

BULK_WORKFLOW = "onward.bulk"
"""The name of the workflow that carries out bulk actions; no workflow of a user can have it."""

MAX_MESSAGE = 300

_TOO_LATE = {
    BulkAction.DISCARD: "it is no longer a dead letter",
    BulkAction.CANCEL: "it has already ended",
    BulkAction.PAUSE: "it has already ended, or is being cancelled",
    BulkAction.RESUME: "it has already ended",
}


def target_query(action: BulkAction, query: RunQuery) -> RunQuery:
    """Return which runs an action is for, of those that a filter chooses.

    Runs that are cancelled with their parent are left to the parent, and bulk actions are only
    chosen by their name.

    Raises:
        BadInput: the action is for no run in that state, or failures are chosen among others.
    """
    without = None if query.name == BULK_WORKFLOW else BULK_WORKFLOW
    query = query._replace(bound=False, without=without)
    kind = TARGETS[action]
    if kind is Targets.DEAD and (query.state is None or query.state in DEAD):
        return query._replace(dead=True)
    if action is BulkAction.DISCARD:
        advice = "Use failed or timed_out"
        raise BadInput(f"state={query.state!r}", "is not a state of dead letters", advice)
    if query.error is not None or query.failed_step is not None or query.since is not None:
        what, fact = "error, failed_step and since", "select only dead letters"
        if kind is Targets.DEAD:
            fact += f", but state={query.state!r} selects other runs"
            raise BadInput(what, fact, "Leave out these filters, or leave out the state")
        raise BadInput(what, f"{fact}, but {action} acts on {kind} runs", "Leave them out")
    if kind is Targets.OPEN:
        return query._replace(is_open=True)
    if kind is Targets.PAUSED and query.state not in (None, RunState.PAUSED):
        raise BadInput(
            f"state={query.state!r}",
            "does not apply: only paused runs can be resumed",
            "Leave out the state",
        )
    return query._replace(state=query.state or RunState.PAUSED)


async def act(
    store: Store, action: BulkAction, target: Target, options: BulkOptions
) -> Refusal | None:
    """Act on one run; return why not, if it is refused.

    It is safe to repeat: an action that was done already is not done again, and is no refusal.
    """
    try:
        await _act(store, action, target, options)
    except (StoreUnusable, Unavailable):
        raise
    except OnwardError as error:
        if await _is_done(store, action, target):
            return None
        return refusal_of(action, target, error)
    return None


def refusal_of(action: BulkAction, target: Target, error: OnwardError) -> Refusal:
    """Return why a run was left alone."""
    message = str(error)[:MAX_MESSAGE]
    return Refusal(target.id, target.uid, error.code, message, override(action, error.code))


async def _act(store: Store, action: BulkAction, target: Target, options: BulkOptions) -> None:
    uid, run_id, new_uid = target
    force, resend, step = options.force, options.resend, options.step
    match action:
        case BulkAction.RETRY:
            followed = await following.retry(store, uid, force=force, new_uid=new_uid)
            accepted = bool(uid_of(run_id, followed))
        case BulkAction.FORK:
            followed = await following.fork(store, uid, step, resend=resend, new_uid=new_uid)
            accepted = bool(uid_of(run_id, followed))
        case BulkAction.DISCARD:
            accepted = await dead.discard(store, uid, Decision(options.reason, options.by))
        case BulkAction.CANCEL:
            accepted = bool(await sending.cancel(store, uid, force=force, grace=options.grace))
        case BulkAction.PAUSE:
            accepted = await sending.pause(store, uid)
        case BulkAction.RESUME:
            accepted = await sending.resume(store, uid)
        case _:
            assert_never(action)
    if not accepted:
        raise RunOver(run_id, _TOO_LATE[action], "Nothing was changed")


async def _is_done(store: Store, action: BulkAction, target: Target) -> bool:
    """Return whether an earlier try has acted on a run, although this one was refused."""
    try:
        if action in (BulkAction.RETRY, BulkAction.FORK):
            return bool(await store.run(target.new_uid))
        if action is BulkAction.DISCARD:
            return await store.is_discarded(target.uid)
        if action is BulkAction.CANCEL:
            return (await store.run(target.uid)).state == RunState.CANCELLED
    except NotFound:
        return False
    return False
