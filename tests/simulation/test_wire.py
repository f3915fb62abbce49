"""Worlds whose workers and clients reach the database through servers, over a wire that breaks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onward.errors import Unavailable
from onward.model.runs import Started
from onward.server.rights import WorkerRights
from onward.wire.commit_queue import CommitQueue
from onward.wire.remote_client import OperationCaller
from tests.simulation.simulator import Simulation
from tests.simulation.simulator.plan import Stop, Wire, draw_wire
from tests.simulation.simulator.purchases import purchases
from tests.simulation.simulator.sample_workflows import branches, talk
from tests.simulation.test_zoo import blind_fate
from tests.simulation.zoo import CALM, caught, quiet, rewrite

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from tests.simulation.simulator.plan import Plan

QUIET = Wire(delay=0.05, cuts=0.0, calls_lost=0.0, clears=60.0)


def behind_servers(seed: int) -> Plan:
    """Return the plan of a world with servers."""
    return draw_wire(seed, Simulation(seed).plan)


def breaking(seed: int) -> Plan:
    """Return a world in which nothing but streams breaks."""
    return replace(quiet(seed, branches.name), wire=replace(QUIET, cuts=0.05))


def losing(seed: int) -> Plan:
    """Return a world in which nothing but calls of clients and renewals get lost."""
    return replace(quiet(seed, branches.name), wire=replace(QUIET, calls_lost=0.5))


def troubled(seed: int) -> Plan:
    """Return a world in which everything happens to frames and calls, and often."""
    wire = replace(QUIET, cuts=0.05, calls_lost=0.3, stalls=0.03)
    return replace(
        quiet(seed, branches.name), workflows=(branches.name, talk.name, talk.name), wire=wire
    )


def slow(seed: int) -> Plan:
    """Return a world in which an intent is written more slowly than its effect may begin."""
    wire = replace(QUIET, delay=1.0)
    return replace(
        quiet(seed, purchases.name),
        workflows=(purchases.name,),
        warm=seed % 2,
        weather=replace(CALM, delay=0.5),
        wire=wire,
    )


def test_whatever_happens_to_servers_every_run_ends_right_and_no_rule_is_broken() -> None:
    for seed in range(20):
        Simulation(seed, behind_servers(seed)).run()


def test_a_world_with_servers_can_be_had_again() -> None:
    first, second = (Simulation(5, behind_servers(5)).run().hash for _ in range(2))
    assert first == second


def test_effects_are_sent_though_each_write_takes_longer_than_they_may_begin() -> None:
    for seed in range(2):  # with a body that is kept while it waits, and without
        Simulation(seed, slow(seed)).run()


def test_a_worker_hears_of_its_lost_lease_while_it_reads_inboxes_and_goes_on() -> None:
    Simulation(3123, behind_servers(3123)).run()


def test_a_cleanup_has_its_time_though_the_clock_is_set_while_its_worker_reconnects() -> None:
    Simulation(902243, behind_servers(902243)).run()


def test_an_event_that_is_replayed_while_its_run_prepares_is_prepared_again() -> None:
    Simulation(911936, behind_servers(911936)).run()


def test_a_step_that_outlasts_the_drain_of_its_worker_may_begin_elsewhere() -> None:
    Simulation(1011055, behind_servers(1011055)).run()


def test_every_kind_of_frame_and_call_is_lost_and_comes_late_or_twice() -> None:
    calls = ("start_many", "signal_many", "Renew")
    wanted = {(call, what) for call in calls for what in ("lost", "reply lost", "twice", "late")}
    frames = ("commits", "claim", "watch")
    wanted |= {(f"{each} {side}", "lost") for each in frames for side in ("request", "response")}
    wanted |= {(f"{each} request", "late") for each in ("commits", "claim")}
    befell: Counter[tuple[str, str]] = Counter()
    for seed in range(20):
        world = Simulation(seed, troubled(seed))
        world.run()
        assert world.servers is not None
        befell += world.servers.befell
        if wanted <= befell.keys():
            break
    assert wanted <= befell.keys(), wanted - befell.keys()


# --- bugs that are put in on purpose --------------------------------------------------------------


def test_commits_that_are_not_sent_again_on_the_next_stream_are_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exchange = CommitQueue._exchange

    async def forgets(self: Any) -> None:
        if self._wire is None:
            self._sent.clear()
        await exchange(self)

    monkeypatch.setattr(CommitQueue, "_exchange", forgets)
    said = caught(breaking, 10)
    assert "not over" in said or "check_positions" in said  # if a later commit was written


def test_a_commit_that_is_applied_twice_when_it_is_sent_again_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rewrite(monkeypatch, "add_record", "WHERE r.state = 'open'", "WHERE r.state <> ''")
    assert "which was recorded" in caught(breaking, 10)


def test_an_answer_that_is_taken_for_that_of_another_commit_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answered = CommitQueue.answered

    def mistakes(self: Any, reply: Any, at: int) -> None:
        newest = list(self._sent)[::-1][: len(reply.done)]
        del reply.done[:]
        reply.done.extend(newest)
        answered(self, reply, at)

    monkeypatch.setattr(CommitQueue, "answered", mistakes)
    assert "none of" not in caught(breaking, 10)


def test_a_start_that_is_acknowledged_though_no_server_answered_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call_many = OperationCaller.call_many

    async def hopes(self: Any, name: str, items: list[Mapping[str, Any]]) -> list[Any]:
        try:
            return await call_many(self, name, items)
        except Unavailable:
            runs = [item["run"] for item in items]
            return [Started(run.uid, True, run.name, "", "ready") for run in runs]

    monkeypatch.setattr(OperationCaller, "call_many", hopes)
    assert "more than once" in caught(losing, 10)


def test_a_worker_that_goes_on_writing_after_it_lost_its_lease_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def frozen(seed: int) -> Plan:
        plan = quiet(seed, branches.name, workflows=(branches.name,) * 4, slots=2, wire=QUIET)
        return replace(plan, stops=(Stop(0, 80, 22),))

    monkeypatch.setattr("onward.store.sqlite.batch.fate", blind_fate)
    monkeypatch.setattr(WorkerRights, "has", lambda *_: True)
    said = caught(frozen, 10, first=2)
    assert any(sign in said for sign in ("belonged to", "had no lease", "never recorded"))
