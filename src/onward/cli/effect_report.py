"""An effect as `onward effects show` prints it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.cli.output import from_text, time_text
from onward.core.run import TERMINAL

if TYPE_CHECKING:
    from onward.engine.effect_views import EffectAttemptInfo, EffectInfo

ATTEMPTS_HEAD = ("ATTEMPT", "BEGAN", "TOOK", "OUTCOME", "ERROR")

_OUTCOMES = {
    "not_applied": "not applied",
    "not_started": "not started: it was too late",
    "too_early": "not applied, but too early to be valid",
}


def attempt_rows(info: EffectInfo) -> list[tuple[Any, ...]]:
    """Return the sends of an effect and the answers of its reconciler, a row each."""
    return [
        (
            f"{each.kind} {each.number}",
            each.began_at,
            _took(each),
            _outcome(info, each),
            each.error,
        )
        for each in info.attempts
    ]


def _took(attempt: EffectAttemptInfo) -> str | None:
    if attempt.ended_at is None:
        return None
    return f"{(attempt.ended_at - attempt.began_at).total_seconds():.1f} s"


def _outcome(info: EffectInfo, attempt: EffectAttemptInfo) -> str:
    if attempt.outcome is not None:
        return _OUTCOMES.get(attempt.outcome, attempt.outcome)
    return "in progress" if info.state == "in_flight" else "no answer before the verdict"


def effect_facts(info: EffectInfo) -> dict[str, Any]:
    """Return what is shown of an effect, by name."""
    return {
        "effect": info.name,
        "state": info.state + (", waiting for approval" if info.needs_approval else ""),
        "id": f"{info.id} (also the key that the receiver gets)",
        "arguments": info.arguments,
        "returns": info.returns.rpartition(": ")[0],
        "run": f"{info.run} ({info.run_state})",
        "why": info.why,
        "sent": _sent(info),
        "reconciler": _reconciler(info),
        "receiver": _receiver(info),
        "not applied": _not_applied(info),
        "next": _next(info),
        "settled by": _settled_by(info),
        "result": info.result,
        "verdict": _verdict(info),
        "version": info.version,
        "planned": info.created_at,
        "changed": info.updated_at,
    }


def _sent(info: EffectInfo) -> str:
    if not info.attempt or info.sent_at is None:
        return "never"
    limit = "" if info.tries is None else f" (limit: {info.tries})"

    if info.state == "in_flight":
        since = time_text(info.updated_at)
        return f"{_times(info.attempt)}{limit}; the call has been in progress since {since}"
    # The end of the time in which it may be sent lies ahead, if an answer came before that.
    by = min(info.sent_at, info.updated_at)
    send = "the send" if info.attempt == 1 else "the last send"
    return f"{_times(info.attempt)}{limit}; {send} began no later than {time_text(by)}"


def _reconciler(info: EffectInfo) -> str | None:
    if not info.can_be_asked:
        return None if info.known_until is not None else "none"
    asked = max((each.number for each in info.attempts if each.kind == "reconcile"), default=0)
    if asked:
        return f"{info.reconciler}: answered {_times(asked)}"
    if info.settled_by == "handler":
        return f"{info.reconciler}: was not needed"
    return f"{info.reconciler}: no answer yet" if info.attempt else info.reconciler


def _settled_by(info: EffectInfo) -> str | None:
    is_operator = info.settled_by == "operator"
    return f"operator {info.decided_by}" if is_operator else info.settled_by


def _receiver(info: EffectInfo) -> str | None:
    if info.known_until is None or info.waits_for is None:
        return None
    return f"remembers the key until {time_text(info.known_until)}"


def _not_applied(info: EffectInfo) -> str | None:
    if info.judged_from is None or info.waits_for is None:
        return None
    start = from_text(info.judged_from)
    return f"valid only from {start}: until then, the effect may still be sent or arrive"


def _next(info: EffectInfo) -> str | None:
    if info.run_state in TERMINAL:
        return None
    if info.asked_at is not None:
        sent = "sent again" if info.attempt else "sent"
        does = "reconciled" if info.waits_for == "reconciler" else sent
        return f"{does} at {time_text(info.asked_at)}"
    if info.state != "indeterminate" or info.known_until is None or info.can_be_asked:
        return None
    if info.tries is not None and info.attempt >= info.tries:
        return "not sent again automatically: no attempts are left"
    return "not sent again automatically: the key may expire before the call arrives"


def _verdict(info: EffectInfo) -> str | None:
    if info.verdict is None or info.decided_at is None:
        return None
    return (
        f"{info.verdict}, by {info.decided_by} at {time_text(info.decided_at)}: {info.decided_why}"
    )


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
