"""What may stand in a text column: refused before anything is sent, and named."""

from __future__ import annotations

import pytest

from onward.errors import Rejected
from onward.model.commits import Attachments, Commit
from onward.model.effects import EffectWrite
from onward.model.messages import NewMessage
from onward.model.pipelines import NewEvent, NewInput, PipelineWrite, Preparation, Reservation
from onward.model.records import NewRecord
from onward.model.runs import Move, NewRun
from onward.store.writing.text_limits import MAX_KEY_BYTES, check_commit, check_message, check_run

RUN = NewRun("uid", "id", "name", b"\0", "hash")
MESSAGE = NewMessage("target", "m", "signal", "name", b"\0")
RECORD = NewRecord("uid", "step#1", 1, 1, "step", "step", "succeeded", payload=b"\0")


def test_what_every_database_takes_passes() -> None:
    check_run(RUN._replace(id="é🦆\r\n'", tags="x " * 5000, trace="t" * 5000))
    check_message(MESSAGE)
    check_commit(Commit("uid", 1, (RECORD._replace(name="é"),), Move("succeeded", result=b"\0")))


@pytest.mark.parametrize(
    ("bad", "fact"),
    [
        ("a\0b", "id contains a NUL character"),
        ("a\udc80b", "id contains half of a surrogate pair"),
        ("x" * (MAX_KEY_BYTES + 1), "id is 1,001 bytes long"),
        ("é" * (MAX_KEY_BYTES // 2 + 1), "id is 1,002 bytes long"),
    ],
)
def test_a_bad_text_is_named_but_not_quoted(bad: str, fact: str) -> None:
    with pytest.raises(Rejected, match=fact) as refused:
        check_run(RUN._replace(id=bad))

    assert bad not in str(refused.value)


def test_a_key_of_the_longest_length_passes() -> None:
    check_run(RUN._replace(id="x" * MAX_KEY_BYTES))
    check_run(RUN._replace(id="é" * (MAX_KEY_BYTES // 2)))


@pytest.mark.parametrize(
    "commit",
    [
        Commit("uid", 1, (RECORD._replace(identity="\0"),)),
        Commit("uid", 1, (RECORD._replace(name="é\0"),)),
        Commit("uid", 1, (RECORD._replace(version="\0"),)),
        Commit("uid", 1, (RECORD, RECORD._replace(identity="x" * 1001))),
        Commit("uid", 1, move=Move("failed", "\0")),
        Commit("uid", 1, messages=(MESSAGE._replace(wakes="\0"),)),
        Commit("uid", 1, starts=(RUN._replace(parent="\0"),)),
        Commit(
            "uid",
            1,
            attached=Attachments(
                effects=(EffectWrite("k", "uid", "i", "n", "\0", b"", "", "planned", 1),)
            ),
        ),
        *(
            Commit("uid", 1, attached=Attachments(pipeline=written))
            for written in (
                PipelineWrite("\0"),
                PipelineWrite("h", "\0"),
                PipelineWrite("h", prepared=Preparation((Reservation("\0", 1),), 0, None, "")),
                PipelineWrite("h", inputs=(NewInput("u", "p", "s", "t", "\0", "title"),)),
                PipelineWrite(published=(NewEvent("u", "t", "\0", b""),)),
            )
        ),
    ],
)
def test_every_part_of_a_commit_is_looked_at(commit: Commit) -> None:
    with pytest.raises(Rejected):
        check_commit(commit)
