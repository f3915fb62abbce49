"""Writes that a worker makes for a run beside its commits: fenced as they are."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.flow import FlowId, FlowKind
from onward.core.inbox import MessageKind
from onward.core.instant import MINUTE
from onward.errors import LeaseLost
from onward.model.flow import DeclaredLimits
from onward.model.runs import Move, RunOwner, Started
from onward.model.stopping import ForcedEnd
from onward.store.runs.flows import take_turn
from onward.store.runs.owning import dismiss, dismiss_all, stop_or_cancel
from onward.store.runs.replacing import replace
from tests.conformance.suite.families import each
from tests.conformance.suite.repeating import all_rows
from tests.conformance.suite.samples import QUEUE, SUCCEEDED, a_child, a_message, a_run

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.model.runs import ClaimedRun
    from onward.store import Store
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World

AGAIN = a_run("over")._replace(uid="uid-again")
UNBEGUN = ForcedEnd("cancelled", "replaced", unstarted_only=True)
FLOW = FlowId(FlowKind.KEY, "k", QUEUE)
CANCEL = a_message("uid-child", "cancel", MessageKind.CANCEL)._replace(by_uid=1)

WRITES: dict[str, Callable[[Store, RunOwner], Awaitable[Any]]] = {
    "start": lambda store, owner: store.start(a_run("new"), owner),
    "start again": lambda store, owner: store.start(a_run("over"), owner),
    "replace": lambda store, owner: replace(store, "uid-over", AGAIN, owner),
    "dismiss": lambda store, owner: dismiss(store, owner, ["uid-child"]),
    "dismiss all": lambda store, owner: dismiss_all(store, owner, []),
    "stop": lambda store, owner: stop_or_cancel(store, "uid-child", UNBEGUN, CANCEL, owner),
    "limit": lambda store, owner: store.declare(FLOW, DeclaredLimits(3), owner),
    "turn": lambda store, owner: store.write(lambda tx: take_turn(tx, owner, "k", MINUTE)),
}
FORCED = "ended by force"
LOSSES = ("fence", "lease", "parked", "over", FORCED)
# Starts have a statement of their own; what all others do first is the same.
LOST = [
    *(f"{write}, {FORCED}" for write in WRITES),
    *(f"{write}, {loss}" for write in ("start", "limit") for loss in LOSSES if loss != FORCED),
]
BESIDE = ("SELECT * FROM onward_flow ORDER BY name",)


async def an_owner(worker: Worker) -> tuple[RunOwner, ClaimedRun]:
    """Return the owner of a run that has a child, and the run; another run is over."""
    [run, other] = await worker.owning("a", "over")
    await worker.commit(other, move=SUCCEEDED)
    child = a_child(run, "child")._replace(delay_in=MINUTE, cancel_with_parent=1)
    await worker.commit(run, starts=(child,))
    return RunOwner(worker.name, run.uid, run.fence), run


async def everything(world: World) -> list[list[tuple[Any, ...]]]:
    beside = [[tuple(row) for row in await world.sql(table)] for table in BESIDE]
    return await all_rows(world) + beside


@each(name for name in WRITES if name != "start again")
async def test_an_owner_writes_for_its_run(world: World, write: str) -> None:
    worker = await world.worker()
    owner, _ = await an_owner(worker)
    before = await everything(world)

    await WRITES[write](worker.store, owner)

    assert await everything(world) != before


@each(LOST)
async def test_an_owner_that_lost_its_run_writes_nothing_for_it(world: World, case: str) -> None:
    worker = await world.worker()
    owner, run = await an_owner(worker)
    write, _, loss = case.partition(", ")
    match loss:
        case "fence":
            owner = owner._replace(fence=owner.fence - 1)
        case "lease":
            await worker.leave()
        case "parked":
            await worker.commit(run, move=Move("waiting", due_in=MINUTE))
        case "over":
            await worker.commit(run, move=SUCCEEDED)
        case _:
            await worker.store.stop(run.uid, state="cancelled", reason="forced")
    before = await everything(world)

    with pytest.raises(LeaseLost):
        await WRITES[write](worker.store, owner)

    assert await everything(world) == before


async def test_starts_of_clients_and_of_owners_are_answered_one_by_one(world: World) -> None:
    worker = await world.worker()
    owner, _ = await an_owner(worker)
    lost = owner._replace(fence=owner.fence - 1)
    store = worker.store

    answers = await asyncio.gather(
        store.start(a_run("by a client")),
        store.start(a_run("by an owner"), owner),
        store.start(a_run("by a lost one"), lost),
        store.start(a_run("over")._replace(uid="uid-other"), owner),
        return_exceptions=True,
    )

    kinds = [type(answer) for answer in answers]
    assert kinds == [Started, Started, LeaseLost, Started]
    assert [answer[:2] for answer in answers if isinstance(answer, Started)] == [
        ("uid-by a client", True), ("uid-by an owner", True), ("uid-over", False),
    ]  # fmt: skip
