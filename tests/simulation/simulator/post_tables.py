"""What must hold for the tables of pipelines after every transaction, and once all is over."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from tests.simulation.simulator.letters import PAIR, PAIRS, POLL

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from onward.core.instant import Duration, Instant
    from tests.simulation.simulator.ledger_rules import EffectSeen
    from tests.simulation.simulator.post_view import PostView

MIN_WAKE: Duration = 30 * SECOND
ROUNDING: Duration = SECOND

Handled = tuple[str, str, int]
"""A consumer, an event, and how often an operator has had it handled again."""


def broken_tables(before: PostView, after: PostView, now: Instant) -> Iterator[str]:
    """Yield what is wrong with events, counters, states and wake times after a transaction."""
    yield from _counted(after)
    yield from _kept_events(before, after)
    yield from _places(after)
    yield from _causes(before, after)
    yield from _states(after)
    yield from _wakes(before, after, now)


def _counted(after: PostView) -> Iterator[str]:
    states = Counter((each.topic, each.handler, each.state) for each in after.deliveries.values())
    for each in after.subscriptions:
        place = each.topic, each.handler
        found = states[*place, "consumed"], states[*place, "skipped"]
        if (each.consumed, each.skipped) != found:
            yield f"{each} has counted wrongly: {found} are consumed and skipped"
        for event in after.events.values():
            is_due = event.topic == each.topic and event.seq > each.since
            if is_due and (each.handler, event.uid) not in after.deliveries:
                yield f"{event} was not delivered to {each.handler}"


def _kept_events(before: PostView, after: PostView) -> Iterator[str]:
    for uid, old in before.events.items():
        new = after.events.get(uid)
        if new is None:
            yield f"{old} vanished"
        elif new != old:
            deliveries = before.deliveries.values()
            settled = [row for row in deliveries if row.event == uid and row.state != "pending"]
            if new._replace(payload=old.payload) != old or settled:
                yield f"{old} became {new}, and had been handed out: {settled}"


def _places(after: PostView) -> Iterator[str]:
    places: defaultdict[str, list[int]] = defaultdict(list)
    for event in after.events.values():
        places[event.topic].append(event.seq)
    for topic, seqs in places.items():
        if seqs != list(range(1, len(seqs) + 1)):
            yield f"the events of {topic} have the places {seqs}"


def _causes(before: PostView, after: PostView) -> Iterator[str]:
    """Yield the new events of consumers that have other causes than what they were made of."""
    for uid, event in after.events.items():
        if uid not in before.events and event.is_by_next:
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
