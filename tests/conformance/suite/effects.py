"""The ledger: an effect's row is written with the commit that intends, sends or settles it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.core.lease import Fate
from onward.model.effects import Ruling
from onward.store import Attachments
from onward.store.runs.ledger import effect, judge
from tests.conformance.suite.families import each
from tests.conformance.suite.samples import SUCCEEDED, a_message, a_record, a_run, an_effect

if TYPE_CHECKING:
    from onward.store import Store
    from tests.conformance.suite.world import World

COLUMNS = (
    "key", "run", "identity", "name", "title", "args", "args_hash", "state", "version", "attempt",
    "asks", "tries", "reach", "start_by", "settle_until", "known_until", "due", "result", "error",
)  # fmt: skip


async def ledger(store: Store, key: str) -> dict[str, Any] | None:
    rows = await store.read(lambda tx: tx.fetch("effect", key=key))
    return dict(zip(COLUMNS, rows[0], strict=True)) if rows else None


async def test_the_intent_is_written_before_anything_is_sent(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    world.clock.advance(SECOND)
    intent = an_effect(run, 1, "in_flight")._replace(
        due_in=5 * SECOND, tries=20, reach=70 * SECOND, known_in=600 * SECOND
    )

    outcome = await worker.commit(run, attached=Attachments(effects=(intent,)))

    assert outcome.fate is Fate.DONE
    assert await ledger(worker.store, "key-a") == {
        "key": "key-a", "run": run.uid, "identity": "charge#1", "name": "charge",
        "title": "Charge Ada", "args": b"j[5]", "args_hash": "hash", "state": "in_flight",
        "version": 1, "attempt": 1, "asks": 0, "tries": 20, "reach": 70 * SECOND,
        "start_by": outcome.at + 30 * SECOND, "settle_until": outcome.at + 70 * SECOND,
        "known_until": outcome.at + 600 * SECOND, "due": outcome.at + 5 * SECOND,
        "result": None, "error": None,
    }  # fmt: skip


@each(["planned", "in_flight", "needs_reconcile", "indeterminate", "failed", "withdrawn"])
async def test_other_arguments_are_stored_after_a_definite_failure_alone(
    world: World, case: str
) -> None:
    """E10: the ledger shows what was sent; while that may arrive, it does not change."""
    worker = await world.worker()
    [run] = await worker.owning("a")
    for version, state in ((1, "in_flight"), (2, case)):
        row = an_effect(run, version, state)
        await worker.commit(run, attached=Attachments(effects=(row,)))
    other = an_effect(run, 3, "in_flight")._replace(
        title="Charge Bob", args=b"j[6]", args_hash="other"
    )

    await worker.commit(run, attached=Attachments(effects=(other,)))

    found = await ledger(worker.store, "key-a")
    assert found is not None
    is_new = case in ("failed", "withdrawn")
    assert (found["title"], found["args"], found["args_hash"]) == (
        ("Charge Bob", b"j[6]", "other") if is_new else ("Charge Ada", b"j[5]", "hash")
    )


async def test_an_effect_is_settled_together_with_its_record(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    intent = an_effect(run, 1, "in_flight")._replace(due_in=SECOND)
    sent = await worker.commit(run, attached=Attachments(effects=(intent,)))
    world.clock.advance(SECOND)
    applied = an_effect(run, 2, "applied")._replace(result=b"j7", asks=1)

    await worker.commit(run, a_record(run, 1), attached=Attachments(effects=(applied,)))

    row = await ledger(worker.store, "key-a")
    assert row is not None
    assert (row["state"], row["version"], row["asks"], row["result"]) == ("applied", 2, 1, b"j7")
    assert (row["start_by"], row["due"]) == (sent.at + 30 * SECOND, None)
    assert len((await worker.store.history([run.uid]))[run.uid]) == 1


async def test_each_send_counts_its_window_anew(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    first = an_effect(run, 1, "in_flight")
    await worker.commit(run, attached=Attachments(effects=(first,)))
    world.clock.advance(SECOND)
    again = first._replace(version=2, attempt=2)

    outcome = await worker.commit(run, attached=Attachments(effects=(again,)))

    row = await ledger(worker.store, "key-a")
    assert row is not None
    assert (row["attempt"], row["start_by"]) == (2, outcome.at + 30 * SECOND)


async def test_how_long_a_key_is_known_counts_from_the_first_send_that_says_so(
    world: World,
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    known, ats = [], []
    for version, known_in in ((1, None), (2, 60 * SECOND), (3, None), (4, 90 * SECOND)):
        sent = an_effect(run, version, "in_flight")._replace(attempt=version, known_in=known_in)
        outcome = await worker.commit(run, attached=Attachments(effects=(sent,)))
        row = await ledger(worker.store, "key-a")
        assert row is not None
        known.append(row["known_until"])
        ats.append(outcome.at)
        world.clock.advance(SECOND)

    assert known == [None, *[ats[1] + 60 * SECOND] * 3]


async def test_the_ledger_has_what_the_author_states_today(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    first = an_effect(run, 1, "in_flight")._replace(tries=3, reach=55 * SECOND)
    await worker.commit(run, attached=Attachments(effects=(first,)))
    later = an_effect(run, 2, "needs_reconcile")._replace(
        reconciler="find_charge", tries=None, reach=SECOND, attempts=b'[["send",1,5]]'
    )

    await worker.commit(run, attached=Attachments(effects=(later,)))

    row = await effect(worker.store, "key-a")
    assert row is not None
    assert (row.reconciler, row.tries, row.reach) == ("find_charge", None, SECOND)
    assert row.attempts == b'[["send",1,5]]'


async def test_a_verdict_leaves_what_the_author_stated_and_what_the_receiver_knows(
    world: World,
) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    sent = an_effect(run, 1, "in_flight")._replace(tries=4, reach=SECOND, known_in=600 * SECOND)
    await worker.commit(run, attached=Attachments(effects=(sent,)))
    before = await effect(worker.store, "key-a")
    assert before is not None
    verdict = Ruling("needs_reconcile", 1, 0, 1, None, None, "ask_again", "Ada", "once more")

    after = await judge(worker.store, "key-a", lambda *_: verdict)

    assert after is not None
    assert (after.version, after.state) == (2, "needs_reconcile")
    for field in (
        "reconciler",
        "attempts",
        "tries",
        "reach",
        "start_by",
        "settle_until",
        "known_until",
    ):
        assert getattr(after, field) == getattr(before, field)


async def test_a_version_that_moved_refuses_the_whole_commit(world: World) -> None:
    worker = await world.worker()
    run, other = await worker.owning("a", "other")
    for number, state in ((1, "in_flight"), (2, "needs_reconcile")):
        written = an_effect(run, number, state)
        await worker.commit(run, attached=Attachments(effects=(written,)))
    before = await ledger(worker.store, "key-a")

    for version in (1, 2, 4):
        outcome = await worker.commit(
            run,
            a_record(run, 1),
            move=SUCCEEDED,
            messages=(a_message(other.uid, "m1"),),
            starts=(a_run("child"),),
            attached=Attachments(effects=(an_effect(run, version, "applied"),)),
        )
        assert outcome.fate is Fate.BUSY

    assert await ledger(worker.store, "key-a") == before
    assert (await worker.store.history([run.uid]))[run.uid] == []
    assert await worker.store.counts() == {"running": 2}
    assert (await worker.store.run(other.uid)).inbox == 0


async def test_a_verdict_is_not_taken_for_what_the_owner_wrote_itself(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, attached=Attachments(effects=(an_effect(run, 1, "in_flight"),)))
    world.clock.advance(SECOND)
    verdict = Ruling("applied", 1, 0, 1, None, b"j7", "applied", "Ada", "she saw it")
    await judge(worker.store, "key-a", lambda *_: verdict)
    same = an_effect(run, 2, "applied")._replace(result=b"j8")

    outcome = await worker.commit(run, attached=Attachments(effects=(same,)))

    assert outcome.fate is Fate.BUSY
    row = await ledger(worker.store, "key-a")
    assert row is not None
    assert (row["version"], row["result"]) == (2, b"j7")


async def test_a_write_with_another_approval_is_not_taken_for_a_repeated_one(world: World) -> None:
    """Otherwise a server would take an effect for approved because its worker says so."""
    worker = await world.worker()
    [run] = await worker.owning("a")
    plan = an_effect(run, 1, "planned")._replace(approved=0)
    await worker.commit(run, attached=Attachments(effects=(plan,)))

    again = await worker.commit(run, attached=Attachments(effects=(plan,)))
    approved = plan._replace(approved=1)
    other = await worker.commit(run, attached=Attachments(effects=(approved,)))

    assert (again.fate, other.fate) == (Fate.DONE, Fate.BUSY)
    row = await effect(worker.store, "key-a")
    assert row is not None
    assert (row.version, row.approved) == (1, 0)


async def test_an_effect_nobody_intended_cannot_be_settled(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")

    outcome = await worker.commit(
        run, a_record(run, 1), attached=Attachments(effects=(an_effect(run, 2, "applied"),))
    )

    assert outcome.fate is Fate.BUSY
    assert await ledger(worker.store, "key-a") is None
    assert (await worker.store.history([run.uid]))[run.uid] == []


async def test_one_effect_of_two_that_moved_refuses_both(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    one = an_effect(run, 1, "in_flight")
    other = one._replace(key="key-b", version=2)

    outcome = await worker.commit(run, attached=Attachments(effects=(one, other)))

    assert outcome.fate is Fate.BUSY
    assert await ledger(worker.store, "key-a") is None


async def test_a_run_that_takes_another_ones_place_takes_its_effect_over(world: World) -> None:
    worker = await world.worker()
    old, new = await worker.owning("a", "b")
    await worker.commit(old, attached=Attachments(effects=(an_effect(old, 1, "in_flight"),)))
    taken = an_effect(old, 2, "needs_reconcile")._replace(run=new.uid)

    await worker.commit(new, attached=Attachments(effects=(taken,)))

    row = await ledger(worker.store, "key-a")
    assert row is not None
    assert (row["run"], row["state"]) == (new.uid, "needs_reconcile")


async def test_an_owner_that_lost_its_lease_writes_no_effect(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.leave()

    outcome = await worker.commit(
        run, attached=Attachments(effects=(an_effect(run, 1, "in_flight"),))
    )

    assert outcome.fate is Fate.LOST
    assert await ledger(worker.store, "key-a") is None


async def test_two_runs_of_one_batch_that_write_one_effect_do_not_both_succeed(
    world: World,
) -> None:
    worker = await world.worker()
    one, two = await worker.owning("1-a", "2-a")
    intents = [an_effect(run, 1, "in_flight")._replace(key="shared") for run in (one, two)]

    outcomes = await asyncio.gather(
        *(
            worker.commit(run, attached=Attachments(effects=(intent,)))
            for run, intent in zip((one, two), intents, strict=True)
        )
    )

    assert sorted(outcome.fate for outcome in outcomes) == [Fate.BUSY, Fate.DONE]
