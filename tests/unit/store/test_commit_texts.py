"""A text that Postgres would refuse is refused before it is sent, wherever in a commit it is."""

from __future__ import annotations

import pytest

from onward.errors import Rejected
from onward.model.cache import CacheWrite
from onward.model.commits import Attachments, Commit
from onward.model.pipelines import PipelineWrite, Preparation
from onward.model.records import NewRecord
from onward.model.runs import Move
from onward.store.writing.text_limits import check_commit

RECORD = NewRecord("r", "a#1", 1, 1, "step", "a", "succeeded", "h")
PREPARED = PipelineWrite("p.h", "", prepared=Preparation((), 0, None, "nul\0"))


@pytest.mark.parametrize(
    "commit",
    [
        Commit("r", 1, (RECORD._replace(args_hash="nul\0"),)),
        Commit("r", 1, (), Move("paused", parked_by="nul\0")),
        Commit("r", 1, attached=Attachments(cached=(CacheWrite("nul\0", "s", "1", b"", 1),))),
        Commit("r", 1, attached=Attachments(cached=(CacheWrite("k", "nul\0", "1", b"", 1),))),
        Commit("r", 1, attached=Attachments(cached=(CacheWrite("k", "s", "nul\0", b"", 1),))),
        Commit("r", 1, attached=Attachments(pipeline=PREPARED)),
    ],
)
def test_a_nul_anywhere_in_a_commit_is_refused(commit: Commit) -> None:
    with pytest.raises(Rejected, match="NUL"):
        check_commit(commit)


def test_a_plain_commit_passes() -> None:
    move = Move("paused", parked_by="x" * 5000)
    check_commit(Commit("r", 1, (RECORD,), move))
