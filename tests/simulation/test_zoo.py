"""The zoo: bugs that are put in on purpose. A simulation that misses one of them proves little."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.instant import SECOND
from onward.core.lease import Fate
from onward.core.run import RunState
from onward.engine.local_worker import LocalWorker
from onward.model.commits import CommitOutcome
from onward.runtime.attempts.attempt import Attempt
from onward.runtime.body.waits import Waits
from onward.runtime.execution.journal import Journal
from onward.store.store import Store
from tests.simulation.simulator import Failed, Simulation
from tests.simulation.simulator.families import FAMILIES
from tests.simulation.simulator.measured import limits
from tests.simulation.simulator.plan import Plan, draw_plan
from tests.simulation.simulator.sample_workflows import SAMPLES, patience
from tests.simulation.zoo import caught, quiet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from onward.core.instant import Instant
    from onward.core.lease import Row, Write
    from onward.engine.notes import Noted
    from onward.model.commits import Answered, Commit
    from onward.model.messages import InboxRow
    from onward.model.records import RecordRow
    from onward.model.runs import Move
    from onward.runtime.body.calls import Call
    from onward.runtime.body.waits import RunInbox

MAX_SEEDS = 60
KINDS = (*SAMPLES, *FAMILIES)


def a_plan(seed: int) -> Plan:
    """Return a plan with runs of kinds that look for nothing themselves."""
    return draw_plan(seed, KINDS)


def first_failure(plan: Callable[[int], Plan] = a_plan) -> Failed | None:
    """Return how the first world that sees the bug fails."""
    for seed in range(MAX_SEEDS):
        try:
            Simulation(seed, plan(seed)).run()
        except Failed as failed:
            return failed
    return None


def test_a_result_that_is_handed_out_before_it_is_written_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patiently = LocalWorker.submit

    def hastily(self: LocalWorker, commit: Commit, then: Answered) -> None:
        if not commit.is_plain:
            patiently(self, commit, then)
            return
        patiently(self, commit, lambda _: None)
        early = CommitOutcome(Fate.DONE, self._store.machine_time())
        asyncio.get_running_loop().call_soon(then, early)

    monkeypatch.setattr(LocalWorker, "submit", hastily)
    failure = first_failure()
    assert failure is not None
    assert "never recorded" in str(failure)


def standing_still(seed: int) -> Plan:
    """Return a plan in which what a worker sent arrives after another has taken its runs."""
    return replace(a_plan(seed), crashes=(), stops=(), outages=(), jumps=(), freezes=1.0)


def blind_fate(row: Row | None, write: Write, *, leased: bool) -> Fate:
    """Return the fate of a write without a look at the lease, the fence and the owner."""
    if row is None or (row.state is not RunState.RUNNING and not write.moves):
        return Fate.LOST
    return Fate.DONE


def test_a_write_without_a_look_at_the_fence_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.store.sqlite.batch.fate", blind_fate)
    failure = first_failure(standing_still)
    assert failure is not None
    signs = ("belong", "not running", "had no lease", "never recorded", "check_positions")
    assert any(sign in str(failure) for sign in signs)


def test_a_wake_that_is_lost_because_the_inbox_is_not_read_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    carefully = Journal.park

    def blindly(
        self: Journal, opened: Iterable[Call], move: Move, then: Callable[[Fate], None]
    ) -> None:
        carefully(self, opened, move._replace(seen=None), then)

    monkeypatch.setattr(Journal, "park", blindly)
    failure = first_failure()
    assert failure is not None
    assert "not over after" in str(failure)


def test_a_timer_that_goes_off_early_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    punctually = Waits.ready

    def early(self: Waits, mail: RunInbox, now: Instant) -> Iterator[tuple[Call, InboxRow | None]]:
        return punctually(self, mail, now + 4 * SECOND)

    monkeypatch.setattr(Waits, "ready", early)
    failure = caught(lambda seed: quiet(seed, limits.name, patience.name, warm=0), MAX_SEEDS)
    assert "before it was due" in failure or "s took" in failure


def test_a_history_that_is_not_read_back_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(self: Store, uids: Iterable[str]) -> dict[str, list[RecordRow]]:
        return {uid: [] for uid in uids}

    monkeypatch.setattr(Store, "history", nothing)
    failure = first_failure()
    assert failure is not None
    assert "after it was recorded" in str(failure)


def test_a_retry_that_begins_from_nothing_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.engine.following.retry_cut", lambda *_, **__: 0)
    failure = first_failure()
    assert failure is not None
    assert "again when it was retried" in str(failure)


def test_a_child_that_does_not_tell_its_end_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.engine.owned_runs.end_messages", lambda *_: ())
    failure = first_failure()
    assert failure is not None
    assert "not over after" in str(failure)


def test_a_count_that_is_kept_from_an_attempt_that_failed_is_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exactly = Attempt.__init__
    noted: dict[tuple[str, str], Noted] = {}

    def carried_over(self: Attempt, *args: Any, **kwargs: Any) -> None:
        exactly(self, *args, **kwargs)
        self._noted = noted.setdefault((self.run.uid, self.identity), self.noted)

    monkeypatch.setattr(Attempt, "__init__", carried_over)
    failure = first_failure()
    assert failure is not None
    assert "counted" in str(failure)


def test_a_failing_world_fails_in_the_same_way_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.store.sqlite.batch.fate", blind_fate)
    failure = first_failure(standing_still)
    assert failure is not None
    with pytest.raises(Failed) as again:
        Simulation(failure.trace.seed, standing_still(failure.trace.seed)).run()
    assert again.value.broken == failure.broken
    assert again.value.trace.hash == failure.trace.hash
