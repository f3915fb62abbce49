"""Ends of handlers' runs: whoever ends one, what follows is what the core says.

One question is asked of the core and of the store for every state in which a run can end, every
state of its effect, and everyone who can end it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.core.delivery import Ending, RetryStart
from onward.core.effect import EffectState
from onward.core.handler import sequel
from onward.core.instant import MINUTE, SECOND
from onward.core.run import MAX_CRASHES, Reason, RunState
from onward.model.runs import Move, RunOwner
from onward.store import Attachments
from onward.store.pipelines.owned_ends import end_handler
from tests.conformance.suite.families import each
from tests.conformance.suite.pipeline import (
    ADD,
    Delivery,
    a_step,
    an_effect_record,
    complete,
    declare,
    deliveries,
    kept,
    launched,
    peeked,
    prepare,
    prepared,
    publish,
)
from tests.conformance.suite.samples import an_effect

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.model.following import Followed
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

    End = Callable[[Worker, ClaimedRun], Awaitable[object]]

CODE = "code-1"


class Ended(NamedTuple):
    """How a run ends, and whether it is tried again."""

    state: RunState
    reason: Reason | None
    will_retry: bool
    end: End


def by_owner(state: str, reason: str | None, retry_in: int | None = None) -> Ended:
    async def end(worker: Worker, run: ClaimedRun) -> Followed:
        return await end_run(worker, run, Move(state, reason, error=b"e"), retry_in)

    why = None if reason is None else Reason(reason)
    return Ended(RunState(state), why, retry_in is not None, end)


async def end_run(
    worker: Worker, run: ClaimedRun, move: Move, retry_in: int | None = None
) -> Followed:
    owner = RunOwner(worker.name, run.uid, run.fence)
    return await end_handler(worker.store, owner, move, CODE, retry_in)


async def cancel_by_force(worker: Worker, run: ClaimedRun) -> None:
    await worker.store.stop(run.uid, state="cancelled", reason="forced")


async def give_up_at_the_crash_limit(worker: Worker, run: ClaimedRun) -> None:
    assert await worker.store.give_up(
        RunOwner(worker.name, run.uid, run.fence), Move("failed", "crashed"), CODE
    )


async def pass_the_deadline(worker: Worker, run: ClaimedRun) -> None:
    await worker.store.stop(run.uid, state="timed_out", reason="deadline")


ENDS = {
    "owner, its code failed": by_owner("failed", "logic"),
    "owner, the engine failed": by_owner("failed", "internal"),
    "owner, a precondition is missing": by_owner("failed", "precondition"),
    "owner, tried often enough": by_owner("failed", "transient"),
    "owner, tried again at once": by_owner("failed", "transient", 0),
    "owner, tried again later": by_owner("failed", "transient", 10 * SECOND),
    "owner, cancelled": by_owner("cancelled", "operator"),
    "owner, out of time": by_owner("timed_out", "deadline"),
    "operator, by force": Ended(RunState.CANCELLED, Reason.FORCED, False, cancel_by_force),
    "crash limit": Ended(RunState.FAILED, Reason.CRASHED, False, give_up_at_the_crash_limit),
    "deadline": Ended(RunState.TIMED_OUT, Reason.DEADLINE, False, pass_the_deadline),
}
EFFECTS: tuple[EffectState | None, ...] = (None, *EffectState)
CASES = {
    f"{who}, {effect or 'no effect'}": (how, effect)
    for who, how in ENDS.items()
    for effect in EFFECTS
}


async def with_effect(world: World, state: EffectState | None) -> tuple[Worker, ClaimedRun]:
    """Return a consumer's run that has reserved an event and made its effect, in this state."""
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1", "m2")
    run = await prepared(worker, "m1")
    if state is None:
        return worker, run
    first = "planned" if state in ("planned", "withdrawn") else "in_flight"
    await worker.commit(
        run,
        an_effect_record(run, None),
        attached=Attachments(effects=(an_effect(run, 1, first),)),
    )
    if state != first:
        is_known = state in (EffectState.APPLIED, EffectState.SKIPPED)
        record = an_effect_record(run, 2 if is_known else None)
        effects = (an_effect(run, 2, state),)
        await worker.commit(run, record, attached=Attachments(effects=effects))
    return worker, run


