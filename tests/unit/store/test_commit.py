"""Folding: which commits go together, and what they are together."""

from __future__ import annotations

from onward.model.commits import NOTHING_ATTACHED, Attachments, Commit
from onward.model.effects import EffectWrite
from onward.model.messages import NewMessage
from onward.model.pipelines import NewEvent, PipelineWrite
from onward.model.records import NewRecord
from onward.model.runs import Move, NewRun
from onward.store.writing.batch import MAX_BYTES, MAX_ROWS, Batch, fold

DONE = Move("succeeded")


def record(run: str, identity: str, state: str = "succeeded") -> NewRecord:
    return NewRecord(run, identity, 1, None, "step", "step", state)


def recording(run: str, *identities: str, fence: int = 1) -> Commit:
    return Commit(run, fence, tuple(record(run, identity) for identity in identities))


def telling(run: str, *targets: str, move: Move | None = None) -> Commit:
    return Commit(run, 1, (), move, tuple(NewMessage(target, run, "child") for target in targets))


def effect(key: str) -> EffectWrite:
    return EffectWrite(key, "a", "e#1", "e", "", b"", "", "in_flight", 1)


def taken(*commits: Commit) -> list[bool]:
    return folded(*commits)[1]


def folded(*commits: Commit) -> tuple[Batch, list[bool]]:
    return fold([("w", commit) for commit in commits])


# --- which go together ----------------------------------------------------------------------------


def test_a_run_has_one_place_in_a_batch_however_many_commits_it_made() -> None:
    batch, fits = folded(recording("a", "1"), recording("b", "1"), recording("a", "2"))

    assert fits == [True, True, True]
    assert list(batch.runs) == ["a", "b"]
    assert [kept.identity for kept in batch.runs["a"].records] == ["1", "2"]


def test_everything_of_two_commits_is_in_the_one_they_become() -> None:
    child, other = (NewRun(f"uid-{n}", n, "n", b"", "") for n in ("c", "d"))
    first = Commit("a", 1, (record("a", "1"),), None, (NewMessage("t", "m1", "signal"),), (child,))
    last = Commit("a", 1, (record("a", "2"),), DONE, (NewMessage("t", "m2", "signal"),), (other,))

    batch, _ = folded(first, last)

    whole = batch.runs["a"]
    assert [kept.identity for kept in whole.records] == ["1", "2"]
    assert [message.message for message in whole.messages] == ["m1", "m2"]
    assert (whole.starts, whole.move, whole.fence) == ((child, other), DONE, 1)


def test_nothing_of_a_run_follows_its_move_in_one_batch() -> None:
    assert taken(Commit("a", 1, move=DONE), recording("a", "late")) == [True, False]


def test_commits_under_two_fences_do_not_mix() -> None:
    assert taken(recording("a", "1"), recording("a", "2", fence=2)) == [True, False]


def test_a_run_is_not_moved_and_woken_in_one_batch() -> None:
    assert taken(telling("child", "a"), Commit("a", 1, move=DONE)) == [True, False]
    assert taken(Commit("a", 1, move=DONE), telling("child", "a")) == [True, False]
    assert taken(recording("a", "1"), telling("a", "a"), Commit("a", 1, move=DONE)) == [
        True, True, False,
    ]  # fmt: skip


def test_a_run_that_only_records_may_be_woken_in_the_same_batch() -> None:
    assert taken(recording("a", "1"), telling("child", "a")) == [True, True]
    assert taken(telling("child", "a"), recording("a", "1")) == [True, True]


def test_many_may_wake_one_run_in_one_batch() -> None:
    assert taken(*(telling(child, "parent", move=DONE) for child in "bcd")) == [True] * 3


def test_what_is_left_keeps_its_order_within_its_run() -> None:
    commits = [
        telling("child", "a"),
        Commit("a", 1, move=DONE),
        recording("a", "later"),
        recording("b", "1"),
    ]

    assert taken(*commits) == [True, False, False, True]


def test_a_park_that_may_be_refused_goes_without_the_records_before_it() -> None:
    park = Commit("a", 1, move=Move("waiting", due_in=1, seen=0))

    assert taken(recording("a", "1"), park) == [True, False]
    assert taken(recording("b", "1"), park) == [True, True]


def test_a_commit_with_attachments_goes_without_others_of_its_run() -> None:
    attaching = Commit(
        "a",
        1,
        attached=Attachments(pipeline=PipelineWrite(published=(NewEvent("e", "t", "m", b""),))),
    )

    assert taken(recording("a", "1"), attaching) == [True, False]
    assert taken(attaching, recording("a", "1")) == [True, False]


