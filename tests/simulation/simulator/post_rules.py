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
from tests.simulation.simulator.letters import DONE, PAIR, PAIRS, POLL, ROWS, SERIAL, office

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onward.core.instant import Duration, Instant
    from tests.simulation.simulator.ledger_rules import EffectSeen
    from tests.simulation.simulator.post_view import (
        DeliverySeen,
        EventSeen,
        HandlerRunSeen,
        PostView,
    )

MIN_WAKE: Duration = 30 * SECOND
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

Handled = tuple[str, str, int]
"""A consumer, an event, and how often an operator has had it handled again."""


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
        yield from _counted(after)
        yield from _kept_events(before, after)
        yield from self._deliveries(before, after, effects)
        yield from _states(after)
        yield from _wakes(before, after, now)
        yield from self._runs(before, after, now)

    # --- deliveries -------------------------------------------------------------------------------

    def _deliveries(
        self, before: PostView, after: PostView, effects: Mapping[str, EffectSeen]
    ) -> Iterator[str]:
        handled: Counter[Handled] = Counter()
        for place, old in before.deliveries.items():
            new = after.deliveries.get(place)
            if new is None:
                yield f"delivery {place} vanished"
            elif new != old:
                yield from _moved(after, self.skipped_inputs, old, new)
                if (old.state, new.state) == ("reserved", "pending"):
                    yield from _released(before, effects, old)
                if new.run is not None and new.state == "reserved":
                    self._reserved.add(new.run)
                if old.state == "reserved" and _is_handled(new):
                    handled[new.handler, new.event, new.replays] += 1
        for place, new in after.deliveries.items():
            if place not in before.deliveries and new.state not in ("pending", "skipped"):
                yield f"delivery {place} begins as {new.state}"
        published = Counter(_said(before, after))
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
            if old is None:
                if new.follows is None:
                    yield from self._launched(before, new, now)
            elif _PHASES[new.phase] < _PHASES[old.phase]:
                yield f"run {uid} of {new.handler} went from {old.phase} back to {new.phase}"
            if old is None:
                continue
            if _PHASES[old.phase] < _PREPARED <= _PHASES[new.phase]:
                is_woken = after.handlers[new.handler, new.key].wake_at is not None
                if is_woken != office().wakes[uid]:
                    yield f"{new.handler} {new.key!r} has not the wake time that it wanted"
            if old.state != new.state == "succeeded":
                place = new.handler, new.key
                if new.kind == "consumer" and uid not in self._reserved:
                    yield from _forgotten(after, new)
                if uid in self._reserved or uid not in self._begun:
                    self._last_empty.pop(place, None)
                elif new.kind == "consumer":
                    self._last_empty[place] = self._begun[uid]
        busy = Counter(_alone(each) for each in after.runs.values() if each.is_open)
        yield from (f"{count} runs of {lane} are open" for lane, count in busy.items() if count > 1)
        held = {each.run for each in after.deliveries.values() if each.state == "reserved"}
        for run in held:
            if run is not None and not after.runs[run].newest:
                yield f"run {run} has reserved events, but another has followed it"

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
    if edge == ("reserved", "reserved") and new.run is not None:
        if after.runs[new.run].follows != old.run:
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


def _by_next(event: EventSeen) -> bool:
    return event.topic in (ROWS.name, DONE.name)


def _said(before: PostView, after: PostView) -> Iterator[Handled]:
    for uid, event in after.events.items():
        if uid not in before.events and _by_next(event):
            said = event.said
            yield from ((said["by"], source, replays) for source, replays in said["events"])


# --- events, counters and states ------------------------------------------------------------------


