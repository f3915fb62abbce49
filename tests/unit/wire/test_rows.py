"""Rows and their messages: the same fields with the same types, and nothing lost on the way."""

from collections.abc import Mapping
from enum import StrEnum
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward.core.lease import Fate
from onward.errors import BadInput, LeaseLost, Undecodable
from onward.model.commits import NOTHING_ATTACHED, Attachments, Commit, CommitOutcome
from onward.model.effects import EffectWrite
from onward.model.records import NewRecord
from onward.model.runs import ClaimedRun, Move, NewRun
from onward.model.workers import ClaimAnswer, LoadedRun
from onward.wire import work
from onward.wire.messages import messages
from onward.wire.names import NAMES
from onward.wire.rows import OMITTED, codec, field_names, is_row, without_none

ROWS: dict[str, Any] = {
    name: NAMES[name]
    for name in vars(messages)
    if is_row(NAMES.get(name)) and name not in {"Commit", "LoadedRun", "News"}
}
"""The rows that cross by their annotations alone; `onward.wire.work` has functions for the rest."""

INTEGERS = st.integers(-(2**63), 2**63 - 1)


def values_of(hint: Any) -> st.SearchStrategy[Any]:
    """Return values of an annotation, such as a database may hold."""
    kind, is_optional = without_none(hint)
    if is_optional:
        return st.none() | values_of(kind)
    if get_origin(kind) is tuple:
        return st.lists(values_of(get_args(kind)[0]), max_size=3).map(tuple)
    if isinstance(get_origin(kind), type) and issubclass(get_origin(kind), Mapping):
        return st.dictionaries(*map(values_of, get_args(kind)), max_size=3)
    if is_row(kind):
        return rows_of(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return st.sampled_from(list(kind))
    simple = {int: INTEGERS, bool: st.booleans(), str: st.text(), bytes: st.binary()}
    return simple[kind]


def rows_of(row: Any) -> st.SearchStrategy[Any]:
    hints = get_type_hints(row)
    omitted = OMITTED.get(row, {})
    return st.builds(
        row,
        **{
            name: st.just(omitted[name]) if name in omitted else values_of(hints[name])
            for name in field_names(row)
        },
    )


@pytest.mark.parametrize("name", ROWS)
def test_a_row_and_its_message_have_the_same_fields(name: str) -> None:
    sent = [each for each in field_names(ROWS[name]) if each not in OMITTED.get(ROWS[name], {})]
    assert sent == [field.name for field in getattr(messages, name).DESCRIPTOR.fields]


@pytest.mark.parametrize("name", ROWS)
def test_what_may_be_none_in_a_row_may_be_absent_from_its_message(name: str) -> None:
    fields = getattr(messages, name).DESCRIPTOR.fields
    hints = get_type_hints(ROWS[name])
    optional = {each.name for each in fields if NoneType in get_args(hints[each.name])}
    with_presence = {
        each.name for each in fields if each.has_presence and each.message_type is None
    }
    assert with_presence == optional - {each.name for each in fields if each.message_type}


@pytest.mark.parametrize("name", ROWS)
@settings(max_examples=25)
@given(data=st.data())
def test_every_row_comes_back_as_it_was(name: str, data: Any) -> None:
    row = data.draw(rows_of(ROWS[name]))
    message = getattr(messages, name)
    converter = codec(ROWS[name], message)
    sent = converter.to_message(row).SerializeToString()
    arrived = converter.to_row(message.FromString(sent))
    assert arrived == row
    assert type(arrived) is type(row)
    for field in field_names(type(row)):
        assert type(getattr(arrived, field)) is type(getattr(row, field))


def test_a_word_that_this_version_does_not_know_is_an_error() -> None:
    row = codec(ROWS["FlowId"], messages.FlowId)
    with pytest.raises(Undecodable, match="'elsewhere'"):
        row.to_row(messages.FlowId(kind="elsewhere", name="n"))


COMMITS = st.builds(
    Commit,
    st.text(),
    INTEGERS,
    st.lists(rows_of(NewRecord), max_size=3).map(tuple),
    st.none() | rows_of(Move),
    starts=st.lists(rows_of(NewRun), max_size=2).map(tuple),
    attached=st.just(NOTHING_ATTACHED)
    | st.builds(Attachments, st.lists(rows_of(EffectWrite), min_size=1, max_size=2).map(tuple)),
)


@settings(max_examples=25)
@given(COMMITS, st.integers(1, 2**63))
def test_a_commit_comes_back_as_it_was(commit: Commit, no: int) -> None:
    sent = work.commit_message(no, commit).SerializeToString()
    message = messages.Commit.FromString(sent)
    # A record is one of the run of its commit.
    records = tuple(record._replace(run=commit.run) for record in commit.records)
    expected = Commit(
        commit.run,
        commit.fence,
        records,
        commit.move,
        starts=commit.starts,
        attached=commit.attached,
    )
    assert message.no == no
    assert work.commit_of(message) == expected


@settings(max_examples=25)
@given(st.sampled_from(list(Fate)), INTEGERS)
def test_an_outcome_comes_back_as_it_was(fate: Fate, at: int) -> None:
    assert work.outcome_of(work.outcome_message(1, CommitOutcome(fate, at))) == CommitOutcome(
        fate, at
    )


def test_an_error_of_a_commit_comes_back_as_the_same_type() -> None:
    arrived = work.outcome_of(work.outcome_message(1, LeaseLost("r1")))
    assert isinstance(arrived, LeaseLost)
    assert arrived.run == "r1"


@settings(max_examples=25)
@given(st.lists(rows_of(ClaimedRun), max_size=3), st.booleans(), st.integers(1, 3))
def test_a_claim_comes_back_in_parts(
    runs: list[ClaimedRun], was_repeated: bool, parts: int
) -> None:
    answer = ClaimAnswer(runs, frozenset(run.uid for run in runs[:1]), was_repeated)
    replies = [work.claim_reply(answer._replace(runs=runs[first::parts])) for first in range(parts)]
    arrived = work.claim_answer(replies)
    assert sorted(map(repr, arrived.runs)) == sorted(map(repr, runs))
    assert arrived.changed == answer.changed
    assert arrived.was_repeated == was_repeated


@settings(max_examples=25)
@given(st.data())
def test_loaded_runs_come_back_in_as_many_parts_as_their_size_demands(data: Any) -> None:
    inbox = st.lists(rows_of(NAMES["InboxRow"]), max_size=2)
    history = st.lists(rows_of(NAMES["RecordRow"]), max_size=2)
    loaded = data.draw(
        st.dictionaries(
            st.text(), st.builds(LoadedRun, history, inbox, st.none(), st.just(0)), max_size=2
        )
    )
    replies = work.load_replies(loaded, data.draw(st.integers(1, 200)))
    assert work.loaded_runs(replies) == loaded


def test_a_history_that_cannot_be_read_arrives_as_its_error() -> None:
    loaded = {"r1": LoadedRun(failure=BadInput("row", "is damaged", "Look"))}
    arrived = work.loaded_runs(work.load_replies(loaded, 1000))
    assert isinstance(arrived["r1"].failure, BadInput)


def test_a_request_to_load_comes_back_as_it_was() -> None:
    request = work.load_request(["a"], {"a": None, "b": 0, "c": 7})
    assert work.load_arguments(request) == (["a"], {"a": None, "b": 0, "c": 7})
