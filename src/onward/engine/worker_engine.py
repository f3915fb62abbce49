"""What a worker asks of its engine. Everything that crosses this interface is data.

A worker does not know what is behind it: a database in reach of its own process
(`onward.engine.local_worker`), a server, or a fake in a test.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from onward.telemetry.observer import SILENT

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping
    from contextlib import AbstractAsyncContextManager

    from onward.core.flow import FlowId
    from onward.core.instant import Duration, Instant
    from onward.model.claims import Wanted
    from onward.model.commits import Answered, Commit
    from onward.model.effects import EffectRow
    from onward.model.flow import DeclaredLimits
    from onward.model.following import Continuation, Followed
    from onward.model.messages import InboxRow
    from onward.model.pipelines import FullTopic, HandlerRow, PeekedEvent
    from onward.model.runs import Move, NewRun, RunEnd, RunOwner, Started
    from onward.model.workers import ClaimAnswer, LoadedRun, LostWorker, News, Registration
    from onward.telemetry.observer import Observer

T = TypeVar("T")


async def _once(send: Callable[[], Awaitable[T]]) -> T:
    return await send()


@dataclass(frozen=True, slots=True)
class WorkerHooks:
    """What an engine calls in the process of its worker."""

    on_time: Callable[[Instant, int], None] = lambda _, __: None
    """Called with the database's time of an answer, and when it was asked for (a steady clock)."""
    send: Callable[[Callable[[], Awaitable[Any]]], Awaitable[Any]] = _once
    """Sends a batch of commits; it may send it again for as long as the engine is unavailable."""
    observer: Observer = SILENT
    on_drain: Callable[[], None] = lambda: None
    """Called when an operator wants the worker to take no more runs and leave."""


class Renewer(Protocol):
    """Renews the lease of a worker, in whatever event loop it was opened in."""

    async def renew(self, length: Duration) -> bool:
        """Renew the lease for so long from now; return False if it is lost."""
        ...

    async def release_others(
        self, blocking: Collection[str], length: Duration
    ) -> Mapping[str, int]:
        """Release the runs of the worker but for some, if another worker is alive.

        Args:
            blocking: The runs that the worker keeps.
            length: The lease begins anew for so long: writes that are under way are lost.

        Returns:
            The runs that were released, with the fences that the worker had.
        """
        ...

    async def note_blocked(self, run: str, error: bytes) -> None:
        """Store that a run of the worker blocks it: the error of the run if it is ended for it."""
        ...