def _counted(after: PostView) -> Iterator[str]:
    states = Counter((each.topic, each.handler, each.state) for each in after.deliveries.values())
    for each in after.subscriptions:
        place = each.topic, each.handler
        found = states[*place, "consumed"], states[*place, "skipped"]
        if (each.consumed, each.skipped) != found:
            yield f"{each} has counted wrongly: {found} are consumed and skipped"
        for event in after.events.values():
            if event.topic == each.topic and event.seq > each.since:
                if (each.handler, event.uid) not in after.deliveries:
                    yield f"{event} was not delivered to {each.handler}"


def _kept_events(before: PostView, after: PostView) -> Iterator[str]:
    for uid, old in before.events.items():
        new = after.events.get(uid)
        if new is None:
            yield f"{old} vanished"
        elif new != old:
            settled = [
                each
                for each in before.deliveries.values()
                if each.event == uid and each.state != "pending"
            ]
            if new._replace(payload=old.payload) != old or settled:
                yield f"{old} became {new}, and had been handed out: {settled}"
    places: dict[str, list[int]] = {}
    for event in after.events.values():
        places.setdefault(event.topic, []).append(event.seq)
    for topic, seqs in places.items():
        if seqs != list(range(1, len(seqs) + 1)):
            yield f"the events of {topic} have the places {seqs}"
    for uid, event in after.events.items():
        if uid in before.events or not _by_next(event):
            continue
        causes: set[str] = set()
        for source, _ in event.said["events"]:
            causes |= after.causes.get(("event", source), set())
        if after.causes.get(("event", uid), set()) != causes:
            yield f"{event} has other causes than its sources: {causes}"


def _states(after: PostView) -> Iterator[str]:
    """Yield the states that do not fit what their handlers have published."""
    said = Counter((event.said["by"], event.said.get("key", "")) for event in after.events.values())
    for place, handler in after.handlers.items():
        if handler.saved != said[place]:
            yield f"the state of {place} is {handler.saved}, but it has published {said[place]}"


def _wakes(before: PostView, after: PostView, now: Instant) -> Iterator[str]:
    for place, new in after.handlers.items():
        old = before.handlers.get(place)
        if new.wake_at is None or (old is not None and old.wake_at == new.wake_at):
            continue
        if new.wake_at < now + MIN_WAKE - ROUNDING:
            yield f"{place} wakes in {(new.wake_at - now) / SECOND} s"


# --- once all is over -----------------------------------------------------------------------------


def unrest(view: PostView, letters: int) -> list[str]:
    """Return what is still to be done."""
    found = [
        f"{each.uid} of {each.handler} is {each.state}"
        for each in view.runs.values()
        if each.is_open
    ]
    for place, each in view.handlers.items():
        if each.blocked_by is not None and not each.removed:
            found.append(f"{place} is blocked by {each.blocked_by}")
        pending = len(view.pending.get(place, ()))
        if not each.removed and pending >= (PAIR if each.handler == PAIRS else 1):
            found.append(f"{pending} events are pending for {place}")
        if each.published > each.seen and not each.removed and each.kind == "producer":
            found.append(f"{place} is to run")
        if each.handler == POLL and each.saved != letters:
            found.append(f"{POLL} has read {each.saved} of {letters} letters")
    return found


def broken_post(
    handled: Mapping[Handled, int],
    effects: Mapping[str, EffectSeen],
    answers: Mapping[str, str],
    applied: Mapping[str, int],
) -> Iterator[str]:
    """Yield where events and the outside do not agree, once all is over."""
    times: Counter[Handled] = Counter()
    for key, answer in answers.items():
        for each in _meant(answer):
            times[each] += applied[key]
            state = effects[key].state if key in effects else None
            if state in ("applied", "skipped") and not handled.get(each):
                yield f"{each} was {state} outside, but next has never run for it"
    yield from (f"{each} was applied {count} times" for each, count in times.items() if count > 1)


def _meant(answer: str) -> Iterator[Handled]:
    """Yield for which events a request was sent."""
    handler, bar, events = answer.partition("=")[0].partition("|")
    for each in events.split(",") if bar else ():
        uid, _, replays = each.partition(":")
        yield handler, uid, int(replays)
