"""The rows of flow control: what limits queues, workflows and keys, and how often effects are sent.

What runs are counted is not stored: a claim counts the runs that are running, or hold their places,
while it has the rows of the limits locked. So concurrent claims never exceed a limit, and nothing
leaks: a run counts until it has ended, even when its worker has vanished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onward.core.flow import FlowKind, Hold
from onward.core.lease import MAX_AHEAD
from onward.model.flow import FlowRow
from onward.store.runs.fencing import check_owner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.core.flow import FlowId
    from onward.core.instant import Duration
    from onward.model.flow import DeclaredLimits
    from onward.model.runs import RunOwner
    from onward.store.database import Tx

FORGOTTEN_AT_ONCE: Final = 1000
"""How many rows one transaction deletes, so that none holds others up."""


async def change_flow(
    tx: Tx, flow: FlowId, change: Callable[[FlowRow], FlowRow], owner: RunOwner | None = None
) -> FlowRow:
    """Change the row of a queue, a workflow or a key, and return it.

    Raises:
        LeaseLost: an owner does this for a run that it does not have any more.
    """
    await check_owner(tx, owner)
    where = {"kind": str(flow.kind), "scope": flow.scope, "name": flow.name}
    # A claim locks the rows of its queues before it reads other limits, so it either waits for this
    # change or knows nothing of the runs that are started after it.
    if flow.kind is FlowKind.KEY:
        await tx.fetch("flow_of", kind=str(FlowKind.QUEUE), scope="", name=flow.scope)
    elif flow.kind is FlowKind.WORKFLOW:
        await tx.fetch("lock_queues")
    await tx.fetch("add_flow", **where)
    [row] = await tx.fetch("flow_of", **where)
    before = FlowRow._make(row)
    after = change(before)
    if after == before:
        return after
    given = after._asdict()
    for name in ("starts", "next_at", "turns"):
        del given[name]
    await tx.fetch("set_flow", **given)
    if flow.kind is FlowKind.KEY:
        await tx.fetch("forget_next_starts", scope=flow.scope, name=flow.name)
    if after.limits.hold is Hold.OPEN and before.limits.hold is not Hold.OPEN:
        await tx.fetch("hold_begun", **where)
    return after


async def add_queues(tx: Tx, queues: Iterable[str]) -> None:
    """Add the rows of queues that have none."""
    for queue in sorted(queues):
        await tx.fetch("add_flow", kind=str(FlowKind.QUEUE), scope="", name=queue)


async def is_declared(tx: Tx, flow: FlowId, limits: DeclaredLimits) -> bool:
    """Return whether that is what the code declares already."""
    found = await flows_of(tx, flow)
    return bool(found) and found[0].declared == limits


async def flows_of(tx: Tx, *flows: FlowId) -> list[FlowRow]:
    """Return the rows of queues, workflows and keys, as far as there are any."""
    found: list[FlowRow] = []
    for flow in flows:
        names = tx.array([flow.name])
        rows = await tx.fetch("flows_of", kind=str(flow.kind), scope=flow.scope, names=names)
        found += map(FlowRow._make, rows)
    return found


async def all_flows(tx: Tx) -> list[FlowRow]:
    """Return the rows that operators see."""
    return [FlowRow._make(row) for row in await tx.fetch("all_flows")]


async def take_turn(tx: Tx, owner: RunOwner, name: str, interval: Duration) -> Duration:
    """Reserve the next send of an effect for a run; return how long to wait before it.

    Raises:
        LeaseLost: the run is not the owner's any more.
    """
    await check_owner(tx, owner)
    rows = await tx.fetch("take_turn", name=name, interval=interval, ahead=MAX_AHEAD)
    return max(0, int(rows[0][0]))


async def has_idle_keys(tx: Tx) -> bool:
    """Return whether there are rows of keys that only remember starts which count no more."""
    return bool(await tx.fetch("has_idle_keys"))


async def forget_idle_keys(tx: Tx) -> int:
    """Delete some of the rows of keys that only remember starts which count no more."""
    return len(await tx.fetch("delete_idle_keys", limit=FORGOTTEN_AT_ONCE))
