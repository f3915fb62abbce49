"""What a worker may not commit: each rule is broken once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.core.digest import digest
from onward.core.effect.keys import effect_key
from onward.core.instant import MAX_DURATION
from onward.core.owner_rights import OWNER_MOVES, OwnerCall
from onward.core.run import REASONS, Reason, RunState
from onward.engine.frame_checks import (
    FrameFacts,
    KnownEffect,
    KnownEvent,
    KnownWorker,
    NeededFacts,
    after_commit,
    as_written,
    check_commit,
    facts_needed,
)
from onward.model.cache import CacheWrite
from onward.model.commits import Attachments, Commit
from onward.model.messages import NewMessage
from onward.model.pipelines import NewEvent, NewInput, PipelineWrite, Reservation
from onward.model.runs import Move
from tests.unit.engine.frame_checks.samples import (
    COMPLETED,
    CONSUMER,
    EFFECT,
    EVENT,
    FACTS,
    HANDLER,
    HANDLER_KEY,
    HELD,
    HELD_CONSUMER,
    INPUT,
    LIMITS,
    PARENT,
    PREPARED,
    RECORD,
    ROOT,
    RUN,
    START,
    STRANGER,
    WORKER,
)

SUCCEEDED = Move("succeeded", result=b"j42")
PUBLISHED = NewEvent(EVENT, "mails", "m1", b"j1")
ENTERED = NewInput(INPUT, "mail", "gmail", "email", "18c2", "Mail from Ada")


def rule(commit: Commit, facts: FrameFacts = FACTS, worker: KnownWorker = WORKER) -> str | None:
    refusal = check_commit(worker, commit, facts)
    return None if refusal is None else refusal.rule


def own(*records: Any, **rest: Any) -> Commit:
    """Return a commit of the workflow's run."""
    return Commit(RUN, 3, tuple(records), **rest)


def consumers(**rest: Any) -> Commit:
    """Return a commit of the consumer's run."""
    return Commit(CONSUMER, 1, **rest)


def effect(**changes: Any) -> Commit:
    return own(attached=Attachments(effects=(EFFECT._replace(**changes),)))


def pipeline(write: PipelineWrite, move: Move | None = None) -> Commit:
    return consumers(move=move, attached=Attachments(pipeline=write))


# --- whose run ------------------------------------------------------------------------------------


def test_the_run_of_another_worker_is_refused() -> None:
    assert rule(Commit(STRANGER, 3, (RECORD,))) == "run"


def test_another_fence_is_refused() -> None:
    assert rule(Commit(RUN, 2, (RECORD,))) == "fence"


def test_what_the_worker_may_write_is_not_refused() -> None:
    assert rule(own(RECORD)) is None
    assert rule(own(RECORD, starts=(START,))) is None
    assert rule(own(move=SUCCEEDED)) is None
    assert rule(effect()) is None
    assert rule(pipeline(PREPARED)) is None
    assert rule(pipeline(COMPLETED, SUCCEEDED)) is None


# --- records --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"run": STRANGER}, "record"),
        ({"kind": "spell"}, "record"),
        ({"state": "maybe"}, "record"),
        ({"identity": ""}, "record"),
        ({"attempt": 0}, "record"),
        ({"attempt": 1 << 62}, "record"),
        ({"seq": 0}, "record"),
        ({"seq": 1 << 62}, "record"),
        ({"due_in": MAX_DURATION + 1}, "number"),
        ({"took": -1}, "number"),
        ({"took": MAX_DURATION + 1}, "number"),
        ({"due": 1 << 62}, "number"),
        ({"message": 1 << 62}, "number"),
        ({"payload": b"x" * 1001}, "size"),
        ({"error": b"x" * 1001}, "size"),
        ({"args": b"x" * 1001}, "size"),
    ],
)
def test_a_record_that_cannot_be_is_refused(changes: dict[str, Any], broken: str) -> None:
    assert rule(own(RECORD, RECORD._replace(**changes))) == broken


