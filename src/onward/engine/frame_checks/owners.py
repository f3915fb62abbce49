"""Checks of calls that a worker makes for a run, and of the parts that these have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onward.core.chain import child_origin
from onward.core.delivery import Phase
from onward.core.ids import is_uid
from onward.core.owner_rights import CHILD_KINDS, OWNER_MOVES, OwnerCall
from onward.core.run import TERMINAL, RunState
from onward.engine.bulk import BULK_WORKFLOW
from onward.engine.frame_checks.known import (
    FrameRefusal,
    length_problems,
    number_problems,
    size_problems,
    weight_problems,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from onward.core.access import Principal
    from onward.engine.frame_checks.known import FrameLimits, HeldRun, KnownWorker
    from onward.model.following import Continuation
    from onward.model.runs import Move, NewRun, RunOwner

_CONFLICTS: Final = frozenset({None, "return", "reject", "replace"})
_PHASES: Final = frozenset(map(str, Phase))
_KINDS: Final = frozenset(map(str, CHILD_KINDS))
_MOVES: Final = {
    call: {
        str(state): frozenset(None if reason is None else str(reason) for reason in reasons)
        for state, reasons in moves.items()
    }
    for call, moves in OWNER_MOVES.items()
}
MAX_NAME: Final = 1000


def check_queues(principal: Principal, queues: Collection[str]) -> FrameRefusal | None:
    """Refuse a worker that wants to serve a queue which its key does not allow."""
    for queue in queues:
        if not principal.polls(queue):
            scope = f"worker:poll:{queue}"
            return FrameRefusal("queue", f"the key does not have the scope {scope}")
    return None


def check_owner(known: KnownWorker, by: RunOwner) -> FrameRefusal | None:
    """Refuse a call for a run that the worker does not have under that fence."""
    if by.worker != known.worker:
        return FrameRefusal("worker", "the call was made under the name of another worker")
    return held_problem(known, by.run, by.fence)


def check_start(
    known: KnownWorker, by: RunOwner, run: NewRun, on_conflict: str | None
) -> FrameRefusal | None:
    """Refuse a run that a worker may not start for its own, under an id of the user's choosing."""
    refusal = check_owner(known, by)
    if refusal is not None:
        return refusal
    if on_conflict not in _CONFLICTS:
        return FrameRefusal("start", "on_conflict must be return, reject or replace")
    if on_conflict == "replace" and not known.may_replace:
        return FrameRefusal("replace", "to replace a run, the key needs the scope run:control")
    return next(start_problems(known.runs[by.run], run, known.limits), None)


def check_end(known: KnownWorker, by: RunOwner, end: Move, call: OwnerCall) -> FrameRefusal | None:
    """Refuse an end of a run that its owner may not bring about by this call."""
    refusal = check_owner(known, by)
    if refusal is not None:
        return refusal
    held = known.runs[by.run]
    is_handler = held.handler is not None
    if call is not OwnerCall.GIVE_UP and is_handler != (call is OwnerCall.END_HANDLER):
        return FrameRefusal("end", f"{call} is not allowed for a run of this kind")
    return next(move_problems(held, end, call, known.limits), None)


def check_continuation(
    known: KnownWorker, by: RunOwner, end: Move, given: Continuation
) -> FrameRefusal | None:
    """Refuse a continuation of a run that its owner may not make."""
    refusal = check_end(known, by, end, OwnerCall.CONTINUE)
    if refusal is not None:
        return refusal
    what = "the continuation"
    payloads = (given.input, given.attributes)
    for problem in size_problems(what, payloads, known.limits):
        return problem
    for problem in weight_problems(what, (*given, *end), known.limits):
        return problem
    return next(number_problems(what, given.unheard), None)


def check_dismissal(
    known: KnownWorker, by: RunOwner, runs: Collection[str], children: Collection[str]
) -> FrameRefusal | None:
    """Refuse to cancel runs that are not children.

    Args:
        known: The worker.
        by: The run for which it cancels others.
        runs: Those others.
        children: The children of that run, and of those that it follows, as the server found them.
    """
    refusal = check_owner(known, by)
    if refusal is not None:
        return refusal
    strangers = sorted(set(runs) - set(children))
    if strangers:
        return FrameRefusal("dismiss", f"{_short(strangers[0])} is not a child of the run")
    return None


