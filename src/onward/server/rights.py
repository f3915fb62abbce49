"""What a connected worker may write: the checks of its commits and calls, with what they need.

A worker is trusted for the runs that it owns and for nothing else. The rules are in
`onward.engine.frame_checks`; this keeps what they need to know of one worker up to date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.lease import Fate
from onward.core.owner_rights import OwnerCall
from onward.engine.frame_checks import (
    EVENT_CHANGED,
    HeldRun,
    KnownWorker,
    after_commit,
    as_written,
    check_arguments,
    check_commit,
    check_continuation,
    check_dismissal,
    check_end,
    check_start,
    facts_needed,
)
from onward.errors import LeaseLost, WriteRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from onward.core.access import Principal
    from onward.engine.frame_checks import FrameFacts, FrameRefusal, NeededFacts
    from onward.model.commits import Commit, CommitOutcome
    from onward.model.runs import ClaimedRun
    from onward.model.workers import Registration

    ReadFacts = Callable[[HeldRun, NeededFacts], Awaitable[FrameFacts]]
    ChildrenAmong = Callable[[str, Collection[str]], Awaitable[frozenset[str]]]

MAX_PARKED = 1000

_ENDS = {
    "retry": OwnerCall.RETRY,
    "continue_run": OwnerCall.CONTINUE,
    "end_handler": OwnerCall.END_HANDLER,
    "give_up": OwnerCall.GIVE_UP,
}


class WorkerRights:
    """The rights of one worker.

    Args:
        registration: What it takes.
        principal: Whose key it uses.
        read_facts: Reads what the check of a commit needs.
        children_among: Returns those of some runs that are children of a run.
    """

    def __init__(
        self,
        registration: Registration,
        principal: Principal,
        read_facts: ReadFacts,
        children_among: ChildrenAmong,
    ) -> None:
        self._runs: dict[str, HeldRun] = {}
        self._known = KnownWorker(
            registration.worker,
            frozenset(registration.queues),
            self._runs,
            may_replace=principal.allows("run:control"),
        )
        self._read_facts = read_facts
        self._children_among = children_among
        self._lost: set[str] = set()
        self._parked: dict[str, int] = {}
        """Runs that it has parked lately, with their fences: their last progress may come late."""

    # --- the runs that it has --------------------------------------------------------------------

    def claimed(self, runs: Iterable[ClaimedRun]) -> None:
        """Note runs that it was given."""
        for run in runs:
            self._lost.discard(run.uid)
            self._runs[run.uid] = HeldRun.of(run)

    def adopted(self, runs: Iterable[HeldRun], lost: Iterable[str]) -> None:
        """Note runs that it was given before it reconnected.

        Those that are `lost` it says it had: for them a commit that was written is recognised, but
        nothing new is written.
        """
        self._lost.update(lost)
        for run in runs:
            self._runs[run.uid] = run

    def keep(self, known: Collection[str]) -> None:
        """Forget all runs that the worker does not know."""
        for run in self._runs.keys() - set(known):
            del self._runs[run]

    def has(self, run: str, fence: int) -> bool:
        """Return whether a run was given to the worker under a fence, and has not left it."""
        held = self._runs.get(run)
        return held is not None and held.fence == fence

    def keeps_progress(self, run: str, fence: int, value: bytes) -> bool:  # noqa: ARG002
        """Return whether the worker has a run, or has parked it lately."""
        has_it = self.has(run, fence) and run not in self._lost
        return has_it or self._parked.get(run) == fence

    # --- commits ---------------------------------------------------------------------------------

    def needs_facts(self, commit: Commit) -> NeededFacts:
        """Return what must be read before a commit can be checked; nearly always nothing."""
        return facts_needed(self._known, commit)

    async def facts(self, commit: Commit, needed: NeededFacts) -> FrameFacts:
        """Read what is needed to check a commit."""
        return await self._read_facts(self._runs[commit.run], needed)

    def checked(self, commit: Commit, *facts: FrameFacts) -> Commit | None:
        """Return a commit of a run that the worker has as it is written; None: it is `busy`.

        Raises:
            WriteRefused: the worker may not write it.
        """
        refusal = check_commit(self._known, commit, *facts)
        if refusal is not None and refusal.rule == EVENT_CHANGED:
            return None
        _raise(refusal)
        return as_written(commit)

    def written(self, commit: Commit, outcome: CommitOutcome) -> None:
        """Learn from the outcome of a commit."""
        held = self._runs.get(commit.run)
        if held is None or held.fence != commit.fence or outcome.fate is Fate.BUSY:
            return
        after = after_commit(held, commit) if outcome.fate is Fate.DONE else None
        if after is None:
            del self._runs[commit.run]
            self._parked.pop(commit.run, None)
            if outcome.fate is Fate.DONE:
                self._parked[commit.run] = commit.fence
            if len(self._parked) > MAX_PARKED:
                del self._parked[next(iter(self._parked))]
        else:
            self._runs[commit.run] = after

    # --- calls -----------------------------------------------------------------------------------

    async def check_call(self, name: str, given: Mapping[str, Any]) -> None:
        """Check the arguments of a call.

        Raises:
            LeaseLost: it is for a run that the worker does not have any more.
            WriteRefused: the worker may not do this.
        """
        _raise(check_arguments(self._known.limits, given))
        if "by" not in given:
            return
        by = given["by"]
        if not self.has(by.run, by.fence):
            raise LeaseLost(by.run)
        if name == "start":
            _raise(check_start(self._known, by, given["run"], given["on_conflict"]))
        elif name == "continue_run":
            _raise(check_continuation(self._known, by, given["end"], given["given"]))
        elif name in _ENDS:
            end = given["move"] if name == "give_up" else given["end"]
            _raise(check_end(self._known, by, end, _ENDS[name]))
        elif name == "dismiss":
            children = await self._children_among(by.run, given["children"])
            _raise(check_dismissal(self._known, by, given["children"], children))


def _raise(refusal: FrameRefusal | None) -> None:
    if refusal is not None:
        raise WriteRefused(*refusal)