@pytest.mark.parametrize(
    "changes",
    [{"seq": None, "state": "open"}, {"due": 5}, {"due_in": 5}, {"message": 5}, {"took": 5}],
)
def test_a_record_of_a_wait_is_not_refused(changes: dict[str, Any]) -> None:
    assert rule(own(RECORD._replace(**changes))) is None


def test_a_commit_that_is_too_large_is_refused() -> None:
    assert rule(own(*[RECORD] * 11)) == "size"
    assert rule(own(*[RECORD._replace(payload=b"x" * 1000)] * 6)) == "size"


def test_messages_are_refused() -> None:
    message = NewMessage(STRANGER, "m", "signal", "approval")
    assert rule(own(RECORD, messages=(message,))) == "message"
    assert rule(own(move=SUCCEEDED, messages=(message._replace(target=PARENT),))) == "message"


# --- moves ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [*RunState, "lost"])
@pytest.mark.parametrize("reason", [None, *Reason])
def test_a_run_moves_only_where_its_owner_may_move_it(state: str, reason: str | None) -> None:
    moves = OWNER_MOVES[OwnerCall.COMMIT]
    allowed = state in set(RunState) and reason in moves.get(RunState(state), ())
    assert rule(own(move=Move(state, reason))) == (None if allowed else "move")


@pytest.mark.parametrize("call", OwnerCall)
def test_every_move_of_an_owner_is_one_that_a_run_can_make(call: OwnerCall) -> None:
    for state, reasons in OWNER_MOVES[call].items():
        assert reasons <= REASONS[state]


def test_an_owner_cannot_end_its_run_as_others_do() -> None:
    assert rule(own(move=Move("cancelled", "forced"))) == "move"
    assert rule(own(move=Move("succeeded", "continued"))) == "move"
    assert rule(own(move=Move("failed", "crashed"))) == "move"


@pytest.mark.parametrize(
    ("move", "broken"),
    [
        (Move("failed", "logic", result=b"j1"), "move"),
        (Move("running", phase="preparing"), "move"),
        (Move("succeeded", result=b"x" * 1001), "size"),
        (Move("failed", "logic", error=b"x" * 1001), "size"),
        (Move("waiting", progress=b"x" * 1001), "size"),
        (Move("failed", "logic", failed_call="x" * 1001), "size"),
        (Move("waiting", due=1 << 62), "number"),
        (Move("waiting", seen=1 << 62), "number"),
        (Move("waiting", due_in=MAX_DURATION + 1), "number"),
    ],
)
def test_a_move_with_what_it_cannot_have_is_refused(move: Move, broken: str) -> None:
    assert rule(own(move=move)) == broken


def test_a_consumer_has_phases_that_exist() -> None:
    assert rule(consumers(move=Move("running", phase="mutating"))) is None
    assert rule(consumers(move=Move("running", phase="dreaming"))) == "move"


# --- effects --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"run": STRANGER}, "effect"),
        ({"key": "0" * 32}, "effect"),
        ({"identity": "charge#2"}, "effect"),
        ({"state": "skipped"}, "effect"),
        ({"state": "maybe"}, "effect"),
        ({"version": 0}, "effect"),
        ({"attempt": -1}, "effect"),
        ({"asks": -1}, "effect"),
        ({"approved": 2}, "approval"),
        ({"tries": 1 << 62}, "number"),
        ({"reach": MAX_DURATION + 1}, "number"),
        ({"settle_in": MAX_DURATION + 1}, "number"),
        ({"args": b"x" * 1001}, "size"),
        ({"attempts": b"x" * 1001}, "size"),
        ({"title": "x" * 1001}, "size"),
    ],
)
def test_an_effect_that_cannot_be_is_refused(changes: dict[str, Any], broken: str) -> None:
    assert rule(effect(**changes)) == broken


def test_the_effect_of_another_run_is_refused_even_under_its_own_key() -> None:
    assert rule(effect(key=effect_key(STRANGER, "charge#1"))) == "effect"


def test_a_retry_writes_the_effects_of_the_run_that_it_repeats() -> None:
    retry = replace(WORKER, runs={RUN: replace(HELD, origin=STRANGER)})
    key = effect_key(STRANGER, "charge#1")
    assert rule(effect(key=key), worker=retry) is None
    assert rule(effect(), worker=retry) == "effect"


