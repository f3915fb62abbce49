"""The rules of a world: each is broken here once, and kept once."""

from __future__ import annotations

import pytest

from tests.simulation.simulator.process import Process
from tests.simulation.simulator.rules import (
    WORLD,
    RecordSeen,
    RunSeen,
    View,
    broken_families,
    broken_rules,
)

NOW = 1_000_000
RUN = RunSeen("u", "errand", "running", None, None, "me", 3, 0, 0, None, None)
STEP = RecordSeen("u", ":step#1", 1, 1, "step", "succeeded", None, None, b"x", None, NOW)
TIMER = RecordSeen("u", ":sleep#1", 1, 1, "timer", "succeeded", NOW, None, None, None, NOW)


def a_view(
    run: RunSeen | None = RUN, *records: RecordSeen, leases: tuple[str, ...] = ("me",)
) -> View:
    view = View(NOW, NOW)
    if run is not None:
        view.runs[run.uid] = run
    view.records = {(r.run, r.identity, r.attempt): r for r in records}
    view.leases = dict.fromkeys(leases, NOW + 15)
    return view


def broken(before: View, after: View, *, worker: str | None = "me", name: str = "w") -> list[str]:
    process = Process(name)
    process.worker = worker
    return list(broken_rules(process, before, after))


OTHER = RUN._replace(worker="other", fence=4)
OVER = RUN._replace(state="succeeded", worker=None)
READY = RUN._replace(state="ready", worker=None)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (a_view(), a_view(None), "vanished"),
        (a_view(OVER), a_view(READY), "which was over"),
        (a_view(), a_view(RUN._replace(fence=2)), "went from 3 to 2"),
        (a_view(READY), a_view(OTHER), "rose without a claim"),
        (a_view(OTHER), a_view(READY._replace(fence=5)), "released errand, which belonged to"),
        (a_view(READY), a_view(READY._replace(fence=4)), "released errand, which belonged to"),
        (a_view(OTHER), a_view(OTHER._replace(state="waiting", worker=None)), "belonged to other"),
        (a_view(leases=()), a_view(OVER, leases=()), "had no lease any more"),
        (a_view(OVER), a_view(OVER, STEP), "not running"),
        (a_view(OTHER), a_view(OTHER, STEP), "belonged to other"),
        (a_view(RUN, STEP), a_view(RUN, STEP._replace(payload=b"y")), "which was recorded"),
        (a_view(RUN, STEP), a_view(RUN), "which was recorded"),
        (a_view(), a_view(RUN, TIMER._replace(due=NOW + 1)), "before it was due"),
        (
            a_view(OTHER, leases=("me", "other")),
            a_view(RUN._replace(fence=5), leases=("me", "other")),
            "which has a lease",
        ),
        (a_view(leases=("me", "other")), a_view(leases=("me",)), "took the lease of other"),
    ],
)
def test_a_transaction_that_breaks_a_rule_is_reported(before: View, after: View, why: str) -> None:
    assert any(why in rule for rule in broken(before, after))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (a_view(), a_view(RUN, STEP)),
        (a_view(), a_view(RUN, TIMER)),
        (a_view(), a_view(OVER)),
        (a_view(READY), a_view(RUN._replace(fence=4))),
        (a_view(OTHER), a_view(RUN._replace(fence=5))),
        (a_view(), a_view(READY._replace(fence=4))),
        (a_view(OTHER), a_view(OVER._replace(state="cancelled", fence=5))),
        (a_view(RUN, STEP._replace(state="open", closed_at=None)), a_view(RUN, STEP)),
    ],
)
def test_a_transaction_that_keeps_the_rules_is_let_pass(before: View, after: View) -> None:
    assert broken(before, after) == []


FIRST = OVER._replace(uid="f", id="first")
RETRY = OVER._replace(uid="r", id="first", follows="f", link="retry_of")
PARENT = OVER._replace(uid="p", id="parent")
CHILD = OVER._replace(uid="c", id="child", parent="p", parent_identity=":c#1", result=b"x")
TOLD = STEP._replace(run="p", identity=":c#1", kind="child")


def a_family(*members: RunSeen | RecordSeen) -> View:
    view = View(NOW, NOW)
    for member in members:
        if isinstance(member, RunSeen):
            view.runs[member.uid] = member
        else:
            view.records[member.run, member.identity, member.attempt] = member
    return view


@pytest.mark.parametrize(
    ("family", "why"),
    [
        (a_family(PARENT, CHILD, CHILD._replace(uid="d", id="other")), "started two runs"),
        (a_family(PARENT, CHILD, TOLD._replace(state="failed")), "its parent got failed"),
        (a_family(PARENT, CHILD, TOLD._replace(payload=b"y")), "another result"),
        (a_family(PARENT, CHILD, TOLD._replace(closed_at=None, state="open")), "waits for child"),
        (
            a_family(FIRST, RETRY, STEP._replace(run="f"), STEP._replace(run="r", payload=b"y")),
            "did :step#1 again",
        ),
    ],
)
def test_a_family_that_does_not_agree_is_reported(family: View, why: str) -> None:
    assert any(why in rule for rule in broken_families(family))


@pytest.mark.parametrize(
    "family",
    [
        a_family(PARENT, CHILD, TOLD),
        a_family(PARENT, CHILD._replace(state="failed"), TOLD._replace(state="failed")),
        a_family(FIRST, RETRY, STEP._replace(run="f"), STEP._replace(run="r")),
    ],
)
def test_a_family_that_agrees_is_let_pass(family: View) -> None:
    assert list(broken_families(family)) == []


def test_a_run_that_follows_another_may_begin_with_a_part_of_its_history() -> None:
    before = a_family(FIRST, STEP._replace(run="f"))
    after = a_family(FIRST, RETRY, STEP._replace(run="f"), STEP._replace(run="r"))
    assert broken(before, after) == []
    after.records["r", ":step#1", 1] = STEP._replace(run="r", payload=b"y")
    assert "not running" in broken(before, after)[0]


def test_a_changed_message_is_reported() -> None:
    before, after = a_view(), a_view()
    before.inbox["u", 1] = ("m", "signal", b"x")
    assert "message" in broken(before, after)[0]


def test_the_world_may_end_the_lease_of_a_worker_that_died() -> None:
    before, after = a_view(leases=("me",)), a_view(leases=())
    assert broken(before, after, worker=None, name=WORLD) == []


def test_the_dead_write_nothing() -> None:
    process = Process("ghost")
    process.die()
    assert list(broken_rules(process, a_view(), a_view())) == ["ghost wrote after its death"]


def test_a_wait_that_has_lasted_long_enough_is_not_early_when_the_clock_was_put_back() -> None:
    after = a_view(RUN, TIMER._replace(due=NOW + 5))
    after.steady = NOW + 5
    assert broken(a_view(), after) == []
