"""The runs of a worker, as its engine knows them, and what their ends mean for their parents."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward.model.commits import Commit
from onward.model.ends import child_end, to_parent

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from onward.model.messages import NewMessage
    from onward.model.runs import Move
    from onward.store.store import Store


class OwnedRun(NamedTuple):
    """A run of a worker: its fence, its parent, and the call of the parent that waits for it."""

    fence: int
    parent: str | None = None
    parent_identity: str | None = None


def end_messages(run: OwnedRun, move: Move) -> tuple[NewMessage, ...]:
    """Return the messages of a run that ends: one to its parent, if it has one."""
    if run.parent is None or run.parent_identity is None:
        return ()
    end = child_end(move.state, move.reason, move.result, move.error)
    return (to_parent(run.parent, run.parent_identity, end),)


def with_end_messages(commit: Commit, run: OwnedRun, move: Move) -> Commit:
    """Return the commit that ends a run and also sends its end to its parent."""
    messages = end_messages(run, move)
    if not messages:
        return commit
    return Commit(
        commit.run,
        commit.fence,
        commit.records,
        commit.move,
        messages,
        commit.starts,
        commit.attached,
    )


async def read_owned(store: Store, worker: str, uids: Collection[str]) -> Mapping[str, OwnedRun]:
    """Return those of some runs that are assigned to a worker."""
    rows = await store.read(
        lambda tx: tx.fetch("owned_parents", worker=worker, uids=tx.array(uids))
    )
    return {uid: OwnedRun(*rest) for uid, *rest in rows}