def test_an_effect_is_written_once_in_a_commit() -> None:
    assert rule(own(attached=Attachments(effects=(EFFECT, EFFECT)))) == "effect"


@pytest.mark.parametrize("state", ["in_flight", "applied", "needs_reconcile", "indeterminate"])
def test_what_was_not_approved_cannot_have_been_sent(state: str) -> None:
    assert rule(effect(state=state, approved=0)) == "approval"


@pytest.mark.parametrize("state", ["planned", "withdrawn", "failed"])
def test_what_was_not_sent_needs_no_approval(state: str) -> None:
    assert rule(effect(state=state, approved=0)) is None
    assert rule(effect(state=state, approved=0, version=2)) is None


def ledger(version: int, approved: int) -> FrameFacts:
    return FrameFacts(effects={EFFECT.key: KnownEffect(version, approved)})


def test_a_worker_cannot_approve_an_effect_itself() -> None:
    sent = effect(version=2)
    assert rule(sent, ledger(1, 0)) == "approval"
    assert rule(sent, ledger(1, 1)) is None


def test_an_approval_counts_for_the_next_version_alone() -> None:
    sent = effect(version=3)
    assert rule(sent, ledger(1, 1)) == "approval"
    assert rule(sent, ledger(2, 0)) == "approval"
    assert rule(sent, FrameFacts()) == "approval"


@pytest.mark.parametrize(
    "changes", [{"title": "Charge Bob"}, {"args": b"j[6]"}, {"args_hash": "other"}]
)
def test_an_approval_counts_for_what_the_operator_saw_alone(changes: dict[str, Any]) -> None:
    seen = (EFFECT.title, EFFECT.args, EFFECT.args_hash)
    facts = FrameFacts(effects={EFFECT.key: KnownEffect(3, 1, seen)})
    assert rule(effect(version=4), facts) is None
    assert rule(effect(version=4, **changes), facts) == "approval"
    assert rule(effect(version=4, **changes), ledger(3, 1)) is None  # nobody was asked


def test_an_approval_that_was_used_here_is_looked_up_again() -> None:
    plan = after_commit(replace(HELD, effects={}), effect(state="planned", approved=0))
    assert plan is not None
    after = after_commit(plan, effect(version=3, state="failed"))
    assert after is not None
    worker = replace(WORKER, runs={RUN: after})
    assert facts_needed(worker, effect(version=4)) == NeededFacts(effects=(EFFECT.key,))


def test_an_effect_is_refused_that_is_too_large_only_as_a_whole() -> None:
    data = b"x" * 1000
    large = effect(args=data, result=data, error=data, attempts=data)
    assert rule(large) is None
    assert (
        rule(effect(args=data, result=data, error=data, attempts=data, title="x" * 999)) == "size"
    )


def test_an_effect_that_is_in_the_ledger_may_be_sent_again() -> None:
    sent = effect(version=3)
    assert rule(sent, ledger(3, 1)) is None
    assert rule(sent, ledger(4, 1)) is None
    assert rule(sent, ledger(4, 0)) is None
    assert rule(sent, ledger(3, 0)) == "approval"


def test_an_effect_that_was_written_here_needs_no_look_at_the_ledger() -> None:
    after = after_commit(replace(HELD, effects={}), effect())
    assert after is not None
    worker = replace(WORKER, runs={RUN: after})
    applied = effect(version=2, state="applied")
    assert not facts_needed(worker, applied)
    assert rule(applied, FrameFacts(), worker) is None
    assert facts_needed(WORKER, applied) == NeededFacts(effects=(EFFECT.key,))


def test_a_plan_that_was_written_here_does_not_approve_itself() -> None:
    after = after_commit(replace(HELD, effects={}), effect(state="planned", approved=0))
    assert after is not None
    worker = replace(WORKER, runs={RUN: after})
    sent = effect(version=2)
    assert facts_needed(worker, sent) == NeededFacts(effects=(EFFECT.key,))
    assert rule(sent, ledger(1, 0), worker) == "approval"


