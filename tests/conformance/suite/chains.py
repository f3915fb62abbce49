"""Runs that are followed, and the wish to follow them, for the tests of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.model.runs import Move
from onward.store import Following
from tests.conformance.suite.samples import a_record, an_open_record

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker

FAILED = Move("failed", "logic", error=b"jboom", failed_call="step#3")
CONTINUED = Move("succeeded", "continued", result=b"")
RETRY = Following("uid-a", "uid-next", "retry_of", None)
LINKS = ("retry_of", "continued_from", "forked_from", "replaces")


async def a_failed_run(worker: Worker) -> ClaimedRun:
    """Return a run that made three calls, one of them twice, and failed while another was open."""
    [run] = await worker.owning("a")
    failed = a_record(run, 2)._replace(seq=None, state="failed", payload=None, error=b"jonce")
    await worker.commit(run, a_record(run, 1), failed, a_record(run, 2)._replace(attempt=2))
    await worker.commit(
        run,
        a_record(run, 3)._replace(state="failed", payload=None, error=b"jboom"),
        an_open_record(run, "w#1"),
        move=FAILED._replace(seq=3),
    )
    return run


def owned(run: ClaimedRun, worker: Worker, link: str, end: Move, **more: Any) -> Following:
    """Return what the owner of a running run asks for."""
    given = {"cut": 0, "worker": worker.name, "fence": run.fence, "end": end, **more}
    return Following(run.uid, "uid-next", link, **given)


async def mail(worker: Worker, uid: str = "uid-next") -> list[tuple[int, str]]:
    """Return the numbers and ids of what lies in the inbox of a run."""
    return [(row.seq, row.message) for row in (await worker.store.look([uid]))[uid]]
