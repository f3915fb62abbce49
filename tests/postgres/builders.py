"""Runs, records and claims, made with what a test does not care about filled in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.model.messages import NewMessage
from onward.model.records import NewRecord
from onward.model.runs import NewRun
from onward.store import Wanted

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from onward.store import Store

WORKER = "worker-1"
OTHER = "worker-2"
LONG = 3600 * SECOND

RUN_OUT = "UPDATE onward.onward_lease SET renewed_at = 0 WHERE worker = $1"
"""Lets the lease of a worker have run out."""

STEADY = "UPDATE onward.onward_lease SET steady_since = 0 WHERE worker = $1"
"""Lets a worker have been in contact for long: it may take leases away that ran out."""


def a_run(uid: str, **changes: Any) -> NewRun:
    given: dict[str, Any] = {"id": f"id of {uid}", "name": "hello"}
    return NewRun(uid, input=b"{}", args_hash="h", **given | changes)


def a_record(run: str, seq: int | None = 1, **changes: Any) -> NewRecord:
    given: dict[str, Any] = {
        "identity": f"greet#{seq}", "attempt": 1, "kind": "step", "name": "greet",
        "state": "open" if seq is None else "succeeded", "payload": b"1",
    }  # fmt: skip
    return NewRecord(run=run, seq=seq, **given | changes)


def a_message(target: str, message: str = "m1", **changes: Any) -> NewMessage:
    return NewMessage(target, message, **{"kind": "signal", "name": "go", **changes})


def wanted(worker: str = WORKER, limit: int = 100, **changes: Any) -> Wanted:
    given: dict[str, Any] = {"queues": ("default",), "names": ("hello",)}
    return Wanted(worker, limit=limit, **given | changes)


async def claimed(store: Store, *uids: str, worker: str = WORKER) -> dict[str, ClaimedRun]:
    """Start runs, give the worker a lease if it has none, and let it claim them."""
    for uid in uids:
        await store.start(a_run(uid))
    await store.take_lease(worker, LONG)
    found = {run.uid: run for run in await store.claim(wanted(worker))}
    assert set(found) >= set(uids)
    return found
