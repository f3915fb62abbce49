"""Whatever an honest worker writes passes, and whatever is changed about whose it is does not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from onward.core.chain import child_origin
from onward.core.decision import Moved
from onward.core.effect import (
    Answer,
    ApprovalRejected,
    Approved,
    GivenUp,
    HandlerReturned,
    Inherited,
    Judged,
    LedgerEntry,
    Lost,
    NotStarted,
    RaisedNotApplied,
    Reconciled,
    Sent,
    Terms,
    Verdict,
    Withdrawn,
    advance,
    planned,
)
from onward.core.instant import MINUTE, SECOND
from onward.core.owner_rights import OWNER_MOVES, OwnerCall
from onward.core.replay import RecordKind, RecordState
from onward.engine.frame_checks import (
    FrameFacts,
    KnownEffect,
    after_commit,
    check_commit,
    check_start,
    facts_needed,
)
from onward.model.commits import Attachments, Commit
from onward.model.records import NewRecord
from onward.model.runs import Move
from tests.unit.engine.frame_checks.samples import (
    EFFECT,
    HELD,
    OWNER,
    RUN,
    START,
    STRANGER,
    WORKER,
)

if TYPE_CHECKING:
    from onward.core.effect import Fact

TEXTS = st.text(max_size=20)
BYTES = st.none() | st.binary(max_size=300)
LENGTHS = st.none() | st.integers(0, 400 * 365 * 24 * 3600 * SECOND)


def with_its_position(record: NewRecord) -> NewRecord:
    """Return a record as workers write it: an open one has no position, a clock record has one."""
    if record.kind == RecordKind.CLOCK:
        return record._replace(state=RecordState.SUCCEEDED, seq=record.seq or 1)
    return record._replace(seq=None) if record.state == RecordState.OPEN else record


RECORDS: st.SearchStrategy[NewRecord] = st.builds(
    NewRecord,
    st.just(RUN),
    st.text(min_size=1, max_size=20),
    st.integers(1, 1000),
    st.none() | st.integers(1, 50_000),
    st.sampled_from(list(RecordKind)),
    TEXTS,
    st.sampled_from(list(RecordState)),
    st.none() | TEXTS,
    st.none() | TEXTS,
    st.none() | st.integers(0, 1 << 55),
    LENGTHS,
    st.none() | st.integers(1, 1 << 30),
    BYTES,
    BYTES,
    st.integers(0, 3600 * SECOND),
    BYTES,
).map(with_its_position)
MOVES: st.SearchStrategy[Move] = st.sampled_from(
    [
        Move(state, reason, result=b"j1" if state == "succeeded" else None, seq=4, seen=2)
        for state, reasons in OWNER_MOVES[OwnerCall.COMMIT].items()
        for reason in sorted(reasons, key=str)
    ]
)


@st.composite
def starts(draw: st.DrawFn) -> Any:
    """Return a run that a body starts, as `runtime.body.children.born` makes it."""
    identity = draw(st.text(min_size=1, max_size=20))
    is_bound = draw(st.booleans())
    return START._replace(
        parent_identity=identity,
        cancel_with_parent=int(is_bound),
        origin=child_origin(RUN, identity) if is_bound else None,
        kind=draw(st.sampled_from(["workflow", "step", "map"])),
        queue=draw(st.sampled_from(["default", "gpu"])),
        input=draw(st.binary(max_size=300)),
        delay_in=draw(st.integers(0, MINUTE)),
        priority=draw(st.integers(-1000, 1000)),
    )


COMMITS = st.builds(
    lambda records, move, children: Commit(RUN, 3, tuple(records), move, (), tuple(children)),
    st.lists(RECORDS, max_size=3),
    st.none() | MOVES,
    st.lists(starts(), max_size=2),
)


@given(COMMITS)
def test_an_honest_commit_passes(commit: Commit) -> None:
    assert not facts_needed(WORKER, commit)
    assert check_commit(WORKER, commit) is None
    for start in commit.starts:
        assert check_start(WORKER, OWNER, start, None) is None


@given(COMMITS, st.data())
def test_a_commit_that_reaches_for_another_run_is_refused(commit: Commit, data: Any) -> None:
    ways = [replace_run(commit, STRANGER, 3), replace_run(commit, RUN, data.draw(FENCES))]
    if commit.records:
        stray = commit.records[0]._replace(run=STRANGER)
        ways.append(Commit(RUN, 3, (*commit.records, stray), commit.move))
    ways += [
        Commit(RUN, 3, commit.records, commit.move, (), (start._replace(parent=STRANGER),))
        for start in commit.starts
    ]
    for way in ways:
        assert check_commit(WORKER, way) is not None


FENCES = st.integers().filter(lambda fence: fence != HELD.fence)


def replace_run(commit: Commit, run: str, fence: int) -> Commit:
    return Commit(run, fence, commit.records, commit.move, (), commit.starts)


# --- effects --------------------------------------------------------------------------------------

TERMS = [
    Terms(30 * SECOND),
    Terms(30 * SECOND, reconciles=True),
    Terms(30 * SECOND, idempotency_window=10 * MINUTE),
]
OWN_FACTS: list[Fact] = [
    Sent(),
    HandlerReturned(),
    RaisedNotApplied(randomness=0.5),
    NotStarted(),
    Lost(0.5, 0),
    GivenUp(),
    Reconciled(Answer.APPLIED, 0.5),
    Reconciled(Answer.NOT_APPLIED, 0.5),
    Reconciled(Answer.UNKNOWN, 0.5),
    Withdrawn(),
    Inherited(),
]
OPERATORS_FACTS: list[Fact] = [
    Approved(),
    ApprovalRejected(),
    Judged(Verdict.APPLIED),
    Judged(Verdict.NOT_APPLIED),
    Judged(Verdict.SKIP),
    Judged(Verdict.ASK_AGAIN),
]


@given(
    st.sampled_from(TERMS),
    st.booleans(),
    st.lists(
        st.tuples(st.sampled_from(OWN_FACTS + OPERATORS_FACTS), st.integers(0, 5 * MINUTE)),
        max_size=40,
    ),
)
def test_an_honest_worker_carries_out_its_effects(
    terms: Terms, approve: bool, life: list[tuple[Fact, int]]
) -> None:
    """The worker writes what the machine of effects says; operators decide in between."""
    effect, held, now = planned(approve=approve), replace(HELD, effects={}), 0
    if approve:  # the ledger must have it before an operator can approve it
        effect = LedgerEntry(version=1, approved=False)
        held = written(held, effect, None)
    for fact, passed in life:
        now += passed
        decision = advance(effect, fact, terms, now=now)
        if not isinstance(decision, Moved):
            continue
        before = KnownEffect(effect.version, int(effect.approved)) if effect.version else None
        effect = decision.to
        if fact in OWN_FACTS:
            held = written(held, effect, before)
    assert held.uid == RUN


def written(held: Any, effect: LedgerEntry, ledger: KnownEffect | None) -> Any:
    """Check a row of the ledger as a server does, and return the run once it is written."""
    row = EFFECT._replace(
        state=effect.state,
        version=effect.version,
        attempt=effect.attempt,
        asks=effect.asks,
        approved=int(effect.approved),
    )
    worker = replace(WORKER, runs={RUN: held})
    commit = Commit(RUN, 3, attached=Attachments(effects=(row,)))
    looked_up = facts_needed(worker, commit).effects
    known = {EFFECT.key: ledger} if looked_up and ledger is not None else {}
    assert check_commit(worker, commit, FrameFacts(effects=known)) is None
    return after_commit(held, commit)
