"""Writes that a worker makes for a run, but not in a commit of that run.

They are fenced as commits are: their transaction holds the worker's lease and the row of the run,
and the run must still be running under the worker's fence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.model.ends import to_children
from onward.store.runs.fencing import check_owner
from onward.store.runs.stopping import bound_children, stop, subjects_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.model.messages import NewMessage
    from onward.model.runs import RunOwner
    from onward.model.stopping import ForcedEnd
    from onward.store.database import Tx
    from onward.store.store import Store


async def dismiss(store: Store, owner: RunOwner, children: Sequence[str]) -> None:
    """Cancel children of a run, or the runs that follow them by now.

    Raises:
        LeaseLost: the run is not the owner's any more.
    """

    async def work(tx: Tx) -> set[str]:
        await check_owner(tx, owner, children)
        return subjects_of(await tx.send(to_children(children)))

    store.database.publish(await store.write(work))


async def dismiss_all(store: Store, owner: RunOwner, children: Sequence[str]) -> None:
    """Cancel these children of a run, and all others that are cancelled with it.

    Raises:
        LeaseLost: the run is not the owner's any more.
    """

    async def work(tx: Tx) -> set[str]:
        found = sorted({*children, *await bound_children(tx, owner.run)})
        await check_owner(tx, owner, found)
        return subjects_of(await tx.send(to_children(found)))

    store.database.publish(await store.write(work))


async def stop_or_cancel(
    store: Store, uid: str, unbegun: ForcedEnd, cancel: NewMessage, owner: RunOwner | None = None
) -> None:
    """End a run that was never claimed, or cancel one that was.

    Raises:
        LeaseLost: an owner does this for a run that it does not have any more.
    """

    async def work(tx: Tx) -> set[str]:
        await check_owner(tx, owner, [uid])
        stopped, subjects = await stop(tx, uid, unbegun, by_uid=True)
        if stopped.fate == "started":
            subjects |= subjects_of(await tx.send([cancel]))
        return subjects

    store.database.publish(await store.write(work))