def test_the_effects_of_a_run_are_not_copied_for_each_commit() -> None:
    """A run may have many thousands."""
    held = replace(HELD, effects={"other": KnownEffect(1, 1)})
    assert after_commit(held, effect()) is held
    assert held.effects == {"other": KnownEffect(1, 1), EFFECT.key: KnownEffect(1, 1)}


# --- cached results -------------------------------------------------------------------------------


def test_cached_results_are_taken_unless_they_are_too_large() -> None:
    entry = CacheWrite("key", "rate", "", b"j1", 5)
    assert rule(own(RECORD, attached=Attachments(cached=(entry,)))) is None
    wrongs: list[tuple[dict[str, Any], str]] = [
        ({"payload": b"x" * 1001}, "size"),
        ({"length": MAX_DURATION + 1}, "number"),
        ({"key": ""}, "cache"),
    ]
    for changes, broken in wrongs:
        wrong = Attachments(cached=(entry._replace(**changes),))
        assert rule(own(RECORD, attached=wrong)) == broken


# --- pipelines ------------------------------------------------------------------------------------


def test_a_workflow_publishes_and_writes_nothing_else_to_pipelines() -> None:
    publish = PipelineWrite(published=(PUBLISHED,))
    assert rule(own(RECORD, attached=Attachments(pipeline=publish))) is None
    for wrong in (
        publish._replace(handler=HANDLER, key=HANDLER_KEY),
        publish._replace(inputs=(ENTERED,)),
        publish._replace(prepared=PREPARED.prepared),
        publish._replace(completed=COMPLETED.completed),
    ):
        assert rule(own(RECORD, attached=Attachments(pipeline=wrong))) == "handler"


@pytest.mark.parametrize("other", [{"handler": "mail.other"}, {"key": "bob"}, {"handler": ""}])
def test_a_handler_writes_as_itself_alone(other: dict[str, Any]) -> None:
    assert rule(pipeline(PREPARED._replace(**other))) == "handler"
    assert rule(pipeline(COMPLETED._replace(**other), SUCCEEDED)) == "handler"


def test_a_handler_ends_with_its_completion_alone() -> None:
    assert rule(consumers(move=SUCCEEDED)) == "handler"
    assert rule(pipeline(COMPLETED)) == "handler"
    assert rule(consumers(move=Move("failed", "logic"))) == "handler"
    assert rule(consumers(move=Move("cancelled"))) == "handler"
    assert rule(consumers(move=Move("paused", "approval"))) is None


def test_the_origin_of_a_preparation_follows_from_its_events() -> None:
    assert PREPARED.prepared is not None
    assert facts_needed(WORKER, pipeline(PREPARED)) == NeededFacts(events=(EVENT,))
    other = FrameFacts(events={EVENT: KnownEvent(1, 0)})
    assert rule(pipeline(PREPARED), other) == "handler"
    stolen = PREPARED._replace(prepared=PREPARED.prepared._replace(origin=STRANGER))
    assert rule(pipeline(stolen)) == "handler"


def test_an_event_that_is_gone_or_has_changed_is_told_apart() -> None:
    assert rule(pipeline(PREPARED), FrameFacts()) == "event_changed"
    replayed = FrameFacts(events={EVENT: KnownEvent(2, 3)})
    assert rule(pipeline(PREPARED), replayed) == "event_changed"


def test_the_effect_of_a_consumer_has_the_key_of_its_preparation() -> None:
    after = after_commit(replace(HELD_CONSUMER, effects={}), pipeline(PREPARED))
    assert after is not None
    assert PREPARED.prepared is not None
    row = EFFECT._replace(run=CONSUMER, key=effect_key(PREPARED.prepared.origin, "charge#1"))
    sent = consumers(attached=Attachments(effects=(row,)))
    assert rule(sent) == "effect"
    assert rule(sent, worker=replace(WORKER, runs={CONSUMER: after})) is None


