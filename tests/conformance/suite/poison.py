"""Bad values that got past the codec: a typed refusal, nothing of it stored, nobody else harmed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.lease import Fate
from onward.errors import Rejected
from onward.model.pipelines import NewEvent, NewInput, PipelineWrite, Preparation, Reservation
from onward.model.runs import Move
from onward.store import Attachments
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import (
    SUCCEEDED,
    a_message,
    a_record,
    a_run,
    an_effect,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.model.messages import NewMessage
    from onward.model.runs import ClaimedRun, NewRun
    from tests.conformance.suite.world import World

NUL, SURROGATE, HUGE, VAST = "a\0b", "a\ud800b", "long " * 20_000, 2**70
MANY = 200
ONE = 137  # the member of the batch that is bad

STARTS: dict[str, Callable[[NewRun], NewRun]] = {
    "NUL in the id": lambda run: run._replace(id=NUL),
    "NUL in the name": lambda run: run._replace(name=NUL),
    "NUL in the queue": lambda run: run._replace(queue=NUL),
    "surrogate in the id": lambda run: run._replace(id=SURROGATE),
    "surrogate in the tags": lambda run: run._replace(tags=SURROGATE),
    "vast priority": lambda run: run._replace(priority=VAST),
    "vast delay": lambda run: run._replace(delay_in=VAST),
    "vast due": lambda run: run._replace(due=-VAST),
    "huge id": lambda run: run._replace(id=HUGE),
    "huge queue": lambda run: run._replace(queue=HUGE),
    "unknown kind": lambda run: run._replace(kind="nonsense"),
}

MESSAGES: dict[str, Callable[[NewMessage], NewMessage]] = {
    "NUL in the message id": lambda message: message._replace(message=NUL),
    "NUL in the name": lambda message: message._replace(name=NUL),
    "surrogate in the message id": lambda message: message._replace(message=SURROGATE),
    "surrogate in the name": lambda message: message._replace(name=SURROGATE),
    "huge message id": lambda message: message._replace(message=HUGE),
}


def bad_record(**changes: Any) -> Callable[[ClaimedRun], dict[str, Any]]:
    return lambda run: {"records": (a_record(run, 1)._replace(**changes),)}


def bad_write(**written: Any) -> Callable[[ClaimedRun], dict[str, Any]]:
    attached = Attachments(pipeline=PipelineWrite(**written))
    return lambda run: {"records": (a_record(run, 1),), "attached": attached}


COMMITS: dict[str, Callable[[ClaimedRun], dict[str, Any]]] = {
    "NUL in the identity": bad_record(identity=NUL),
    "NUL in the name": bad_record(name=NUL),
    "surrogate in the identity": bad_record(identity=SURROGATE),
    "surrogate in the version": bad_record(version=SURROGATE),
    "vast position": bad_record(seq=VAST),
    "vast due": bad_record(due=VAST),
    "vast delay": bad_record(due_in=VAST),
    "huge identity": bad_record(identity=HUGE),
    "unknown state of a record": bad_record(state="nonsense"),
    "unknown state of the run": lambda _: {"move": Move("nonsense")},
    "NUL in the reason": lambda _: {"move": Move("failed", NUL)},
    "surrogate in the reason": lambda _: {"move": Move("failed", SURROGATE)},
    "vast due of the run": lambda _: {"move": Move("waiting", due=VAST)},
    "NUL in a message": lambda _: {"messages": (a_message("uid-0", NUL),)},
    "NUL in a child's id": lambda _: {"starts": (a_run(NUL),)},
    "huge id of a child": lambda _: {"starts": (a_run("c")._replace(id=HUGE),)},
    "unknown state of an effect": lambda run: {
        "attached": Attachments(effects=(an_effect(run, 1, "nonsense"),))
    },
    "NUL in a topic": bad_write(published=(NewEvent("e", NUL, "m", b""),)),
    "topic that is not there": bad_write(published=(NewEvent("e", "t", "m", b""),)),
    "huge message id of an event": bad_write(published=(NewEvent("e", "t", HUGE, b""),)),
    "NUL in a handler": bad_write(handler=NUL),
    "surrogate in a key": bad_write(handler="h", key=SURROGATE),
    "NUL in a reservation": bad_write(
        prepared=Preparation((Reservation(NUL, 1),), 0, None, "origin")
    ),
    "vast wake of a handler": bad_write(prepared=Preparation((), 0, VAST, "origin")),
    "NUL in an input": bad_write(inputs=(NewInput("u", "p", "s", "t", NUL, "title"),)),
}


@each(STARTS)
async def test_one_poisoned_start_harms_no_other(world: World, case: str) -> None:
    store = await world.store()
    runs = [a_run(str(number)) for number in range(MANY)]
    runs[ONE] = STARTS[case](runs[ONE])

    answers = await asyncio.gather(*map(store.start, runs), return_exceptions=True)

    assert isinstance(answers[ONE], Rejected)
    assert all(not isinstance(answer, BaseException) for answer in answers[:ONE])
    assert all(not isinstance(answer, BaseException) for answer in answers[ONE + 1 :])
    assert await store.counts() == {"ready": MANY - 1}
    assert (await store.start(a_run(str(ONE)))).created


@each(MESSAGES)
async def test_one_poisoned_message_harms_no_other(world: World, case: str) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    messages = [a_message("a", f"m{number}") for number in range(MANY)]
    messages[ONE] = MESSAGES[case](messages[ONE])

    answers = await asyncio.gather(*map(store.send, messages), return_exceptions=True)

    assert [n for n, answer in enumerate(answers) if isinstance(answer, Rejected)] == [ONE]
    assert (await store.run("uid-a")).inbox == MANY - 1
    rows = (await store.look(["uid-a"]))["uid-a"]
    assert [row.message for row in rows] == [f"m{n}" for n in range(MANY) if n != ONE]


@each(COMMITS)
async def test_one_poison_row_in_a_batch_of_200_harms_only_its_own_run(
    world: World, case: str
) -> None:
    worker = await world.worker()
    await asyncio.gather(*(worker.store.start(a_run(str(n))) for n in range(MANY)))
    runs = {run.id: run for run in await worker.claim(MANY)}
    bad = runs[str(ONE)]
    given = COMMITS[case](bad)
    records = given.pop("records", ())

    answers = await asyncio.gather(
        *(
            worker.commit(run, *records, **given)
            if run is bad
            else worker.commit(run, a_record(run, 1), move=SUCCEEDED)
            for run in runs.values()
        ),
        return_exceptions=True,
    )

    rejected = [run for run, a in zip(runs, answers, strict=True) if isinstance(a, Rejected)]
    assert rejected == [bad.id]
    assert await worker.store.counts() == {"running": 1, "succeeded": MANY - 1}
    found = await worker.store.history(run.uid for run in runs.values())
    assert [uid for uid, rows in found.items() if not rows] == [bad.uid]
    assert (await worker.store.run(bad.uid)).inbox == 0
    assert [list(row) for row in await world.sql("SELECT count(*) FROM onward_event")] == [[0]]
    assert (await worker.commit(bad, a_record(bad, 1))).fate is Fate.DONE


async def test_a_poisoned_run_can_still_be_ended(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    with pytest.raises(Rejected):
        await worker.commit(run, a_record(run, 1)._replace(seq=VAST))

    await worker.commit(run, move=Move("paused", "internal"))

    assert (await worker.store.run(run.uid)).state == "paused"


async def test_a_bad_value_does_not_abort_a_callers_transaction(world: World) -> None:
    store = await world.store()
    await store.start(a_run("there"))

    async with world.caller(commit=True) as connection:
        within = store.within(connection)
        for bad in (NUL, SURROGATE, HUGE):
            with pytest.raises(Rejected):
                await within.start(a_run("a")._replace(id=bad))
            with pytest.raises(Rejected):
                await within.send(a_message("there", bad))
        await within.start(a_run("good"))
        await within.send(a_message("there", "m1"))

    assert await store.sweep() == 1
    assert await store.counts() == {"ready": 2}


async def test_odd_ids_that_are_no_poison_are_kept_to_the_byte(world: World) -> None:
    store = await world.store()
    odd = ["", " ", "é", "e\u0301", "../x", "a\r\nb", "'; --", "%_\\", '"', "🦆", "İ", "x" * 900]

    for number, name in enumerate(odd):
        await store.start(a_run(name)._replace(uid=f"uid-{number}"))

    assert [(await store.newest(name)).id for name in odd] == odd
    assert await store.counts() == {"ready": len(odd)}
