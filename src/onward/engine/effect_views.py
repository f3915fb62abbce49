"""Effects as users see them: typed, with decoded values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from onward.engine.redaction import PayloadText, PayloadValue


@dataclass(frozen=True, slots=True)
class EffectAttemptInfo:
    """One send of an effect, or one call of its reconciler.

    Attributes:
        kind: "send" or "reconcile".
        number: Counts the sends, or the calls of the reconciler, over all runs of the effect.
        began_at: When the call began.
        ended_at: When it ended, or its worker was found dead; None while it is in progress.
        outcome: For a send: returned, not_applied, unknown, or not_started (it was too late to
            begin, which does not count as an attempt). For the reconciler: applied, not_applied,
            unknown, or too_early (not applied, at a time when the call could still arrive). None
            while it is in progress, or if an operator decided first.
        error: The type of the exception that it raised, if any.
    """

    kind: str
    number: int
    began_at: datetime
    ended_at: datetime | None
    outcome: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class EffectInfo:
    """An effect as recorded in the ledger.

    Attributes:
        id: The key of the effect. You pass it to `resolve`, and the receiver gets it too.
        run: The id of its run.
        state: planned, in_flight, applied, failed, needs_reconcile, indeterminate, skipped or
            withdrawn (its run was cancelled or ended before the effect was sent).
        arguments: The arguments that were or will be sent, as plain data.
        attempt: How many times the current run has sent it.
        tries: The maximum number of sends; None means that there is no limit.
        asks: How many times the reconciler has answered since the last send, not counting
            `NotApplied` answers that came too early.
        why: Why it is uncertain or did not happen, or why its result could not be stored.
        sent_at: The latest time at which the last send may have happened.
        judged_from: The time from which "not applied" is accepted. Before that, a frozen worker
            might still send the effect.
        known_until: When the receiver forgets the key, if the receiver deduplicates by key. An
            uncertain effect is sent again only if the call would arrive before this time.
        asked_at: When Onward will send it again, or ask the reconciler again.
        can_be_asked: Whether it has a reconciler.
        decided_by: The name of the operator who gave the last verdict, if there is one.
        version: A number that increases with every change. Pass it with a verdict to make sure that
            nothing has changed.
        waits_for: What it is waiting for: "approval", "verdict", "reconciler" (the next lookup),
            "reply" (to a call in flight), "send" (the first send) or "next send". None if it is
            settled.
        returns: The annotation of its result and the kind of JSON value that the result is stored
            as, such as `Charge: object`.
        settled_by: handler, reconciler or operator; None if it is not settled, or was withdrawn.
        reconciler: The name of its reconciler, if it has one.
        attempts: The sends and the answers of the reconciler, oldest first; at most the latest 50.
        title: The title that a consumer's `prepare` returned, or else the name of the effect.
    """

    id: str
    run: str
    run_uid: str
    run_state: str
    name: str
    state: str
    arguments: PayloadValue
    attempt: int
    tries: int | None
    asks: int
    needs_approval: bool
    can_be_asked: bool
    why: PayloadText | None
    result: PayloadValue
    sent_at: datetime | None
    judged_from: datetime | None
    known_until: datetime | None
    asked_at: datetime | None
    verdict: str | None
    decided_by: str | None
    decided_why: str | None
    decided_at: datetime | None
    version: int
    created_at: datetime
    updated_at: datetime
    waits_for: str | None
    returns: str = ""
    settled_by: str | None = None
    reconciler: str | None = None
    attempts: tuple[EffectAttemptInfo, ...] = ()
    title: PayloadText = ""


@dataclass(frozen=True, slots=True)
class EffectChoice:
    """A verdict that is possible for an effect.

    Attributes:
        verdict: approve, reject, applied, not_applied, skip or ask_again.
        since: The time from which the verdict is possible, if that is in the future.
    """

    verdict: str
    since: datetime | None
