"""The rules of the ledger in a simulated world: what may follow upon what, and what may be sent."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from onward.core.instant import Instant

EDGES = {
    "planned": {"planned", "in_flight", "failed", "skipped", "withdrawn"},
    "in_flight": {"applied", "failed", "needs_reconcile", "indeterminate", "skipped"},
    "needs_reconcile": {"needs_reconcile", "applied", "failed", "indeterminate", "skipped"},
    "indeterminate": {"applied", "failed", "needs_reconcile", "skipped"},
    "failed": {"failed", "planned", "in_flight", "skipped"},
    "applied": set[str](),
    "skipped": set[str](),
    "withdrawn": {"planned"},
}
"""From which state of an effect to which it may go."""

UNSENDABLE = {"planned", "applied", "skipped", "withdrawn"}
REPEAT = ("needs_reconcile", "in_flight")
"""Allowed only where the receiver knows the key."""


class EffectSeen(NamedTuple):
    """A row of the ledger."""

    key: str
    run: str
    name: str
    state: str
    version: int
    attempt: int
    approved: int
    settle_until: Instant | None
    due: Instant | None
    verdict: str | None
    known_until: Instant | None = None


def broken_ledger(
    before: dict[str, EffectSeen],
    after: dict[str, EffectSeen],
    now: Instant,
    closed: Collection[str] = (),
) -> Iterator[str]:
    """Yield the rules that a transaction broke.

    Args:
        before: The ledger before it.
        after: The ledger after it.
        now: Its time.
        closed: The keys of effects that can take place no more, whatever time the database has.
    """
    for key in before.keys() - after.keys():
        yield f"effect {key} vanished"
    for key, new in after.items():
        old = before.get(key)
        if old is None:
            if new.version != 1 or new.state not in ("planned", "in_flight"):
                yield f"{new} is in the ledger from nowhere"
        elif old != new:
            yield from _moved(old, new)
            if _is_too_early(old, new, now) and key not in closed:
                yield f"{new.name} was held to be not applied too early, at {now}: {old}"


def _moved(old: EffectSeen, new: EffectSeen) -> Iterator[str]:
    is_repeated = (old.state, new.state) == REPEAT and old.known_until is not None
    if new.state not in EDGES[old.state] and not is_repeated:
        yield f"{new.name} went from {old.state} to {new.state}: {new}"
    if new.version != old.version + 1:
        yield f"{new.name} went from version {old.version} to {new.version}: {new}"
    if new.attempt > old.attempt and new.state != "in_flight":
        yield f"{new.name} has another attempt, but is {new.state}: {new}"
    if old.known_until is not None and new.known_until != old.known_until:
        yield f"{new.name}: its key was known until {old.known_until}, and now: {new}"


def _is_too_early(old: EffectSeen, new: EffectSeen, now: Instant) -> bool:
    """Say whether a process that did not make the call judged it as not applied too early."""
    judged = old.state in ("needs_reconcile", "indeterminate") and new.state == "failed"
    return judged and old.settle_until is not None and now < old.settle_until


def doubted(
    so_far: set[str], before: dict[str, EffectSeen], after: dict[str, EffectSeen]
) -> set[str]:
    """Return the keys of effects that were last intended while a send before was in doubt."""
    found = set(so_far)
    for key, new in after.items():
        old = before.get(key)
        if old is not None and new.attempt > old.attempt:
            (found.add if (old.state, new.state) == REPEAT else found.discard)(key)
    return found


def taken_over(before: dict[str, EffectSeen], after: dict[str, EffectSeen]) -> Counter[str]:
    """Return the attempts at effects that a run has taken over, which counts them anew."""
    found: Counter[str] = Counter()
    for key, new in after.items():
        old = before.get(key, new)
        if old.run != new.run and new.attempt < old.attempt:
            found[key] = old.attempt - new.attempt
    return found


def unsendable(
    effect: EffectSeen | None, times: int, now: Instant, *, is_doubted: bool = False
) -> str | None:
    """Return why an effect may not be sent for the n-th time, if it may not.

    What is on its way to a receiver that knows the key does no harm, whatever has become of it.
    """
    if effect is None:
        return "the ledger does not know of it"
    is_known = effect.known_until is not None and now <= effect.known_until
    if effect.state in UNSENDABLE and not is_known:
        return f"it is {effect.state}"
    if is_doubted and not is_known:
        return "it may have happened, and its key may be forgotten"
    if times > effect.attempt:
        return f"it is sent for the {times}. time, but intended {effect.attempt} times"
    return None


def broken_outside(
    ledger: dict[str, EffectSeen],
    sent: Counter[str],
    applied: Counter[str],
    stopped: Collection[str] = (),
) -> Iterator[str]:
    """Yield where the ledger and the outside do not agree, once all runs are over.

    Of what a run left behind that was `stopped`, the outcome may stay unknown.
    """
    for key, effect in ledger.items():
        outcomes = {"applied": {1}, "failed": {0}, "skipped": {0, 1}, "withdrawn": {0}}
        expected = outcomes.get(effect.state)
        if effect.run in stopped and effect.state == "indeterminate":
            expected = {0, 1}
        if expected is None:
            yield f"{effect} has not settled"
        elif applied[key] not in expected:
            yield f"{effect} was applied {applied[key]} times, and sent {sent[key]} times"
    for key in sent.keys() - ledger.keys():
        yield f"{key} was sent without the ledger"
