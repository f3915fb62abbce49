"""The commits of a worker: which of them came, on which stream, and which were answered.

A commit that is sent again may have another number, so commits are compared by their content.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.testing.protocol.rules import RuleBroken
from onward.wire.messages import messages

if TYPE_CHECKING:
    from onward.testing.protocol.faults import PlayedStream


@dataclass(eq=False)
class SentCommit:
    """One commit, however often it came."""

    run: str
    fence: int
    is_answered: bool = False
    is_done: bool = False


class CommitLog:
    """The commits of one worker, in the order in which they first came."""

    def __init__(self) -> None:
        self._sent: dict[bytes, SentCommit] = {}
        self._numbers: dict[int, bytes] = {}

    def add(self, stream: PlayedStream, commit: Any, owned: dict[str, int]) -> SentCommit:
        """Take note of a commit.

        Raises:
            RuleBroken: it came out of order, has changed, or was answered before.
        """
        content = _content(commit)
        if self._numbers.setdefault(commit.no, content) != content:
            raise RuleBroken(
                "commit-numbers", f"number {commit.no} was used for two different commits"
            )
        if stream.numbers and commit.no <= stream.numbers[-1]:
            fact = f"commit {commit.no} came after commit {stream.numbers[-1]}"
            raise RuleBroken("commit-numbers", fact)
        stream.numbers.append(commit.no)
        sent = self._sent.setdefault(content, SentCommit(commit.run, commit.fence))
        if sent.is_answered:
            raise RuleBroken("resend", f"commit {commit.no} was sent again after its answer")
        if owned.get(commit.run) == commit.fence:
            self._check_order(stream, sent)
        stream.commits.append(sent)
        return sent

    def _check_order(self, stream: PlayedStream, commit: SentCommit) -> None:
        """Check that every unanswered commit of the run that came before has come again."""
        for each in self._sent.values():
            if each is commit:
                return
            is_same = (each.run, each.fence) == (commit.run, commit.fence)
            if is_same and not each.is_answered and each not in stream.commits:
                fact = "a commit overtook an earlier, unanswered commit of its run"
                raise RuleBroken("resend", fact)

    def note_answer(self, reply: Any) -> None:
        """Take note that commits were answered."""
        for no in [*reply.done, *(each.no for each in reply.others)]:
            self._sent[self._numbers[no]].is_answered = True

    def count(self, run: str) -> int:
        """Return how many commits of a run came; one that came again counts once."""
        return sum(each.run == run for each in self._sent.values())


def _content(commit: Any) -> bytes:
    unnumbered = messages.Commit()
    unnumbered.CopyFrom(commit)
    unnumbered.ClearField("no")
    content: bytes = unnumbered.SerializeToString(deterministic=True)
    return content
