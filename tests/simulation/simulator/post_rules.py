"""The rules for pipelines in a simulated world: what a transaction may change in them.

An event is published, and then each consumer consumes or skips it, exactly once for each time that
an operator wants it handled. What `next` publishes says which events its run has handled, so the
events themselves show whether that is so.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from onward.core.delivery import Phase
from onward.core.instant import SECOND
from tests.simulation.simulator.letters import SERIAL, office
from tests.simulation.simulator.post_tables import broken_tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onward.core.instant import Duration, Instant
    from tests.simulation.simulator.ledger_rules import EffectSeen
    from tests.simulation.simulator.post_tables import Handled
    from tests.simulation.simulator.post_view import (
        DeliverySeen,
        HandlerRunSeen,
        PostView,
    )

ROUNDING: Duration = SECOND
MAY_HAVE_HAPPENED = ("in_flight", "needs_reconcile", "indeterminate", "applied", "skipped")
EDGES = {
    ("pending", "reserved"),
    ("pending", "skipped"),
    ("reserved", "reserved"),
    ("reserved", "pending"),
    ("reserved", "consumed"),
    ("reserved", "skipped"),
}
_PREPARED = list(Phase).index(Phase.PREPARED)
_PHASES = {None: -1} | {phase.value: place for place, phase in enumerate(Phase)}


class PostRules:
    """Watches the pipelines of a world, transaction by transaction."""

    def __init__(self) -> None:
        self.handled: Counter[Handled] = Counter()
        """What was consumed, or skipped with its effect."""
        self.skipped_inputs: set[str] = set()
        """The inputs whose skip was acknowledged."""
        self.launches: Counter[str] = Counter()
        self._begun: dict[str, set[tuple[str, int]]] = {}
        """What was pending for a handler when a run of it was launched."""
        self._last_empty: dict[tuple[str, str], set[tuple[str, int]]] = {}
        """What was pending when the last run was launched that reserved nothing."""
        self._reserved: set[str] = set()
        """The runs that have reserved something."""

    def look(
        self, before: PostView, after: PostView, effects: Mapping[str, EffectSeen], now: Instant
    ) -> Iterator[str]:
        """Yield the rules that a transaction broke."""
        yield from broken_tables(before, after, now)
        yield from self._deliveries(before, after, effects)
        yield from self._runs(before, after, now)

    # --- deliveries -------------------------------------------------------------------------------

    def _deliveries(
        self, before: PostView, after: PostView, effects: Mapping[str, EffectSeen]
    ) -> Iterator[str]:
        handled: Counter[Handled] = Counter()
        for place, new in after.deliveries.items():
            old = before.deliveries.get(place)
            if old is None and new.state not in ("pending", "skipped"):
                yield f"delivery {place} begins as {new.state}"
            if old is None or old == new:
                continue
            yield from _moved(after, self.skipped_inputs, old, new)
            if (old.state, new.state) == ("reserved", "pending"):
                yield from _released(before, effects, old)
            if (old.state, new.state) == ("pending", "skipped"):
                # Counters do not tell whether the consumer has looked at it: one run may be idle.
                self._last_empty.pop((new.handler, new.key), None)
            if new.run is not None and new.state == "reserved":
                self._reserved.add(new.run)
            if old.state == "reserved" and _is_handled(new):
                handled[new.handler, new.event, new.replays] += 1
        gone = before.deliveries.keys() - after.deliveries.keys()
        yield from (f"delivery {place} vanished" for place in sorted(gone))
        yield from self._handled(handled, Counter(_said(before, after)))

    def _handled(self, handled: Counter[Handled], published: Counter[Handled]) -> Iterator[str]:
        """Yield what was handled twice, or without `next`, or the other way round."""
        if handled != published:
            yield f"handled {dict(handled)}, but next published {dict(published)}"
        self.handled += handled
        for what, count in self.handled.items():
            if count > 1:
                yield f"{what} was handled {count} times"

    # --- runs -------------------------------------------------------------------------------------

    def _runs(self, before: PostView, after: PostView, now: Instant) -> Iterator[str]:
        for uid, new in after.runs.items():
            old = before.runs.get(uid)
            if old is not None:
                yield from self._changed(after, old, new)
            elif new.follows is None:
                yield from self._launched(before, new, now)
        busy = Counter(_alone(each) for each in after.runs.values() if each.is_open)
        yield from (f"{count} runs of {lane} are open" for lane, count in busy.items() if count > 1)
        held = {each.run for each in after.deliveries.values() if each.state == "reserved"}
        for run in held:
            if run is not None and not after.runs[run].newest:
                yield f"run {run} has reserved events, but another has followed it"

    def _changed(self, after: PostView, old: HandlerRunSeen, new: HandlerRunSeen) -> Iterator[str]:
        place = new.handler, new.key
        if _PHASES[new.phase] < _PHASES[old.phase]:
            yield f"run {new.uid} of {place} went from {old.phase} back to {new.phase}"
        is_prepared = _PHASES[old.phase] < _PREPARED <= _PHASES[new.phase]
        if is_prepared and new.uid in office().wakes:  # or the run that it follows has prepared
            is_woken = after.handlers[place].wake_at is not None
            if is_woken != office().wakes[new.uid]:
                yield f"{place} does not have the wake time that it asked for"
        if new.kind == "consumer" and old.state != new.state == "succeeded":
            self._last_empty.pop(place, None)
            if new.uid not in self._reserved:
                yield from _forgotten(after, new)
                self._last_empty[place] = self._begun.get(new.uid, set())

    def _launched(self, before: PostView, run: HandlerRunSeen, now: Instant) -> Iterator[str]:
        place = run.handler, run.key
        handler, pending = before.handlers[place], before.pending.get(place, set())
        self.launches[run.handler] += 1
        self._begun[run.uid] = set(pending)
        text = f"a run of {run.handler} {run.key!r} was launched"
        if {"", handler.pipeline} & before.paused:
            yield f"{text}, though it is paused"
        if handler.removed:
            yield f"{text}, though it is removed"
        if any(each.blocked_by and each.lane == run.lane for each in before.handlers.values()):
            yield f"{text}, though its lane is blocked"
        if any(each.is_open and each.lane == run.lane for each in before.runs.values()):
            yield f"{text}, though another is open"
        if run.kind == "producer":
            return
        is_woken = handler.wake_at is not None and handler.wake_at <= now + ROUNDING
        if not (pending or is_woken):
            yield f"{text}, though it has nothing to do"
        if not is_woken and pending <= self._last_empty.get(place, set()):
            yield f"{text}, though nothing is new since it reserved nothing"


def _forgotten(after: PostView, run: HandlerRunSeen) -> Iterator[str]:
    """Yield what no preparation has looked at, though the handler has no work."""
    place = run.handler, run.key
    unseen = after.pending.get(place, set()) - office().looked[run.uid]
    if unseen and after.handlers[place].published <= after.handlers[place].seen:
        yield f"{place} has forgotten {unseen}"


def _alone(run: HandlerRunSeen) -> tuple[str, ...]:
    """Return that of which only one run may be open: its pipeline, or its handler and key."""
    is_serial = run.handler.startswith(f"{SERIAL}.")
    return (SERIAL,) if is_serial else (run.handler, run.key)


def _moved(
    after: PostView, skipped_inputs: set[str], old: DeliverySeen, new: DeliverySeen
) -> Iterator[str]:
    edge = old.state, new.state
    is_replayed = old.state in ("consumed", "skipped") and new.state == "pending"
    is_renewed = edge == ("pending", "pending") and new.attempt > old.attempt
    if edge not in EDGES and not is_replayed and not is_renewed:
        yield f"delivery {old} became {new}"
    if new.replays != old.replays + is_replayed or new.attempt < old.attempt:
        yield f"delivery {old} counts wrongly: {new}"
    if old.state != "pending" == new.state and new.attempt != old.attempt + 1:
        yield f"delivery {old} is pending under the same attempt: {new}"
    is_handed_over = edge == ("reserved", "reserved") and new.run is not None
    if is_handed_over and after.runs[new.run or ""].follows != old.run:
        yield f"delivery {old} was taken by {new.run}, which does not follow its run"
    if edge == ("pending", "reserved"):
        causes = after.causes.get(("event", new.event), set())
        if causes and causes <= skipped_inputs:
            yield f"delivery {new} was reserved, though its inputs were skipped"


def _released(
    before: PostView, effects: Mapping[str, EffectSeen], old: DeliverySeen
) -> Iterator[str]:
    assert old.run is not None
    chain = set(before.chain(old.run))
    for effect in effects.values():
        if effect.run in chain and effect.state in MAY_HAVE_HAPPENED:
            yield f"{old} was released, but {effect.name} is {effect.state}"


def _is_handled(delivery: DeliverySeen) -> bool:
    return delivery.state == "consumed" or (
        delivery.state == "skipped" and delivery.reason == "effect_skipped"
    )


def _said(before: PostView, after: PostView) -> Iterator[Handled]:
    for uid, event in after.events.items():
        if uid not in before.events and event.is_by_next:
            said = event.said
            yield from ((said["by"], source, replays) for source, replays in said["events"])
