"""The effect: a change outside, from its plan to a settled outcome.

It is sent once per attempt that the ledger recorded beforehand, and again only after proof that
it did not happen, or under a key that its receiver surely knows. An answer "it did not
happen" that does not come from the call itself counts only when no frozen worker can send any more:
from `settle_until` on.
"""

from onward.core.effect.attempts import AttemptEntry, Attempts, add_outcome, add_send
from onward.core.effect.facts import (
    Answer,
    ApprovalRejected,
    Approved,
    Fact,
    GivenUp,
    HandlerReturned,
    Inherited,
    Judged,
    Lost,
    NotStarted,
    RaisedNotApplied,
    Reconciled,
    Sent,
    Verdict,
    Withdrawn,
)
from onward.core.effect.keys import consumer_origin, effect_key
from onward.core.effect.ledger import (
    FINAL,
    START_WITHIN,
    UNCERTAIN,
    EffectState,
    LedgerEntry,
    Terms,
    Window,
    settled,
    widened,
    window,
)
from onward.core.effect.machine import advance, planned

__all__ = [
    "FINAL",
    "START_WITHIN",
    "UNCERTAIN",
    "Answer",
    "ApprovalRejected",
    "Approved",
    "AttemptEntry",
    "Attempts",
    "EffectState",
    "Fact",
    "GivenUp",
    "HandlerReturned",
    "Inherited",
    "Judged",
    "LedgerEntry",
    "Lost",
    "NotStarted",
    "RaisedNotApplied",
    "Reconciled",
    "Sent",
    "Terms",
    "Verdict",
    "Window",
    "Withdrawn",
    "add_outcome",
    "add_send",
    "advance",
    "consumer_origin",
    "effect_key",
    "planned",
    "settled",
    "widened",
    "window",
]