@each(CASES)
async def test_what_follows_the_end_of_a_run_is_what_the_core_says(world: World, case: str) -> None:
    how, effect = CASES[case]
    worker, run = await with_effect(world, effect)
    before = await kept(world)

    await how.end(worker, run)

    told = sequel(how.state, how.reason, effect, will_retry=how.will_retry)
    row = await worker.store.run(run.uid)
    assert (row.state, row.reason) == (how.state, how.reason)
    [first, second] = await deliveries(world)
    assert second == Delivery("event-m2", "pending", None, 1)
    after = await kept(world)
    follower = (await worker.store.end(run.uid)).follower
    assert (follower is not None) == (told.start is not None)
    assert (after.blocked_by == run.uid) == told.blocks
    assert after.failures == before.failures + told.blocks
    if told.events is Ending.RELEASE:
        assert first == Delivery("event-m1", "pending", None, 2)
        assert after.published == before.published + 1
        [[releases]] = await world.sql("SELECT releases FROM onward_delivery WHERE seq = 1")
        assert releases == told.at_fault
    else:
        assert told.events is Ending.KEEP
        assert first == Delivery("event-m1", "reserved", follower or run.uid, 1)
        assert after.published == before.published
    if follower is not None:
        history = (await worker.store.history([follower]))[follower]
        copied = [record.name for record in history if record.seq is not None]
        assert copied == (["prepare", "charge"] if told.start is RetryStart.AT_NEXT else [])
        assert (await worker.store.run(follower)).attempt == 2


async def test_a_block_notes_the_code_and_stops_the_handler(world: World) -> None:
    worker, run = await with_effect(world, None)

    await end_run(worker, run, Move("failed", "logic"))

    row = await kept(world)
    assert (row.blocked_by, row.blocked_code, row.failures) == (run.uid, CODE, 1)
    assert await launched(worker) == []


async def test_a_cancelled_run_before_its_effect_leaves_its_events_to_the_next(
    world: World,
) -> None:
    worker, run = await with_effect(world, None)

    await cancel_by_force(worker, run)

    [again] = await launched(worker)
    assert [event.attempt for event in await peeked(worker.store)] == [2, 1]
    assert (await prepare(worker, again, "m1", "m2")).fate == "done"


async def test_a_cancelled_run_past_its_effect_still_owes_next(world: World) -> None:
    """E3 and E4: the run that follows consumes what the first one has reserved."""
    worker, run = await with_effect(world, EffectState.APPLIED)

    await cancel_by_force(worker, run)

    [after] = await launched(worker)
    assert (after.follows, after.link, after.handler) == (run.uid, "retry_of", ADD)
    assert after.origin == (await worker.store.run(run.uid)).origin
    await complete(worker, after, seq=3)
    assert (await deliveries(world))[0] == Delivery("event-m1", "consumed", after.uid, 1)


async def test_a_retry_that_fails_in_its_turn_keeps_the_events(world: World) -> None:
    """The effect is in the ledger under the run that has made it."""
    worker, run = await with_effect(world, EffectState.APPLIED)
    await end_run(worker, run, Move("failed", "transient"), 0)
    [again] = await launched(worker)

    await end_run(worker, again, Move("failed", "logic"))

    assert (await deliveries(world))[0] == Delivery("event-m1", "reserved", again.uid, 1)
    assert (await kept(world)).blocked_by == again.uid


async def test_what_next_had_begun_is_not_copied(world: World) -> None:
    worker, run = await with_effect(world, EffectState.APPLIED)
    await worker.commit(run, a_step(run, "next", 3, "failed"))

    followed = await end_run(worker, run, Move("failed", "transient", seq=3), SECOND)

    assert followed.uid is not None
    history = (await worker.store.history([followed.uid]))[followed.uid]
    assert [(record.name, record.seq) for record in history] == [("prepare", 1), ("charge", 2)]


