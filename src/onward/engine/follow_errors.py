"""The errors of retries and forks that are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.run import in_words
from onward.errors import Conflict, RunOver, Undone, WouldResend

if TYPE_CHECKING:
    from onward.model.following import Followed


def uid_of(run_id: str, followed: Followed, *, new_id: str | None = None) -> str:
    """Return the uid of the run that follows, whose id is the old one unless a new one is given.

    Raises:
        Undone: a retry would build on effects that may have been undone.
        WouldResend: a fork, or a retry after a fork of a child, would send effects again.
        Conflict: another run has the new id.
        RunOver: the old run cannot be followed, or is followed already.
    """
    if followed.fate == "made" and followed.uid is not None:
        return followed.uid
    if followed.fate == "undone":
        raise Undone(run_id, followed.why)
    if followed.fate == "resends":
        raise WouldResend(run_id, followed.why)
    if followed.fate == "forked":
        raise WouldResend(run_id, followed.why, by="retry")
    if followed.fate == "taken" and new_id is not None:
        fact = f"the run with this id {in_words(followed.state)}"
        raise Conflict(new_id, fact, "Choose another id")
    why = followed.why or f"it {in_words(followed.state)}, or was already retried or forked"
    fact, _, advice = why.partition("; ")
    if advice:
        raise RunOver(run_id, fact, advice[0].upper() + advice[1:])
    raise RunOver(run_id, fact)