def test_only_a_consumer_reserves_events() -> None:
    producer = replace(WORKER, runs={CONSUMER: replace(HELD_CONSUMER, kind="producer")})
    assert rule(pipeline(PREPARED), worker=producer) == "handler"


def test_events_are_reserved_once_and_not_too_many() -> None:
    assert PREPARED.prepared is not None
    for reserve in (
        (Reservation(EVENT, 1), Reservation(EVENT, 1)),
        tuple(Reservation(f"{n}", 1) for n in range(1001)),
    ):
        wrong = PREPARED._replace(prepared=PREPARED.prepared._replace(reserve=reserve))
        assert rule(pipeline(wrong)) == "handler"


@pytest.mark.parametrize(
    ("changes", "broken"),
    [
        ({"published": (PUBLISHED._replace(payload=b"x" * 1001),)}, "size"),
        ({"published": (PUBLISHED._replace(uid=""),)}, "event"),
        ({"published": (PUBLISHED._replace(topic=""),)}, "event"),
        ({"published": (PUBLISHED._replace(message=""),)}, "event"),
        ({"published": (PUBLISHED,) * 11}, "size"),
        ({"inputs": (ENTERED._replace(pipeline="other"),)}, "handler"),
        ({"inputs": (ENTERED._replace(uid="mine"),)}, "handler"),
        ({"inputs": (ENTERED._replace(title="x" * 1001),)}, "size"),
    ],
)
def test_what_a_handler_publishes_is_checked(changes: dict[str, Any], broken: str) -> None:
    write = COMPLETED._replace(published=(PUBLISHED,), inputs=(ENTERED,))
    assert rule(pipeline(write, SUCCEEDED)) is None
    assert rule(pipeline(write._replace(**changes), SUCCEEDED)) == broken


def test_a_handler_publishes_to_its_topics_alone() -> None:
    held = replace(HELD_CONSUMER, topics=frozenset({"rows"}))
    worker = replace(WORKER, runs={CONSUMER: held})
    write = COMPLETED._replace(published=(PUBLISHED,))
    assert rule(pipeline(write, SUCCEEDED), worker=worker) == "event"
    write = COMPLETED._replace(published=(PUBLISHED._replace(topic="rows"),))
    assert rule(pipeline(write, SUCCEEDED), worker=worker) is None


def test_the_state_of_a_handler_is_not_too_large() -> None:
    assert COMPLETED.completed is not None
    large = COMPLETED.completed._replace(state=b"x" * 1001)
    assert rule(pipeline(COMPLETED._replace(completed=large), SUCCEEDED)) == "size"


# --- what a server makes of a commit --------------------------------------------------------------


def test_the_uid_of_an_event_follows_from_its_topic_and_id() -> None:
    attached = Attachments(pipeline=PipelineWrite(published=(PUBLISHED,)))
    written = as_written(own(RECORD, attached=attached)).attached.pipeline
    assert written is not None
    [event] = written.published
    assert event == PUBLISHED._replace(uid=digest("event", "mails", "m1"))


def test_an_ordinary_commit_is_written_as_it_is() -> None:
    for commit in (own(RECORD), effect(), own(move=Move("waiting"))):
        assert as_written(commit) is commit


def test_a_run_that_left_is_held_no_more() -> None:
    assert after_commit(HELD, own(move=Move("waiting"))) is None
    assert after_commit(HELD, own(move=SUCCEEDED)) is None
    assert after_commit(HELD, own(RECORD, move=Move("running"))) is HELD
    assert after_commit(HELD, own(RECORD)) is HELD


def test_nothing_is_read_for_ordinary_commits() -> None:
    for commit in (own(RECORD), own(move=SUCCEEDED), effect(), Commit(STRANGER, 1, (RECORD,))):
        assert not facts_needed(WORKER, commit)


def test_a_child_in_a_commit_is_checked() -> None:
    assert rule(own(RECORD, starts=(START._replace(parent=STRANGER),))) == "start"
    assert rule(own(RECORD, starts=(START._replace(root=STRANGER),))) == "start"
    assert START.root == ROOT
    assert LIMITS.rows == 10
