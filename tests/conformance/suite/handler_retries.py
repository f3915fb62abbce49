"""Handlers that are blocked: freed by a verdict, an operator or other code, with nothing lost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.delivery import RetryStart, retry_start
from onward.core.effect import EffectState, Verdict
from onward.core.handler import REPAIR_BUDGET, sequel_of_verdict
from onward.core.instant import MINUTE
from onward.engine import following
from onward.engine.effects import resolve
from onward.model.runs import Move
from onward.store import Following
from onward.store.pipelines.freeing import retry_blocked
from tests.conformance.suite.families import each
from tests.conformance.suite.handler_ends import CODE, cancel_by_force, end_run, with_effect
from tests.conformance.suite.pipeline import (
    ADD,
    LOG,
    Delivery,
    complete,
    deliveries,
    kept,
    launched,
    prepared,
)

if TYPE_CHECKING:
    from onward.model.effects import EffectRow
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

EFFECTS = {str(state or "no effect"): state for state in (None, *EffectState)}
OTHER = {f"consumer {ADD}": "code-2"}


async def judged(world: World, worker: Worker, run: ClaimedRun, verdict: Verdict) -> EffectRow:
    world.clock.advance(10 * MINUTE)  # so that nothing can still arrive
    return await resolve(
        worker.store, f"key-{run.id}", verdict, result=b"j1", reason="seen", by="ada", version=None
    )


async def blocked(world: World, effect: EffectState | None) -> tuple[Worker, ClaimedRun]:
    """Return a run that blocks its handler."""
    worker, run = await with_effect(world, effect)
    await end_run(worker, run, Move("failed", "logic"))
    assert (await kept(world)).blocked_by == run.uid
    return worker, run


# --- verdicts -------------------------------------------------------------------------------------


@each({str(verdict): verdict for verdict in Verdict if verdict is not Verdict.ASK_AGAIN})
async def test_a_verdict_on_the_effect_of_an_ended_run_does_what_the_core_says(
    world: World, case: str
) -> None:
    worker, run = await with_effect(world, EffectState.INDETERMINATE)
    await cancel_by_force(worker, run)

    effect = await judged(world, worker, run, Verdict(case))

    told = sequel_of_verdict(EffectState(effect.state))
    follower = (await worker.store.end(run.uid)).follower
    [first, _] = await deliveries(world)
    assert ((await kept(world)).blocked_by == run.uid) == told.blocks
    assert (follower is not None) == (told.start is not None)
    if told.events == "release":
        assert first == Delivery("event-m1", "pending", None, 2)
    else:
        assert first == Delivery("event-m1", "reserved", follower or run.uid, 1)


async def test_after_it_happened_the_run_that_follows_consumes_the_events(world: World) -> None:
    worker, run = await with_effect(world, EffectState.INDETERMINATE)
    await cancel_by_force(worker, run)

    await judged(world, worker, run, Verdict.APPLIED)

    [after] = await launched(worker)
    assert after.follows == run.uid
    await complete(worker, after, seq=2)
    assert (await deliveries(world))[0].state == "consumed"


async def test_after_it_did_not_happen_the_events_are_prepared_again(world: World) -> None:
    worker, run = await with_effect(world, EffectState.INDETERMINATE)
    await cancel_by_force(worker, run)

    await judged(world, worker, run, Verdict.NOT_APPLIED)

    again = await prepared(worker, "m1", "m2")
    assert (again.link, again.attempt) == (None, 1)


async def test_a_verdict_on_an_effect_that_blocks_nothing_starts_nothing(world: World) -> None:
    worker, run = await with_effect(world, EffectState.INDETERMINATE)
    await cancel_by_force(worker, run)
    await world.sql("UPDATE onward_handler SET blocked_by = NULL")
    world.spoiled = True  # its events are held by a run that blocks nothing

    await judged(world, worker, run, Verdict.APPLIED)

    assert (await worker.store.end(run.uid)).follower is None


# --- retries by operators -------------------------------------------------------------------------


@each(EFFECTS)
async def test_an_operators_retry_begins_where_the_core_says(world: World, case: str) -> None:
    effect = EFFECTS[case]
    worker, run = await blocked(world, effect)
    told = retry_start(effect)

    followed = await following.retry(worker.store, run.uid)

    [first, _] = await deliveries(world)
    if not isinstance(told, RetryStart):
        assert (followed.fate, followed.why) == ("refused", told.why)
        assert (await kept(world)).blocked_by == run.uid
        assert first.run == run.uid
        return
    assert followed.fate == "made"
    row = await kept(world)
    assert (row.blocked_by, row.blocked_code, row.failures) == (None, None, 1)
    history = (await worker.store.history([str(followed.uid)]))[str(followed.uid)]
    if told is RetryStart.AT_NEXT:
        assert first == Delivery("event-m1", "reserved", followed.uid, 1)
        assert [record.name for record in history] == ["prepare", "charge"]
    else:
        assert first == Delivery("event-m1", "pending", None, 2)
        assert history == []


@each({"no effect": None, "applied": EffectState.APPLIED})
async def test_a_paused_run_that_is_retried_gives_its_events_back_or_hands_them_over(
    world: World, case: str
) -> None:
    effect = None if case == "no effect" else EffectState.APPLIED
    worker, run = await with_effect(world, effect)
    await worker.commit(run, move=Move("paused", "precondition"))

    followed = await following.retry(worker.store, run.uid)

    assert followed.fate == "made"
    [first, _] = await deliveries(world)
    assert first == (
        Delivery("event-m1", "pending", None, 2)
        if effect is None
        else Delivery("event-m1", "reserved", followed.uid, 1)
    )


async def test_a_retry_is_refused_while_another_run_of_the_lane_is_open(world: World) -> None:
    worker, run = await with_effect(world, None)
    await cancel_by_force(worker, run)
    [other] = await launched(worker)

    followed = await following.retry(worker.store, run.uid)

    assert followed.fate == "refused"
    assert other.uid in followed.why


async def test_a_retry_is_refused_while_another_run_blocks_the_lane(world: World) -> None:
    worker, run = await with_effect(world, None)
    await cancel_by_force(worker, run)
    [other] = await launched(worker)
    await end_run(worker, other, Move("failed", "logic"))

    followed = await following.retry(worker.store, run.uid)

    assert followed.fate == "refused"
    assert other.uid in followed.why


async def test_a_run_of_a_pipeline_cannot_be_forked(world: World) -> None:
    worker, run = await blocked(world, EffectState.APPLIED)

    followed = await following.fork(worker.store, run.uid, None)

    assert (followed.fate, followed.why) == (
        "refused",
        "it is a run of a pipeline; replay its events instead",
    )


# --- other code -----------------------------------------------------------------------------------


async def test_other_code_frees_a_blocked_handler(world: World) -> None:
    worker, run = await blocked(world, None)

    assert await retry_blocked(worker.store, {f"consumer {ADD}": CODE}) == 0
    assert await retry_blocked(worker.store, OTHER) == 1

    [again] = await launched(worker)
    assert (again.follows, again.attempt) == (run.uid, 2)
    assert await retry_blocked(worker.store, OTHER) == 0


async def test_code_of_other_handlers_frees_nothing(world: World) -> None:
    worker, run = await blocked(world, None)

    assert await retry_blocked(worker.store, {f"consumer {LOG}": "code-2", "greet": "x"}) == 0

    assert (await kept(world)).blocked_by == run.uid


async def test_other_code_does_not_free_what_is_uncertain(world: World) -> None:
    worker, run = await blocked(world, EffectState.INDETERMINATE)

    assert await retry_blocked(worker.store, OTHER) == 0

    assert (await kept(world)).blocked_by == run.uid


async def test_other_code_is_tried_only_so_often_in_a_row(world: World) -> None:
    worker, run = await with_effect(world, None)
    for number in range(REPAIR_BUDGET):
        await end_run(worker, run, Move("failed", "logic"))
        codes = {f"consumer {ADD}": f"repair-{number}"}
        is_last = number == REPAIR_BUDGET - 1
        assert await retry_blocked(worker.store, codes) == (0 if is_last else 1)
        if not is_last:
            [run] = await launched(worker)

    row = await kept(world)
    assert (row.blocked_by, row.failures) == (run.uid, REPAIR_BUDGET)


async def test_a_handler_that_a_deleted_run_blocks_is_freed(world: World) -> None:
    worker, _ = await blocked(world, None)
    await world.sql("UPDATE onward_handler SET blocked_by = 'deleted'")

    assert await retry_blocked(worker.store, OTHER) == 1

    assert (await kept(world)).blocked_by is None


async def test_a_repeated_retry_makes_one_run(world: World) -> None:
    worker, run = await blocked(world, EffectState.APPLIED)
    wish = Following(run.uid, worker.store.new_uid(), "retry_of")

    first = await worker.store.follow(wish)
    again = await worker.store.follow(wish)

    assert first == again
    assert len(await launched(worker)) == 1