class WorkerEngine(Protocol):
    """The engine as one worker sees it, under one worker id and one lease.

    A call raises `Unavailable` or `StoreUnusable` while the engine cannot be reached, and is safe
    to repeat. What is done for a run raises `LeaseLost` if the worker does not have it any more.
    """

    @property
    def is_private(self) -> bool:
        """Whether only this process can reach the engine: then the lease needs no own thread."""
        ...

    @property
    def has_own_clock(self) -> bool:
        """Whether its time comes from a clock of its own, whose steps a worker reports."""
        ...

    # --- the worker ------------------------------------------------------------------------------

    async def join(
        self, registration: Registration, lease: Duration, before: LostWorker | None = None
    ) -> None:
        """Take a lease, register, and receive news from now on; it may be done again."""
        ...

    async def register(self, registration: Registration) -> None:
        """Change what the worker takes."""
        ...

    def renewer(self) -> AbstractAsyncContextManager[Renewer]:
        """Return what renews the lease, to be entered in the loop that renews it."""
        ...

    async def wait(self, seconds: float) -> News:
        """Wait for news, for at most so long, and return what has changed since the last wait."""
        ...

    def wake(self) -> None:
        """End the wait, or the next one, although nothing has changed."""
        ...

    async def next_due(self, since: Instant) -> Instant | None:
        """Return when the next run becomes due, or a deadline passes, after an instant."""
        ...

    async def maintain(self) -> bool:
        """Do what any process may do for all runs; return whether limited runs can be claimed."""
        ...

    async def flush(self) -> None:
        """Wait until everything that was submitted is written."""
        ...

    async def report_draining(self) -> None:
        """Let operators see that the worker takes no more runs."""
        ...

    async def leave(self, *, releases: bool) -> None:
        """Give back the lease, and if it `releases`, first the runs that are left under it."""
        ...

    def disconnect(self) -> None:
        """Receive no more news."""
        ...

    # --- its runs --------------------------------------------------------------------------------

    async def claim(self, wanted: Wanted) -> ClaimAnswer:
        """Make runs the worker's own."""
        ...

    async def load(
        self, histories: Collection[str], inboxes: Mapping[str, int | None]
    ) -> dict[str, LoadedRun]:
        """Read histories and inboxes of runs.

        Args:
            histories: The runs whose history is wanted.
            inboxes: The runs whose inbox is wanted, each with the number of the last message that
                it has seen. None: what its history has not taken, which must be wanted too.

        Returns:
            What was found of each run. Large messages may come without their payload.
        """
        ...

    async def messages(self, run: str, seqs: Collection[int]) -> list[InboxRow]:
        """Return messages of a run with their payloads."""
        ...

    async def count_messages(self, run: str) -> int:
        """Return the number of the last message that was counted for a run."""
        ...

    async def owned(self) -> dict[str, int]:
        """Return the runs that are the worker's, with their fences."""
        ...

    async def audit(self, known: Collection[str]) -> list[str]:
        """Release the runs of the worker that it does not know, and return them."""
        ...

    async def give_up(self, by: RunOwner, name: str, move: Move) -> bool:
        """End a run that was claimed and cannot begin; return whether it was the worker's.

        `name` is that of its workflow.
        """
        ...

    def submit(self, commit: Commit, then: Answered) -> None:
        """Write what a run has done, together with whatever else has gathered.

        A commit that ends a run also sends its end to its parent: the engine adds the message.
        `then` is called later, on the event loop, with the outcome or an error.
        """
        ...

    async def keep_progress(self, run: str, fence: int, value: bytes) -> None:
        """Keep how far a run has come, for others to see."""
        ...

    async def retry(
        self, by: RunOwner, end: Move, delay: Duration, within: Duration | None
    ) -> Followed:
        """End a run and retry it after a delay.

        The answer is `late` if its first attempt began longer ago than `within`.
        """
        ...

    async def continue_run(self, by: RunOwner, end: Move, given: Continuation) -> Followed:
        """End a run, and continue it as a new one."""
        ...

    # --- what they ask for -----------------------------------------------------------------------

    async def start(self, by: RunOwner, run: NewRun, on_conflict: str | None) -> Started | None:
        """Start a run for another, or find the one that has its id.

        Without `on_conflict` it is a child, whose id must be free or belong to an earlier attempt
        of the same parent. None: ask again later, the run that has the id is about to end.

        Raises:
            Conflict: another run has the id.
        """
        ...

    async def end_of(self, run: str, *, exact: bool = False) -> RunEnd | None:
        """Return how a run ended, or the one that continues it unless `exact`; None: it is open."""
        ...

    async def dismiss(
        self, by: RunOwner, children: Collection[str], *, all_bound: bool = False
    ) -> None:
        """Cancel children of a run, and with `all_bound` all that are cancelled with it."""
        ...

    async def declare(self, by: RunOwner, flow: FlowId, limits: DeclaredLimits) -> None:
        """Write the limits that the code declares for a workflow or a key."""
        ...

    async def reserve_rate(self, by: RunOwner, name: str, interval: Duration) -> Duration:
        """Reserve the next send of an effect with a limited rate; return how long to wait."""
        ...

    async def cached_result(self, key: str) -> bytes | None:
        """Return the result of a step that a run has cached, unless it has expired."""
        ...

    async def effect(self, key: str) -> EffectRow | None:
        """Return a row of the ledger."""
        ...

    # --- runs of pipelines -----------------------------------------------------------------------

    async def handler(self, handler: str, key: str) -> HandlerRow:
        """Return what a run of a handler begins with."""
        ...

    async def peek(self, handler: str, key: str, topic: str, limit: int) -> list[PeekedEvent]:
        """Return the oldest events of a topic that are pending for a consumer and its key."""
        ...

    async def peek_ids(
        self, handler: str, key: str, topic: str, ids: Collection[str]
    ) -> list[PeekedEvent]:
        """Return those of these events that are pending for a consumer and its key."""
        ...

    async def full_topics(self, topics: Collection[str]) -> list[FullTopic]:
        """Return those of these topics that take no more events."""
        ...

    async def end_handler(
        self, by: RunOwner, end: Move, code: str, retry_in: Duration | None
    ) -> Followed:
        """End a handler's run that did not succeed, with what follows from that.

        In one transaction its events are released or kept, the handler is blocked for this `code`
        or not, and the run is made that follows at once or, if the failure was transient, after
        `retry_in`. The fate is `made` if one follows, `ended` if none does, `lost` or `busy`.
        """
        ...

    async def withdraw_effects(self, by: RunOwner) -> None:
        """Withdraw the effects that a run planned and never sent: it is about to end."""
        ...