def check_progress(known: KnownWorker, run: str, fence: int, value: bytes) -> FrameRefusal | None:
    """Refuse the progress of a run that the worker does not have, or that is too large."""
    refusal = held_problem(known, run, fence)
    return refusal or next(size_problems("the progress", (value,), known.limits), None)


# --- parts ----------------------------------------------------------------------------------------


def held_problem(known: KnownWorker, run: str, fence: int) -> FrameRefusal | None:
    """Return why a worker may not write for a run."""
    held = known.runs.get(run)
    if held is None:
        return FrameRefusal("run", f"the worker does not have run {_short(run)}")
    if held.fence != fence:
        return FrameRefusal("fence", f"run {_short(run)} does not have the fence {fence}")
    return None


def move_problems(
    held: HeldRun, move: Move, call: OwnerCall, limits: FrameLimits
) -> Iterator[FrameRefusal]:
    """Yield why an owner may not move its run like this."""
    reasons = _MOVES[call].get(move.state)
    if reasons is None:
        yield FrameRefusal("move", f"the owner of a run cannot move it to {_short(move.state)}")
    elif move.reason not in reasons:
        yield FrameRefusal(
            "move", f"a run cannot be {move.state} for the reason {_short(move.reason)}"
        )
    if move.result is not None and move.state != RunState.SUCCEEDED:
        yield FrameRefusal("move", "only a run that succeeded can have a result")
    if move.phase is not None and (held.handler is None or move.phase not in _PHASES):
        yield FrameRefusal("move", "the run has no such phase")
    yield from size_problems("the move", (move.result, move.error, move.progress), limits)
    texts = (move.failed_call or "", move.parked_by or "", move.error_type, move.failed_step)
    if max(map(len, texts)) > limits.payload_bytes:
        yield FrameRefusal("size", "a string in the move is too long")
    yield from weight_problems("the move", move, limits)
    yield from number_problems("the move", (move.due, move.seq, move.seen))
    yield from length_problems("the move", (move.due_in,))


def start_problems(held: HeldRun, run: NewRun, limits: FrameLimits) -> Iterator[FrameRefusal]:
    """Yield why an owner may not start a run for its own."""
    if run.parent != held.uid or not run.parent_identity:
        yield FrameRefusal("start", "a new run must be a child of the run that starts it")
        return
    if run.root != (held.root or held.uid):
        yield FrameRefusal("start", "a child must have the root of its parent")
    if run.follows is not None or run.link is not None or run.attempt != 1:
        yield FrameRefusal("start", "a child cannot follow another run")
    if run.kind not in _KINDS or run.handler is not None:
        yield FrameRefusal("start", f"a child cannot be a {_short(run.kind)} or run a handler")
    # It decides on the keys of effects: with the origin of another run, a child could change them.
    if run.origin not in (None, child_origin(held.origin or held.uid, run.parent_identity)):
        fact = "the origin of a child must be derived from its parent and its call"
        yield FrameRefusal("start", fact)
    if run.name == BULK_WORKFLOW:
        yield FrameRefusal("start", "a child cannot be a bulk action")
    if not is_uid(run.uid) or not run.id or not run.name or not run.queue:
        yield FrameRefusal("start", "a child needs a uid, an id, a name and a queue")
    if run.cancel_with_parent not in (0, 1):
        yield FrameRefusal("start", "cancel_with_parent must be 0 or 1")
    yield from size_problems("a child", (run.input, run.attributes), limits)
    if max(len(run.retry or ""), len(run.tags), len(run.trace or "")) > limits.text_chars:
        yield FrameRefusal("size", "a string in a child is too long")
    yield from weight_problems("a child", run, limits)
    yield from number_problems("a child", (run.priority, run.due, run.deadline))
    yield from length_problems("a child", (run.delay_in, run.deadline_in))


def is_end(move: Move | None) -> bool:
    """Return whether a run ends by a move."""
    return move is not None and move.state in TERMINAL


def _short(text: str | None) -> str:
    """Return a text of a worker as messages show it."""
    return repr(text if text is None or len(text) <= MAX_NAME else f"{text[:MAX_NAME]}…")
