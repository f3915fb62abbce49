"""How the run of a handler ends or pauses that did not succeed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.codec import encode_error
from onward.core.retry import Again, decide, failure
from onward.core.run import Reason, RunState
from onward.engine.payloads import pack
from onward.model.runs import Move
from onward.runtime.pipelines.failures import PAUSED_BY, HandlerFailed, failed

if TYPE_CHECKING:
    from onward.core.instant import Duration
    from onward.core.retry import Retry
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.body import Body


def pause_of(run: ClaimedRun, body: Body) -> Move | None:
    """Return the pause of a handler's run whose code raised that an operator must act first."""
    if run.handler is None or body.cancelled is not None or body.main.cancelled():
        return None
    error = body.main.exception()
    for kind, reason in PAUSED_BY.items():
        if isinstance(error, kind):
            return Move(RunState.PAUSED, reason, error=pack(encode_error(error)))
    return None


def failed_end(
    move: Move, body: Body, policy: Retry | None, randomness: float
) -> tuple[Move, Duration | None]:
    """Return the end of a handler's run, and after how long another follows it, if one does.

    The error of the run is what the code raised, and the reason is why that ends it.
    """
    if move.state != RunState.FAILED or move.reason != Reason.LOGIC:
        return move, None  # its code may not have begun, or not have ended
    error = _raised(body)
    if error is None:
        return move, None
    why = error if isinstance(error, HandlerFailed) else failed(error)
    raised = why.__cause__ or error
    end = move._replace(reason=why.reason, error=pack(encode_error(raised)))
    if why.reason != Reason.TRANSIENT or policy is None:
        return end, None
    facts = failure(type(raised), retryable=True, after=why.after)
    decision = decide(policy, body.run.attempt, facts, randomness=randomness)
    return end, decision.after if isinstance(decision, Again) else None


def _raised(body: Body) -> BaseException | None:
    """Return what the code of a run has raised; None if it was unwound in another way."""
    is_over = body.main.done() and not body.main.cancelled()
    return body.main.exception() if is_over else None
