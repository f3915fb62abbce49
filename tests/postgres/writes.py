"""Every kind of write there is, each as one call on a small prepared world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.core.flow import FlowId, FlowKind
from onward.core.lease import Fate
from onward.model.commits import NOTHING_ATTACHED
from onward.model.effects import EffectWrite
from onward.model.flow import DeclaredLimits
from onward.model.pipelines import (
    Completion,
    HandlerSpec,
    NewEvent,
    PipelineSpec,
    PipelineWrite,
    Preparation,
    Reservation,
    TopicSpec,
)
from onward.model.runs import Move, RunOwner
from onward.store import Attachments, Commit, Following, Store
from onward.store.pipelines.declaring import declare
from onward.store.pipelines.launching import LaunchOffer, find_work, start_runs
from onward.store.pipelines.owned_ends import end_handler
from tests.postgres.builders import (
    LONG,
    OTHER,
    WORKER,
    a_message,
    a_record,
    a_run,
    claimed,
    wanted,
)
from tests.postgres.hand import STATEMENTS

FLOW = FlowId(FlowKind.KEY, "k", "other")

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.store.database import Tx

FENCE = 1  # everything in the world has been claimed once


def an_effect(version: int, state: str) -> EffectWrite:
    given = ("key", "r", "charge#1", "charge", "Charge", b"[]", "h")
    return EffectWrite(*given, state, version, attempt=1, start_by_in=10, settle_in=20, known_in=30)


PIPELINE = PipelineSpec(
    "p", False, "default", (TopicSpec("mail"),), (HandlerSpec("rows", "consumer", ("mail",)),)
)


def an_event(number: int) -> NewEvent:
    return NewEvent(f"e{number}", "mail", f"m{number}", b"%d" % number)


def reserving(event: str) -> PipelineWrite:
    return PipelineWrite("rows", prepared=Preparation((Reservation(event, 1),), 0, 5, "origin"))


async def prepare(store: Store) -> None:
    """Make the world: a claimed run `r` with a past, a parent that waits, and what they need."""
    await claimed(store, "r", "parent")
    await store.start(a_run("c", kind="consumer", handler="rows"))
    await store.claim(wanted(limit=1))
    await claimed(store, "stray", worker=OTHER)
    await store.take_lease("spare", LONG)
    await store.start(a_run("ready"))
    await declare(store, PIPELINE)
    message = a_message("r", "by a caller")._asdict()
    await store.write(lambda tx: tx.fetch("insert_outbox", **message))
    await store.start(a_run("late", queue="nowhere", deadline=1))
    await store.start(a_run("keyed", queue="other", flow_key="k"))
    await store.declare(FLOW, DeclaredLimits(1))
    await claimed(store, "diverged", worker="third")
    await store.writer("third").commit(
        Commit("diverged", FENCE, move=Move("paused", "divergence", parked_by="old"))
    )
    writer = store.writer(WORKER)
    wait = a_record("parent", None, kind="child")
    for commit in (
        Commit("parent", FENCE, (wait,), Move("waiting", seen=0)),
        Commit("r", FENCE, (a_record("r", None, identity="wait#1", kind="timer", due_in=5),)),
        _attach(pipeline=PipelineWrite(published=(an_event(1), an_event(2)))),
        _attach(effects=(an_effect(1, "in_flight"),)),
        Commit("c", FENCE, attached=Attachments(pipeline=reserving("e2"))),
    ):
        assert (await writer.commit(commit)).fate is Fate.DONE


@dataclass(frozen=True)
class Write:
    """One call, the statement by which its requests are known, and what it must answer."""

    call: Callable[[Store], Awaitable[Any]]
    sql: str
    again: Any = None
    """What the answer is when the call was carried out and its reply was lost, if not the same."""


def _attach(**what: Any) -> Commit:
    return Commit("r", FENCE, attached=Attachments(**what))


def _statement(commit: Commit) -> str:
    if commit.is_plain:
        return "commit_records"
    return "commit_runs" if commit.attached is NOTHING_ATTACHED else "commit_attached"


def _commit(commit: Commit) -> Write:
    async def call(store: Store) -> Fate:
        return (await store.writer(WORKER).commit(commit)).fate

    if commit.attached.pipeline is not None:  # a transaction of several statements
        return Write(call, "COMMIT;")
    return Write(call, STATEMENTS[_statement(commit)].sql)


async def _closure(tx: Tx) -> int:
    await tx.fetch("subscribe", topic="mail", handler="copies", keyed=0, earliest=0)
    return len(await tx.fetch("live_queues"))


async def _moved_lease(store: Store) -> bool:
    return await store.renew_lease(WORKER) is not None


async def _taken_lease(store: Store) -> bool:
    return await store.take_lease("new", LONG) is not None


async def _claimed(store: Store) -> list[str]:
    return [run.uid for run in await store.claim(wanted(limit=1))]


async def _limited(store: Store) -> list[str]:
    given = wanted(limit=1, queues=("other",), limited=True)
    return sorted(run.uid for run in await store.claim(given))


async def _stopped(store: Store) -> Any:
    return await store.stop("id of r", state="cancelled", reason="forced", error=b"!")


async def _stopped_consumer(store: Store) -> Any:
    return await store.stop("c", state="cancelled", reason="forced")


async def _launched(store: Store) -> list[str]:
    offer = LaunchOffer(("rows",), ("default",))
    found = await store.read(lambda tx: find_work(tx, offer))
    return await store.write(lambda tx: start_runs(tx, offer, found, ["new"]))


async def _failed_consumer(store: Store) -> Any:
    owner = RunOwner(WORKER, "c", FENCE)
    return await end_handler(store, owner, Move("failed", "logic", error=b"!"), "code", None)


async def _followed(store: Store) -> Any:
    end = Move("failed", "logic", error=b"!", failed_call="greet#1")
    wish = Following("r", "next", "retry_of", 0, worker=WORKER, fence=FENCE, end=end)
    return await store.follow(wish)


async def _progress(store: Store) -> bool:
    return await store.keep_progress(WORKER, "r", FENCE, b"1")


_RECORD = (a_record("r", 1),)
_CLOSED = a_record("r", 1, identity="wait#1", kind="timer", due_in=None)
_TOLD = a_message("parent", "r", kind="child")
_DONE = PipelineWrite(
    "rows",
    completed=Completion(saves_state=True, state=b"1"),
    published=(an_event(3),),
)

WRITES: dict[str, Write] = {
    "start": Write(lambda store: store.start(a_run("new")), STATEMENTS["start"].sql),
    "start of an id that is taken": Write(
        lambda store: store.start(a_run("new", id="id of r")), STATEMENTS["start"].sql
    ),
    "send": Write(
        lambda store: store.send(a_message("parent")),
        STATEMENTS["send"].sql,
        ("parent", 1, "", "duplicate"),  # it is there under its number, and was sent once
    ),
    "sweep": Write(lambda store: store.sweep(), "COMMIT;", 0),  # its work is done, nothing is left
    "sweep, half way": Write(lambda store: store.sweep(), STATEMENTS["send"].sql),
    "claim": Write(_claimed, STATEMENTS["claim"].sql, []),  # the audit finds what it took
    "claim under a limit": Write(_limited, "COMMIT;", []),
    "claim under a limit, half way": Write(_limited, STATEMENTS["claim"].sql),
    "audit": Write(lambda store: store.audit(OTHER, ()), "COMMIT;"),
    "audit, half way": Write(lambda store: store.audit(OTHER, ()), STATEMENTS["disown"].sql),
    "stop": Write(_stopped, "COMMIT;", ("r", "over", "default")),
    "stop, half way": Write(_stopped, STATEMENTS["stop_run"].sql),
    "follow": Write(_followed, "COMMIT;"),
    "follow, half way": Write(_followed, STATEMENTS["copy_records"].sql),
    "overdue": Write(lambda store: store.overdue(), "COMMIT;", 0),
    "unpark": Write(lambda store: store.unpark({"hello": "new"}), "COMMIT;", 0),
    "set a limit": Write(lambda store: store.declare(FLOW, DeclaredLimits(3)), "COMMIT;"),
    "progress": Write(_progress, "COMMIT;"),
    "renew a lease": Write(_moved_lease, STATEMENTS["renew_lease"].sql),
    "take a lease": Write(_taken_lease, STATEMENTS["take_lease"].sql),
    "drop a lease": Write(lambda store: store.drop_lease("spare"), STATEMENTS["drop_lease"].sql),
    "closure": Write(lambda store: store.write(_closure), "COMMIT;"),
    "closure, half way": Write(lambda store: store.write(_closure), STATEMENTS["subscribe"].sql),
    "record": _commit(Commit("r", FENCE, _RECORD)),
    "open a record": _commit(Commit("r", FENCE, (a_record("r", None, identity="wait#2"),))),
    "close a record": _commit(Commit("r", FENCE, (_CLOSED,))),
    "keep": _commit(Commit("r", FENCE, _RECORD, Move("running", seq=1))),
    "park": _commit(Commit("r", FENCE, _RECORD, Move("waiting", due_in=10, seq=1, seen=0))),
    "wake": _commit(Commit("r", FENCE, move=Move("waiting", due_in=10), messages=(_TOLD,))),
    "finish": _commit(
        Commit(
            "r",
            FENCE,
            _RECORD,
            Move("succeeded", seq=1, result=b"1"),
        )
    ),
    "fail": _commit(
        Commit(
            "r",
            FENCE,
            _RECORD,
            Move("failed", "logic", error=b"!"),
        )
    ),
    "pause": _commit(Commit("r", FENCE, _RECORD, Move("paused", "operator"))),
    "release": _commit(Commit("r", FENCE, move=Move("ready"))),
    "child start": _commit(Commit("r", FENCE, _RECORD, starts=(a_run("kid", parent="r"),))),
    "child start and park": _commit(
        Commit("r", FENCE, _RECORD, Move("waiting", seen=0), starts=(a_run("kid", parent="r"),))
    ),
    "message": _commit(Commit("r", FENCE, _RECORD, messages=(_TOLD, a_message("parent", "2nd")))),
    "effect": _commit(_attach(effects=(an_effect(2, "applied"),))),
    "reserve": _commit(Commit("r", FENCE, _RECORD, attached=Attachments(pipeline=reserving("e1")))),
    "publish": _commit(
        Commit(
            "r",
            FENCE,
            _RECORD,
            attached=Attachments(pipeline=PipelineWrite(published=(an_event(3),))),
        )
    ),
    "failure of a consumer": Write(_failed_consumer, "COMMIT;"),
    "stop of a consumer": Write(_stopped_consumer, "COMMIT;", ("c", "over", "default")),
    "launch": Write(_launched, "COMMIT;", []),
    "end of a consumer": _commit(
        Commit(
            "c",
            FENCE,
            (a_record("c", 1),),
            Move("succeeded", phase="committed"),
            (_TOLD,),
            (a_run("kid"),),
            Attachments((an_effect(1, "applied")._replace(key="c", run="c"),), pipeline=_DONE),
        )
    ),
}
