"""Verdicts of operators on effects that are uncertain or wait for approval."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from onward.core.decision import Moved, Refused
from onward.core.effect import (
    ApprovalRejected,
    Approved,
    EffectState,
    Judged,
    LedgerEntry,
    Terms,
    Verdict,
    advance,
)
from onward.core.retry import Retry
from onward.errors import BadInput, NotFound, VerdictRefused
from onward.model.effects import Ruling
from onward.store.runs.ledger import judge

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.core.effect import Fact
    from onward.core.instant import Instant
    from onward.model.effects import EffectRow
    from onward.store.store import Store


def as_effect(row: EffectRow) -> LedgerEntry:
    """Return a row of the ledger as the state of its machine."""
    return LedgerEntry(
        EffectState(row.state),
        row.version,
        row.attempt,
        row.asks,
        bool(row.approved),
        row.start_by,
        row.settle_until,
        row.known_until,
        row.due,
    )


def _terms(row: EffectRow) -> Terms:
    """Return the declared options of an effect that a verdict depends on."""
    return Terms(
        timeout=row.reach,
        settle=0,
        reconciles=bool(row.reconciler),
        retry=Retry(attempts=row.tries),
        start_within=0,
        # That it does is enough: until when is in the row.
        idempotency_window=None if row.known_until is None else 0,
    )


class Choice(NamedTuple):
    """A verdict that is possible for an effect; `since` is set if it does not count yet."""

    verdict: str
    since: Instant | None


def choices(row: EffectRow, *, now: Instant, is_dropped: bool = False) -> list[Choice]:
    """Return the verdicts that the machine allows for an effect."""
    said: dict[str, Fact] = {"approve": Approved(is_dropped), "reject": ApprovalRejected()}
    said |= {verdict: Judged(verdict, None, is_dropped) for verdict in Verdict}
    terms, found = _terms(row), []
    for word, fact in said.items():
        match advance(as_effect(row), fact, terms, now=now):
            case Moved():
                found.append(Choice(word, None))
            case Refused(until=until) if until is not None:
                later = advance(as_effect(row), fact, terms, now=until)
                if isinstance(later, Moved):
                    found.append(Choice(word, until))
            case _:
                pass
    return found


async def resolve(  # noqa: PLR0913 - all of these make a verdict
    store: Store,
    key: str,
    verdict: Verdict,
    *,
    result: bytes | None,
    reason: str,
    by: str,
    version: int | None,
) -> EffectRow:
    """Record the verdict on an uncertain effect; its run continues with it.

    Raises:
        NotFound: there is no such effect.
        VerdictRefused: it is settled, has changed since, or it is too early to say.
    """
    return await _rule(
        store,
        key,
        partial(Judged, verdict, version),
        str(verdict),
        (reason, by, version),
        result=result,
    )


async def approve(
    store: Store, key: str, *, reason: str, by: str, version: int | None, yes: bool
) -> EffectRow:
    """Approve a planned effect, or reject it.

    Raises:
        NotFound: there is no such effect.
        VerdictRefused: it does not wait for approval, has changed since, or its run is being
            cancelled and withdraws it.
    """
    if yes:
        return await _rule(store, key, Approved, "approve", (reason, by, version))
    return await _rule(store, key, lambda _: ApprovalRejected(), "reject", (reason, by, version))


async def _rule(
    store: Store,
    key: str,
    fact: Callable[[bool], Fact],
    word: str,
    said: tuple[str, str, int | None],
    *,
    result: bytes | None = None,
) -> EffectRow:
    """Write a verdict; `fact` is given whether the run of the effect drops it."""
    reason, by, version = said
    if not (reason and reason.strip()):
        raise BadInput(
            "the reason for a verdict", "is empty", "Pass a reason; it is stored with the verdict"
        )

    def rule(row: EffectRow, now: Instant, is_dropped: bool) -> Ruling:  # noqa: FBT001 - a callback
        if version is not None and version != row.version:
            why = f"the effect has changed: its version is {row.version} now{_decision(row)}"
            raise VerdictRefused(key, why)
        match advance(as_effect(row), fact(is_dropped), _terms(row), now=now):
            case Moved(to):
                if version is None:
                    _check_undecided(row)
                kept = result if to.state is EffectState.APPLIED else row.result
                flags = (to.attempt, to.asks, int(to.approved), to.due)
                return Ruling(to.state, *flags, kept, word, by, reason)
            case Refused(why):
                raise VerdictRefused(key, why + _decision(row))
            case other:
                raise VerdictRefused(key, other.why + _decision(row))

    row = await judge(store, key, rule)
    if row is None:
        raise NotFound("effect", key, store.namespace)
    return row


def _check_undecided(row: EffectRow) -> None:
    """Refuse to overrule a verdict that its run has not taken up yet.

    Only an operator who saw it may, and says so by giving its version. So of two verdicts at the
    same time one counts, whatever they are.

    Raises:
        VerdictRefused: there is such a verdict.
    """
    if decision := _decision(row):
        advice = f"pass version {row.version} to overrule the decision"
        fact = f"the effect is already decided{decision}; {advice}"
        raise VerdictRefused(row.key, fact)


def _decision(row: EffectRow) -> str:
    """Return the verdict that was the last change of a row, if one was, as the end of a fact."""
    # An operator never makes an effect uncertain: what came after the verdict has the same time.
    is_open = row.state != EffectState.INDETERMINATE
    is_last = is_open and row.decided_at is not None and row.decided_at == row.updated_at
    return f" (verdict {row.verdict!r} by {row.decided_by})" if is_last else ""