def test_attachments_are_never_lost_to_empty_ones() -> None:
    empty = Commit("a", 1, (record("a", "1"),), attached=Attachments())
    full = Commit("a", 1, attached=Attachments(effects=(effect("k"),)))

    batch, fits = folded(empty, full)

    assert fits == [True, False]
    assert batch.runs["a"].records == empty.records


def test_two_runs_do_not_attach_to_the_same_thing_in_one_batch() -> None:
    for attached in (
        Attachments(effects=(effect("k"),)),
        Attachments(pipeline=PipelineWrite("h", "x")),
    ):
        pair = [Commit(run, 1, attached=attached) for run in "ab"]
        assert taken(*pair) == [True, False], attached


def test_two_runs_may_attach_to_different_things_in_one_batch() -> None:
    one = Attachments(
        effects=(effect("k1"),),
        pipeline=PipelineWrite("h", "x"),
    )
    other = Attachments(
        effects=(effect("k2"),),
        pipeline=PipelineWrite("h", "y"),
    )

    assert taken(Commit("a", 1, attached=one), Commit("b", 1, attached=other)) == [True, True]


# --- how much goes together -----------------------------------------------------------------------


def test_a_batch_has_a_bounded_number_of_rows() -> None:
    commits = [recording(f"run-{number}", "1") for number in range(MAX_ROWS + 5)]

    assert taken(*commits).count(True) == MAX_ROWS


def test_a_batch_has_a_bounded_size() -> None:
    big = b"x" * (MAX_BYTES // 2 - 100)  # the names in a record count, too
    commits = [Commit(run, 1, (record(run, "1")._replace(payload=big),)) for run in ("a", "b", "c")]

    assert taken(*commits) == [True, True, False]


def test_every_kind_of_payload_counts_towards_the_size() -> None:
    half = b"x" * (MAX_BYTES // 2 + 1)
    started = NewRun("uid-c", "c", "n", half, "")
    event = NewEvent("e", "t", "m", half)
    published = Attachments(pipeline=PipelineWrite(published=(event,)))
    kinds = [
        Commit("a", 1, (record("a", "1")._replace(payload=half),)),
        Commit("a", 1, (record("a", "1")._replace(error=half),)),
        Commit("a", 1, move=Move("succeeded", result=half)),
        Commit("a", 1, move=Move("failed", error=half)),
        Commit("a", 1, messages=(NewMessage("t", "m", "signal", payload=half),)),
        Commit("a", 1, starts=(started,)),
        Commit("a", 1, attached=published),
    ]

    for one in kinds:
        other = Commit("b", 1, (record("b", "1")._replace(payload=half),))
        assert taken(one, other) == [True, False], one


def test_a_commit_that_is_too_big_for_any_batch_goes_alone() -> None:
    huge = Commit("a", 1, (record("a", "1")._replace(payload=b"x" * (MAX_BYTES + 1)),))

    assert taken(huge, recording("b", "1")) == [True, False]
    assert taken(recording("b", "1"), huge) == [True, False]


# --- what they are together -----------------------------------------------------------------------


def latest(*records: NewRecord) -> list[NewRecord]:
    return list(Commit("a", 1, records).latest_records())


def test_a_record_opened_and_closed_together_is_closed_and_keeps_its_beginning() -> None:
    opened = record("a", "w", "open")._replace(kind="wait", due_in=5, args_hash="h", version="v")
    closed = record("a", "w")._replace(seq=3, message=2, payload=b"p", error=b"e")

    [whole] = latest(opened, closed)

    assert whole == opened._replace(seq=3, state="succeeded", message=2, payload=b"p", error=b"e")


def test_a_later_due_time_of_an_open_record_counts() -> None:
    opened = record("a", "w", "open")._replace(due_in=5)

    [whole] = latest(opened, record("a", "w", "open")._replace(due=9))

    assert (whole.due, whole.due_in) == (9, None)


def test_the_first_result_of_a_record_stands() -> None:
    first = record("a", "s")._replace(payload=b"first")

    assert latest(first, record("a", "s")._replace(payload=b"second")) == [first]
    assert latest(first, record("a", "s", "open")) == [first]


def test_attempts_and_identities_are_kept_apart() -> None:
    records = [record("a", "s"), record("a", "s")._replace(attempt=2), record("a", "t")]

    assert latest(*records) == records


def test_only_a_commit_of_records_alone_is_plain() -> None:
    assert recording("a", "1").is_plain
    assert Commit("a", 1, attached=NOTHING_ATTACHED).is_plain
    assert not Commit("a", 1, move=DONE).is_plain
    assert not telling("a", "b").is_plain
    assert not Commit("a", 1, starts=(NewRun("u", "i", "n", b"", ""),)).is_plain
    assert not Commit("a", 1, attached=Attachments(effects=(effect("k"),))).is_plain
