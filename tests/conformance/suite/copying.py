"""What a run that follows another begins with: calls of its history, messages of its inbox."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.lease import Fate
from onward.model.runs import Move
from onward.store import Following
from tests.conformance.suite.chains import (
    CONTINUED,
    FAILED,
    RETRY,
    a_failed_run,
    mail,
    owned,
)
from tests.conformance.suite.families import each
from tests.conformance.suite.repeating import all_rows
from tests.conformance.suite.samples import (
    SUCCEEDED,
    a_message,
    a_record,
)

if TYPE_CHECKING:
    from onward.model.runs import ClaimedRun
    from tests.conformance.suite.worker import Worker
    from tests.conformance.suite.world import World


async def test_the_calls_before_the_cut_are_copied_with_their_failed_attempts(world: World) -> None:
    worker = await world.worker()
    run = await a_failed_run(worker)

    await worker.store.follow(RETRY._replace(cut=3))

    old, new = (await worker.store.history([run.uid, "uid-next"])).values()
    assert [record._replace(run=run.uid) for record in new] == [
        record for record in old if record.identity in ("step#1", "step#2")
    ]
    assert len(new) == 3
    assert (await worker.store.run("uid-next")).seq == 2


async def test_without_a_cut_all_closed_calls_are_copied(world: World) -> None:
    worker = await world.worker()
    run = await a_failed_run(worker)

    await worker.store.follow(RETRY)

    old, new = (await worker.store.history([run.uid, "uid-next"])).values()
    assert [record._replace(run=run.uid) for record in new] == [
        record for record in old if record.state != "open"
    ]
    assert (await worker.store.run("uid-next")).seq == 3


@each(("0", "1", "4", "9"))
async def test_a_cut_at_the_ends_copies_nothing_or_everything(world: World, cut: str) -> None:
    worker = await world.worker()
    await a_failed_run(worker)

    await worker.store.follow(RETRY._replace(cut=int(cut)))

    records = (await worker.store.history(["uid-next"]))["uid-next"]
    assert len(records) == (0 if int(cut) < 2 else 4)
    assert (await worker.store.run("uid-next")).seq == (0 if int(cut) < 2 else 3)


async def test_what_a_copied_call_noted_is_copied(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    notes = [
        a_record(run, 1, identity)._replace(seq=None, kind="note", name="note")
        for identity in ("=note.of.step#1", "=note.of.step#2", "=note.:about#1")
    ]
    await worker.commit(run, a_record(run, 1), a_record(run, 2), *notes, move=FAILED)

    await worker.store.follow(RETRY._replace(cut=2))

    records = (await worker.store.history(["uid-next"]))["uid-next"]
    assert [record.identity for record in records] == ["step#1", "=note.of.step#1"]
    assert (await worker.store.run("uid-next")).seq == 1


async def test_what_was_finished_beside_the_cut_is_kept_aside(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    note = a_record(run, 1, "=note.of.step#3")._replace(seq=None, kind="note", name="note")
    await worker.commit(run, *(a_record(run, n) for n in (1, 2, 3, 4)), note, move=FAILED)

    await worker.store.follow(RETRY._replace(cut=2, beside=("step#1", "step#3")))

    old, new = (await worker.store.history([run.uid, "uid-next"])).values()
    kept = {row.identity: row for row in new if row.kind == "memo"}
    assert {row.identity for row in new} - kept.keys() == {"step#1"}
    assert kept.keys() == {"=memo.step#3", "=memo.=note.of.step#3"}
    [third] = [row for row in old if row.identity == "step#3"]
    memo = kept["=memo.step#3"]
    assert (memo.seq, memo.name) == (None, f"{third.kind} {third.name}")
    assert (memo.state, memo.payload) == ("succeeded", third.payload)
    assert memo.args_hash == third.args_hash


async def test_what_was_kept_aside_goes_on_to_the_next_retry(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    await worker.commit(run, *(a_record(run, n) for n in (1, 2, 3)), move=FAILED)
    await worker.store.follow(RETRY._replace(cut=1, beside=("step#2", "step#3")))
    [again] = await worker.claim()
    await worker.commit(again, a_record(again, 1), a_record(again, 2), move=FAILED)

    await worker.store.follow(
        RETRY._replace(old="uid-next", new_uid="uid-last", cut=1, beside=("step#2",))
    )

    history = (await worker.store.history(["uid-last"]))["uid-last"]
    assert sorted(row.identity for row in history) == ["=memo.step#2", "=memo.step#3"]


async def test_the_new_run_goes_on_where_the_copy_ends(world: World) -> None:
    worker = await world.worker()
    await a_failed_run(worker)
    await worker.store.follow(RETRY._replace(cut=3))

    [again] = await worker.claim()

    assert (again.uid, again.seq, again.attempt) == ("uid-next", 2, 2)
    outcome = await worker.commit(again, a_record(again, 3), move=SUCCEEDED._replace(seq=3))
    assert outcome.fate is Fate.DONE


async def test_an_edited_record_stands_at_the_cut(world: World) -> None:
    worker = await world.worker()
    run = await a_failed_run(worker)
    edited = a_record(run, 2)._replace(attempt=2, payload=b"jedited")

    await worker.store.follow(Following(run.uid, "uid-next", "forked_from", 2, edited=edited))

    [first, second] = (await worker.store.history(["uid-next"]))["uid-next"]
    assert (first.identity, first.seq) == ("step#1", 1)
    assert (second.identity, second.seq, second.attempt) == ("step#2", 2, 1)
    assert (second.state, second.payload) == ("succeeded", b"jedited")
    assert (await worker.store.run("uid-next")).seq == 2


@each(("None", "0", "5"))
async def test_an_edit_that_would_leave_a_gap_is_refused(world: World, cut: str) -> None:
    worker = await world.worker()
    run = await a_failed_run(worker)
    before = await all_rows(world)

    followed = await worker.store.follow(
        RETRY._replace(cut=None if cut == "None" else int(cut), edited=a_record(run, 4))
    )

    assert (followed.fate, followed.why) == (
        "refused", f"its history has no position {cut} to edit",
    )  # fmt: skip
    assert await all_rows(world) == before


# --- the inbox ------------------------------------------------------------------------------------


async def a_run_with_mail(worker: Worker) -> ClaimedRun:
    """Return a run that took two of its four messages, and was told to pause."""
    [run] = await worker.owning("a")
    for name in ("m1", "m2", "m3"):
        await worker.store.send(a_message("a", name))
    await worker.store.send(a_message("a", "c1")._replace(kind="child"))
    await worker.store.send(a_message("a", "p1")._replace(kind="pause"))
    await worker.commit(
        run,
        a_record(run, 1)._replace(message=1),
        a_record(run, 2)._replace(message=4),
        a_record(run, 3)._replace(message=2),
    )
    return run


@each(("retry_of", "forked_from"))
async def test_signals_that_no_copied_record_took_lie_there_again(world: World, link: str) -> None:
    worker = await world.worker()
    run = await a_run_with_mail(worker)
    await worker.commit(run, move=FAILED)

    await worker.store.follow(Following(run.uid, "uid-next", link, 3))

    assert await mail(worker) == [(1, "m1"), (2, "m2"), (3, "m3"), (4, "c1")]
    assert (await worker.store.run("uid-next")).inbox == 5
    old, new = (await worker.store.look([run.uid, "uid-next"])).values()
    assert [row._replace(run=run.uid) for row in new] == old[:4]


async def test_what_only_an_uncopied_record_took_is_copied_if_it_is_a_signal(world: World) -> None:
    worker = await world.worker()
    run = await a_run_with_mail(worker)
    await worker.commit(run, move=FAILED)

    await worker.store.follow(Following(run.uid, "uid-next", "retry_of", 2))

    assert await mail(worker) == [(1, "m1"), (2, "m2"), (3, "m3")]


async def test_a_continuation_takes_over_the_signals_that_nobody_took(world: World) -> None:
    worker = await world.worker()
    run = await a_run_with_mail(worker)

    await worker.store.follow(owned(run, worker, "continued_from", CONTINUED))

    assert await mail(worker) == [(3, "m3")]
    sent = await worker.store.send(a_message("a", "m9"))
    assert (sent.uid, sent.seq) == ("uid-next", 6)


async def test_a_continuation_takes_over_signals_that_the_code_was_never_handed(
    world: World,
) -> None:
    worker = await world.worker()
    run = await a_run_with_mail(worker)

    # Of these one is no signal, one was never sent, and one is taken over anyway.
    wish = owned(run, worker, "continued_from", CONTINUED, unheard=(2, 3, 4, 9))
    await worker.store.follow(wish)

    assert await mail(worker) == [(2, "m2"), (3, "m3")]


async def test_what_replaces_a_run_takes_over_no_message(world: World) -> None:
    worker = await world.worker()
    run = await a_run_with_mail(worker)
    await worker.commit(run, move=FAILED)

    await worker.store.follow(Following(run.uid, "uid-next", "replaces", 0))

    assert await mail(worker) == []
    assert (await worker.store.send(a_message("a", "m9"))).seq == 6


async def test_a_message_to_a_run_that_is_followed_reaches_the_newest(world: World) -> None:
    worker = await world.worker()
    await a_failed_run(worker)
    await worker.store.follow(RETRY)

    for target in ("a", "uid-a", "uid-next"):
        assert (await worker.store.send(a_message(target, target))).uid == "uid-next"
    assert len(await mail(worker)) == 3
    assert await mail(worker, "uid-a") == []


async def test_the_end_of_a_child_is_for_its_very_parent(world: World) -> None:
    worker = await world.worker()
    await a_failed_run(worker)
    await worker.store.follow(RETRY)

    sent = await worker.store.send(a_message("uid-a", "c1")._replace(kind="child"))

    assert (sent.uid, sent.fate) == ("uid-a", "ended")
    assert await mail(worker) == []


async def test_a_signal_that_is_sent_again_is_not_given_to_the_continuation(world: World) -> None:
    worker = await world.worker()
    run = await a_run_with_mail(worker)
    await worker.store.follow(owned(run, worker, "continued_from", CONTINUED))

    for target in ("a", run.uid):
        again = await worker.store.send(a_message(target, "m1"))
        assert (again.uid, again.seq, again.fate) == ("uid-next", 1, "duplicate")
    assert await mail(worker) == [(3, "m3")]


@each(("continued_from", "retry_of"))
async def test_a_signal_is_delivered_once_however_often_its_run_is_followed(
    world: World, last: str
) -> None:
    worker = await world.worker()
    run = await a_run_with_mail(worker)  # it took m1 and m2
    for number, link in enumerate(("continued_from", "retry_of", "continued_from", last)):
        wish = owned(run, worker, link, CONTINUED if link == "continued_from" else FAILED)
        await worker.store.follow(wish._replace(new_uid=f"uid-{number}"))
        [run] = await worker.claim()

    for target in ("a", "uid-a", "uid-1", run.uid):
        for message in ("m1", "m2", "m3"):
            again = await worker.store.send(a_message(target, message))
            assert (again.uid, again.fate) == (run.uid, "duplicate")
    assert await mail(worker, run.uid) == [(3, "m3")]


async def test_a_fork_beside_a_run_is_sent_what_that_run_was_sent(world: World) -> None:
    worker = await world.worker()
    run = await a_run_with_mail(worker)
    await worker.store.follow(owned(run, worker, "continued_from", CONTINUED))
    await worker.store.follow(Following("uid-next", "uid-fork", "forked_from", id="b"))

    assert (await worker.store.send(a_message("b", "m1"))).fate == "delivered"
    assert (await worker.store.send(a_message("b", "m3"))).fate == "duplicate"  # it was copied
    assert (await worker.store.send(a_message("a", "m1"))).fate == "duplicate"


async def test_a_run_that_replaces_another_is_sent_what_that_was_sent(world: World) -> None:
    worker = await world.worker()
    run = await a_run_with_mail(worker)
    await worker.commit(run, move=FAILED)
    await worker.store.follow(Following(run.uid, "uid-next", "replaces", 0))

    assert (await worker.store.send(a_message(run.uid, "m1"))).fate == "duplicate"
    assert (await worker.store.send(a_message("a", "m1"))).fate == "delivered"


async def test_a_cancel_reaches_a_retry_although_the_run_before_had_one(world: World) -> None:
    worker = await world.worker()
    [run] = await worker.owning("a")
    cancel = a_message("a", "cancel")._replace(kind="cancel")
    await worker.store.send(cancel)
    await worker.commit(run, move=Move("cancelled", "operator"))
    await worker.store.follow(RETRY)

    for target in ("a", run.uid):
        assert (await worker.store.send(cancel._replace(target=target))).uid == "uid-next"
    assert await mail(worker) == [(2, "cancel")]
