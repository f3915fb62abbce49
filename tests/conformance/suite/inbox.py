"""The inbox: numbers, duplicates, whom a message reaches, and whom it wakes."""

from __future__ import annotations

import asyncio
from itertools import product
from typing import TYPE_CHECKING

from onward.core.inbox import MessageKind, wake
from onward.core.instant import MINUTE, SECOND
from onward.core.run import OPEN, REASONS, RunState
from onward.model.messages import SentMessage
from onward.model.runs import Move
from tests.conformance.suite.samples import (
    RELEASED,
    SUCCEEDED,
    a_message,
    a_run,
    an_open_record,
)

if TYPE_CHECKING:
    from onward.core.run import Reason
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World


async def test_a_message_is_read_back_as_it_was_sent(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    message = a_message("a", "m1")._replace(payload=bytes(range(256)))

    await store.send(message)
    await store.send(a_message("a", "m2")._replace(payload=None))

    [first, second] = (await store.look(["uid-a"]))["uid-a"]
    now = world.clock.wall()
    assert first == ("uid-a", 1, "m1", "signal", "approval", message.payload, now, 0)
    assert second.payload is None


async def test_only_messages_after_those_that_are_known_are_read(world: World) -> None:
    store = await world.store()
    for run in ("a", "b"):
        await store.start(a_run(run))
        for number in range(4):
            await store.send(a_message(run, f"m{number}"))

    found = await store.look(["uid-a", "uid-b"], after={"uid-a": 3})

    assert [row.seq for row in found["uid-a"]] == [4]
    assert [row.seq for row in found["uid-b"]] == [1, 2, 3, 4]


async def test_payloads_beyond_a_budget_are_left_out_and_read_by_number(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    for number in range(4):
        await store.send(a_message("a", f"m{number}")._replace(payload=bytes([number]) * 100))
    await store.send(a_message("a", "bare")._replace(payload=None))
    await store.send(a_message("a", "stop")._replace(kind="cancel", payload=b"x" * 100))

    found = (await store.look(["uid-a"], budget=250))["uid-a"]

    assert [row.is_omitted for row in found] == [0, 0, 1, 1, 0, 0]
    assert [row.payload is None for row in found] == [False, False, True, True, True, False]
    read = await store.messages("uid-a", [3, 4, 99])
    assert [row.payload for row in read] == [b"\x02" * 100, b"\x03" * 100]
    none = (await store.look(["uid-a"], budget=0))["uid-a"]
    assert [row.seq for row in none if row.is_omitted] == [1, 2, 3, 4]


async def test_messages_are_numbered_in_the_order_of_arrival(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))

    answers = [await store.send(a_message("a", name)) for name in ("z", "a", "m")]
    together = await asyncio.gather(*(store.send(a_message("a", str(n))) for n in range(30)))

    assert [answer.seq for answer in answers + together] == list(range(1, 34))
    messages = (await store.look(["uid-a"]))["uid-a"]
    assert [message.message for message in messages] == ["z", "a", "m", *map(str, range(30))]
    assert (await store.run("uid-a")).inbox == 33


async def test_a_message_to_an_id_that_is_a_uid_too_reaches_the_run_of_that_id(
    world: World,
) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    await store.start(a_run("uid-a"))

    by_id = await store.send(a_message("uid-a", "m1"))
    by_uid = await store.send(a_message("uid-a", "m2")._replace(by_uid=1))

    assert (by_id.uid, by_uid.uid) == ("uid-uid-a", "uid-a")
    assert (await store.send(a_message("a", "m3")._replace(by_uid=1))).fate == "absent"


async def test_a_message_is_delivered_once(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))
    first = await store.send(a_message("a", "m1"))

    again = await store.send(a_message("a", "m1")._replace(payload=b"other"))

    assert first == SentMessage("uid-a", 1, "default", "delivered")
    assert (again.uid, again.seq, again.fate) == ("uid-a", 1, "duplicate")
    [message] = (await store.look(["uid-a"]))["uid-a"]
    assert message.payload == b"jtrue"
    assert (await store.run("uid-a")).inbox == 1


