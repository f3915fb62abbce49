"""Effects that are planned and never sent: they are withdrawn when their run ends."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest

from onward.core.inbox import MessageKind
from onward.core.lease import Fate
from onward.core.replay import CANCEL_IDENTITY
from onward.errors import LeaseLost
from onward.model.effects import Ruling
from onward.model.runs import Move, RunOwner
from onward.store import Attachments, Following
from onward.store.runs.ledger import effect, judge, withdraw_own
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import a_message, a_record, an_effect

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from onward.store import Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

ROUNDS = 10
"""How often two that happen at once are tried."""


async def a_plan(worker: Worker, run: ClaimedRun, asked: int = 0) -> None:
    """Write an effect that waits for approval, called at a position of its run's history."""
    planned = an_effect(run, 1, "planned")._replace(attempt=0, approved=0, start_by_in=None)
    planned = planned._replace(asked=asked)
    outcome = await worker.commit(run, attached=Attachments(effects=(planned,)))
    assert outcome.fate is Fate.DONE


async def standing(store: Store) -> tuple[str, int]:
    row = await effect(store, "key-a")
    assert row is not None
    return row.state, row.version


async def test_a_run_that_is_ended_by_force_withdraws_what_it_planned(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await a_plan(worker, run)

    await worker.store.stop("a", state="cancelled", reason="forced")

    assert await standing(worker.store) == ("withdrawn", 2)


async def test_a_run_that_another_follows_withdraws_what_it_planned(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await a_plan(worker, run)
    await worker.commit(run, move=Move("paused", "approval"))

    await worker.store.follow(Following(run.uid, "uid-next", "retry_of", 0))

    assert await standing(worker.store) == ("withdrawn", 2)


async def test_only_an_owner_withdraws_what_its_run_planned(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await a_plan(worker, run)
    for lost in (
        RunOwner(worker.name, run.uid, run.fence - 1),
        RunOwner("other", run.uid, run.fence),
    ):
        with pytest.raises(LeaseLost):
            await worker.store.write(partial(withdraw_own, owner=lost))
    assert await standing(worker.store) == ("planned", 1)

    owner = RunOwner(worker.name, run.uid, run.fence)
    await worker.store.write(partial(withdraw_own, owner=owner))

    assert await standing(worker.store) == ("withdrawn", 2)


@each(("running", "told to stop", "told, but not its code", "told to stop before", "over"))
async def test_whoever_judges_an_effect_knows_whether_its_run_drops_it(
    world: World, what: str
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    is_told = what.startswith("told")
    if is_told and what != "told to stop":
        await worker.store.send(a_message("a", "cancel", MessageKind.CANCEL))
    position = 0
    if what == "told to stop before":
        position = 1
        await worker.commit(run, a_record(run, position, CANCEL_IDENTITY)._replace(kind="cancel"))
    await a_plan(worker, run, asked=position)
    if what == "told to stop":
        await worker.store.send(a_message("a", "cancel", MessageKind.CANCEL))
    elif what == "over":
        await worker.commit(run, move=Move("failed", "logic"))
    seen: list[bool] = []

    def rule(_: object, __: object, is_dropped: bool) -> Ruling:
        seen.append(is_dropped)
        return Ruling("failed", 0, 0, 0, None, None, "reject", "Ada", "rude")

    await judge(worker.store, "key-a", rule)

    assert seen == [what not in ("running", "told to stop before")]


async def test_no_approval_slips_through_a_cancel(world: World) -> None:
    worker, other = await world.worker(), await world.store()
    for n in range(ROUNDS):
        [run] = await worker.owning(f"{n}")
        planned = an_effect(run, 1, "planned")._replace(attempt=0, approved=0, start_by_in=None)
        await worker.commit(run, attached=Attachments(effects=(planned,)))
        cancel = a_message(run.uid, "cancel", MessageKind.CANCEL)
        dropped: list[bool] = []

        def rule(_: object, __: object, is_dropped: bool, seen: list[bool] = dropped) -> Ruling:
            seen.append(is_dropped)
            return Ruling("planned", 0, 0, 1, 0, None, "approve", "Ada", "fine")

        await asyncio.gather(judge(worker.store, f"key-{n}", rule), other.send(cancel))
        inbox = {row.message: row.seq for row in (await other.look([run.uid]))[run.uid]}
        # Whoever was first in the inbox was first: an approval after a cancel knows of it.
        verdict = next(seq for message, seq in inbox.items() if message.startswith("verdict"))
        assert dropped[-1] == (inbox["cancel"] < verdict)