async def test_a_transient_failure_is_followed_after_its_delay(world: World) -> None:
    """E5: a new run waits, and holds the lane meanwhile."""
    worker, run = await with_effect(world, None)

    followed = await end_run(worker, run, Move("failed", "transient"), MINUTE)

    assert (followed.fate, followed.state) == ("made", "waiting")
    assert await launched(worker) == []
    world.clock.advance(MINUTE)
    [again] = await launched(worker)
    assert again.uid == followed.uid


async def test_a_run_that_follows_has_the_causes_of_the_first(world: World) -> None:
    worker, run = await with_effect(world, EffectState.APPLIED)
    await world.sql(
        "INSERT INTO onward_cause (namespace, kind, target, input)"
        f" VALUES ('default', 'run', '{run.uid}', 'input-1')"
    )

    followed = await end_run(worker, run, Move("failed", "transient"), 0)

    rows = await world.sql("SELECT target FROM onward_cause WHERE kind = 'run' ORDER BY target")
    assert sorted(row[0] for row in rows) == sorted([run.uid, str(followed.uid)])


async def test_an_end_whose_reply_was_lost_is_recognised(world: World) -> None:
    worker, run = await with_effect(world, None)
    end = Move("failed", "transient")

    first = await end_run(worker, run, end, MINUTE)
    again = await end_run(worker, run, end, MINUTE)

    assert first == again
    assert (await deliveries(world))[0].attempt == 2


async def test_a_final_end_whose_reply_was_lost_is_recognised(world: World) -> None:
    worker, run = await with_effect(world, None)

    first = await end_run(worker, run, Move("failed", "logic"))
    again = await end_run(worker, run, Move("failed", "logic"))

    assert first == again == (None, "ended", "failed", "")
    assert (await kept(world)).failures == 1


async def test_an_owner_that_lost_its_run_ends_nothing(world: World) -> None:
    worker, run = await with_effect(world, EffectState.PLANNED)
    await worker.leave()

    followed = await end_run(worker, run, Move("failed", "logic"))

    assert followed.fate == "lost"
    assert (await worker.store.run(run.uid)).state == "running"
    [[state]] = await world.sql("SELECT state FROM onward_effect")
    assert state == "planned"


async def test_an_end_that_has_not_seen_all_messages_is_refused(world: World) -> None:
    worker, run = await with_effect(world, None)
    await world.sql("UPDATE onward_run SET inbox = 1")

    followed = await end_run(worker, run, Move("cancelled", "operator", seen=0))

    assert followed.fate == "busy"
    assert (await worker.store.run(run.uid)).state == "running"


async def test_an_event_released_too_often_for_a_fault_is_quarantined(world: World) -> None:
    worker, run = await with_effect(world, None)
    await world.sql("UPDATE onward_delivery SET releases = 4 WHERE seq = 1")

    await end_run(worker, run, Move("failed", "logic"))

    [first, _] = await deliveries(world)
    assert first == Delivery("event-m1", "skipped", run.uid, 1)
    [[reason]] = await world.sql("SELECT reason FROM onward_delivery WHERE seq = 1")
    assert reason == "quarantined"
    [[skipped]] = await world.sql("SELECT skipped FROM onward_subscription")
    assert skipped == 1


async def test_a_run_without_events_is_ended_by_its_deadline_before_it_began(world: World) -> None:
    worker = await world.worker()
    await declare(worker.store, ADD)
    await publish(worker.store, "m1")
    [run] = await launched(worker)
    await worker.commit(run, move=Move("ready"))
    await world.sql("UPDATE onward_run SET fence = 0, deadline = 1")

    assert await worker.store.overdue() == 1

    assert (await kept(world)).blocked_by is None
    assert len(await launched(worker)) == 1


async def test_crashes_of_a_run_end_it_with_what_follows(world: World) -> None:
    assert MAX_CRASHES > 1
    worker, run = await with_effect(world, EffectState.IN_FLIGHT)

    await give_up_at_the_crash_limit(worker, run)

    row = await kept(world)
    assert (row.blocked_by, row.blocked_code) == (run.uid, CODE)
    assert (await deliveries(world))[0].state == "reserved"