async def test_a_message_that_comes_twice_in_one_batch_is_delivered_once(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))

    answers = await asyncio.gather(*(store.send(a_message("a", "m1")) for _ in range(3)))

    assert [answer.seq for answer in answers] == [1, 1, 1]
    assert (await store.run("uid-a")).inbox == 1
    assert len((await store.look(["uid-a"]))["uid-a"]) == 1


async def test_two_runs_may_be_sent_messages_of_one_id(world: World) -> None:
    store = await world.store()
    for run in ("a", "b"):
        await store.start(a_run(run))

    answers = await asyncio.gather(*(store.send(a_message(run, "m1")) for run in ("a", "b")))

    assert [(sent.uid, sent.seq, sent.fate) for sent in answers] == [
        ("uid-a", 1, "delivered"), ("uid-b", 1, "delivered"),
    ]  # fmt: skip


async def test_a_run_is_reached_by_its_id_and_by_its_uid(world: World) -> None:
    store = await world.store()
    await store.start(a_run("a"))

    for target in ("a", "uid-a"):
        assert (await store.send(a_message(target, target))).uid == "uid-a"
    assert (await store.run("uid-a")).inbox == 2


async def test_a_run_that_is_over_and_one_that_never_was_are_told_apart(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("over")
    await worker.store.send(a_message("over", "early"))
    await worker.commit(run, move=SUCCEEDED)

    over, repeated, absent = await asyncio.gather(
        *(
            worker.store.send(a_message(*aim))
            for aim in (("over", "m"), ("over", "early"), ("no", "m"))
        )
    )

    assert (over.uid, over.seq, over.fate) == ("uid-over", None, "ended")
    assert (repeated.uid, repeated.seq, repeated.fate) == ("uid-over", 1, "duplicate")
    assert (absent.uid, absent.seq, absent.fate) == (None, None, "absent")


async def test_a_target_that_no_database_could_hold_is_absent(world: World) -> None:
    store = await world.store()

    for target in ("a\0b", "a\ud800b", "long " * 20_000):
        assert (await store.send(a_message(target, "m1"))).fate == "absent"


async def test_a_message_to_a_run_that_has_not_begun_lies_there(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("a")._replace(delay_in=MINUTE))
    due = world.clock.wall() + MINUTE

    kinds = set(MessageKind) - {MessageKind.CANCEL}

    for kind in kinds:
        assert (await worker.store.send(a_message("a", kind, kind))).fate == "delivered"

    row = await worker.store.run("uid-a")
    assert (row.state, row.due, row.inbox) == ("waiting", due, len(kinds))
    assert await worker.claim() == []
    world.clock.advance(MINUTE)
    [run] = await worker.claim()
    assert run.inbox == len(kinds)


async def test_a_cancel_wakes_a_run_that_has_not_begun(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("a")._replace(delay_in=MINUTE))
    await worker.store.start(a_run("b")._replace(delay_in=MINUTE))
    [sender] = await worker.owning("sender")

    await worker.store.send(a_message("a", "m1"))
    await worker.store.send(a_message("a", "m2", MessageKind.CANCEL))
    await worker.commit(sender, messages=(a_message("uid-b", "m1", MessageKind.CANCEL),))

    now = world.clock.wall()
    rows = [await worker.store.run(uid) for uid in ("uid-a", "uid-b")]
    assert [(row.state, row.due, row.inbox) for row in rows] == [
        ("ready", now, 2),
        ("ready", now, 1),
    ]
    assert {(run.id, run.fence) for run in await worker.claim()} == {("a", 1), ("b", 1)}


async def test_a_cancel_leaves_a_run_that_is_ready_in_its_place(world: World) -> None:
    worker = await world.worker()
    await worker.store.start(a_run("a"))
    world.clock.advance(SECOND)

    await worker.store.send(a_message("a", "m1", MessageKind.CANCEL))

    row = await worker.store.run("uid-a")
    assert (row.state, row.due) == ("ready", row.created_at)


async def test_a_wake_makes_the_run_due_now(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, move=Move("waiting", due_in=MINUTE))
    world.clock.advance(SECOND)

    await worker.store.send(a_message("a", "m1"))

    row = await worker.store.run("uid-a")
    assert (row.state, row.due) == ("ready", world.clock.wall())


async def test_a_batch_of_messages_finds_each_its_run(world: World) -> None:
    store = await world.store()
    await asyncio.gather(*(store.start(a_run(str(n))) for n in range(100)))

    answers = await asyncio.gather(
        *(store.send(a_message(str(n % 100), f"m{n}")) for n in range(200))
    )

    assert [(sent.uid, sent.seq) for sent in answers] == [
        (f"uid-{n % 100}", 1 + n // 100) for n in range(200)
    ]
    found = await store.look(f"uid-{n}" for n in range(100))
    assert all(
        [row.message for row in found[f"uid-{n}"]] == [f"m{n}", f"m{n + 100}"] for n in range(100)
    )


# --- whom a message wakes -------------------------------------------------------------------------

STANDINGS: list[tuple[RunState, Reason | None]] = [
    (state, reason) for state in RunState for reason in sorted(REASONS[state], key=str)
]
PAIRS = {
    f"{state}-{reason}-{kind}": (state, reason, kind)
    for (state, reason), kind in product(STANDINGS, MessageKind)
}


async def a_run_in_every_state(worker: Worker) -> None:
    """Bring a run for each pair to where it shall stand, by way of a claim."""
    runs = await worker.owning(*PAIRS)
    moves = []
    for run in runs:
        state, reason, _ = PAIRS[run.id]
        if state is not RunState.RUNNING:
            move = RELEASED if state is RunState.READY else Move(state, reason)
            moves.append(worker.commit(run, an_open_record(run, "w#1"), move=move))
    await asyncio.gather(*moves)


async def test_every_message_to_every_run_does_what_the_rule_says(world: World) -> None:
    worker = await world.worker()
    await a_run_in_every_state(worker)

    await asyncio.gather(*(worker.store.send(a_message(run, "m1", PAIRS[run][2])) for run in PAIRS))

    for run, (state, reason, kind) in PAIRS.items():
        row = await worker.store.run(f"uid-{run}")
        after = wake(state, reason, kind)
        assert row.state == after, run
        assert row.reason == (reason if after is state else None), run
        assert row.inbox == int(state in OPEN), run


async def test_a_message_in_a_commit_wakes_as_one_from_outside_does(world: World) -> None:
    worker = await world.worker()
    [sender] = await worker.owning("sender")
    await a_run_in_every_state(worker)

    await worker.commit(
        sender, messages=tuple(a_message(f"uid-{run}", "m1", PAIRS[run][2]) for run in PAIRS)
    )

    for run, (state, reason, kind) in PAIRS.items():
        row = await worker.store.run(f"uid-{run}")
        assert row.state == wake(state, reason, kind), run
        assert row.inbox == int(state in OPEN), run


async def test_messages_of_several_kinds_in_a_batch_wake_if_one_of_them_does(world: World) -> None:
    worker = await world.worker()
    reasons = {"a": "approval", "b": "operator"}
    runs = await worker.owning(*reasons)
    for run in runs:
        await worker.commit(run, move=Move("paused", reasons[run.id]))
    kinds = (MessageKind.SIGNAL, MessageKind.VERDICT, MessageKind.PAUSE)

    await asyncio.gather(
        *(worker.store.send(a_message(run, kind, kind)) for run in reasons for kind in kinds)
    )

    rows = [await worker.store.run(run.uid) for run in runs]
    assert [(row.state, row.inbox) for row in rows] == [("ready", 3), ("paused", 3)]
