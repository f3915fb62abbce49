"""Pipelines in simulated worlds: what happens there, and what the rules say of tables."""

from __future__ import annotations

import pytest

from tests.simulation.simulator import Simulation
from tests.simulation.simulator.kinds import KINDS
from tests.simulation.simulator.letters import LETTERS, PAIRS
from tests.simulation.simulator.plan import draw_pipelines
from tests.simulation.simulator.post_rules import PostRules
from tests.simulation.simulator.post_tables import broken_post, broken_tables, unrest
from tests.simulation.simulator.post_view import (
    DeliverySeen,
    EventSeen,
    HandlerRunSeen,
    HandlerSeen,
    PostView,
    SubscriptionSeen,
)

SEEDS = 12


def world(seed: int) -> Simulation:
    """Return a world with pipelines."""
    return Simulation(seed, draw_pipelines(seed, tuple(KINDS)))


def test_whatever_happens_each_event_is_handled_once_and_all_comes_to_rest() -> None:
    seen: set[str] = set()
    for seed in range(SEEDS):
        simulation = world(seed)
        trace = simulation.run()
        seen |= {f"operate {event.detail[0]}" for event in trace.of("operate")}
        seen |= {f"verdict {event.detail[2]}" for event in trace.of("verdict")}
        seen |= {event.what for event in trace.events}
        post = simulation.witness.post
        seen |= {f"{run.kind} {run.state}" for run in post.runs.values()}
        seen |= {f"delivery {each.state}" for each in post.deliveries.values()}
        seen |= {"released" for each in post.deliveries.values() if each.releases}
        seen |= {"replayed" for each in post.deliveries.values() if each.replays}
        seen |= {"followed" for run in post.runs.values() if run.follows}
    assert seen >= {
        "operate trigger", "operate pause", "operate resume", "operate cancel", "operate replay",
        "operate skip", "operate skip_input", "operate pause_run", "operate retry",
        "verdict applied", "verdict True", "verdict False", "deploy", "crash",
        "producer succeeded", "consumer succeeded", "consumer failed", "consumer cancelled",
        "delivery consumed", "delivery skipped", "released", "replayed", "followed",
    }  # fmt: skip


def test_the_same_seed_gives_the_same_pipelines() -> None:
    assert world(3).run().hash == world(3).run().hash


# --- the rules ------------------------------------------------------------------------------------

SEND = "sim-rooms.Send"
EVENT = EventSeen("e", LETTERS.name, 1, "m", "", b'json:{"by":"outside"}', None)
PENDING = DeliverySeen(SEND, "e", LETTERS.name, 1, "", "pending", None, 1, 0, 0, None)
RESERVED = PENDING._replace(state="reserved", run="r")
HANDLER = HandlerSeen(SEND, "", "sim-rooms", "consumer", SEND, 1, 0, None, None, None, 0, 0)
RUN = HandlerRunSeen("r", "consumer", SEND, "", SEND, "running", "prepared", None, 1)


def view(
    *deliveries: DeliverySeen, event: EventSeen = EVENT, run: HandlerRunSeen = RUN
) -> PostView:
    """Return a view with one event, one handler and one run."""
    made = PostView()
    made.events = {event.uid: event}
    made.deliveries = {(each.handler, each.event): each for each in deliveries}
    made.handlers = {(SEND, ""): HANDLER}
    made.runs = {run.uid: run}
    return made


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        (RESERVED, RESERVED._replace(state="consumed"), "but next published {}"),
        (RESERVED, PENDING, "is pending under the same attempt"),
        (RESERVED, RESERVED._replace(run="other"), "does not follow its run"),
        (RESERVED._replace(state="consumed"), PENDING._replace(attempt=2), "counts wrongly"),
        (RESERVED._replace(state="consumed"), RESERVED, "became"),
    ],
)
def test_a_delivery_that_moves_wrongly_is_reported(
    old: DeliverySeen, new: DeliverySeen, why: str
) -> None:
    before, after = view(old), view(new)
    after.runs["other"] = RUN._replace(uid="other", state="succeeded")
    assert any(why in rule for rule in PostRules().look(before, after, {}, 0))


def test_a_delivery_that_vanishes_is_reported() -> None:
    assert any("vanished" in rule for rule in PostRules().look(view(PENDING), view(), {}, 0))


def test_a_phase_that_goes_back_is_reported() -> None:
    back = view(RESERVED, run=RUN._replace(phase="preparing"))
    broken = PostRules().look(view(RESERVED), back, {}, 0)
    assert any("back to preparing" in rule for rule in broken)


def test_what_keeps_the_rules_is_let_pass() -> None:
    assert list(PostRules().look(view(PENDING), view(RESERVED), {}, 0)) == []
    released = PENDING._replace(attempt=2)
    assert list(PostRules().look(view(RESERVED), view(released), {}, 0)) == []


def test_an_event_that_changes_after_it_was_reserved_is_reported() -> None:
    changed = view(RESERVED, event=EVENT._replace(payload=b'json:{"by":"other"}'))
    assert any("handed out" in rule for rule in broken_tables(view(RESERVED), changed, 0))
    before = view(PENDING)
    assert list(broken_tables(before, changed, 0)) == []


def test_an_event_that_is_not_delivered_is_reported() -> None:
    after = view()
    after.subscriptions = [SubscriptionSeen(LETTERS.name, SEND, 0, 0, 0)]
    assert any("was not delivered" in rule for rule in broken_tables(view(), after, 0))


def test_a_state_that_nobody_has_published_for_is_reported() -> None:
    after = view()
    after.handlers[SEND, ""] = HANDLER._replace(state=b"json:2")
    assert any("the state of" in rule for rule in broken_tables(view(), after, 0))


def test_rest_is_known_by_what_is_open_blocked_or_pending() -> None:
    made = view(PENDING, run=RUN._replace(state="succeeded"))
    assert unrest(made, 0) == [f"1 events are pending for {(SEND, '')}"]
    pair = view(PENDING._replace(handler=PAIRS), run=RUN._replace(state="succeeded"))
    pair.handlers = {(PAIRS, ""): HANDLER._replace(handler=PAIRS)}
    assert unrest(pair, 0) == []


def test_an_event_for_which_two_requests_were_applied_is_reported() -> None:
    answers = {"k1": f"{SEND}|e:0=x", "k2": f"{SEND}|e:0,f:0=y", "k3": f"{SEND}|e:1=z"}
    broken = list(broken_post({}, {}, answers, dict.fromkeys(answers, 1)))
    assert broken == [f"{(SEND, 'e', 0)} was applied 2 times"]
