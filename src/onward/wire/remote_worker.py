"""The engine of a worker behind a server."""

from __future__ import annotations

import asyncio
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from onward.core.lease import Fate
from onward.core.run import RunState
from onward.engine.loading import read_each
from onward.engine.worker_engine import WorkerEngine
from onward.errors import LeaseLost, OnwardError, StoreUnusable, Unavailable, UserError
from onward.model.workers import ClaimAnswer, LoadedRun, News
from onward.wire.commit_queue import MAX_BYTES, CommitQueue, WireLimits
from onward.wire.messages import messages
from onward.wire.methods import METHODS
from onward.wire.network import PATIENCE_SECONDS, RECONNECTING, STEADY_SECONDS
from onward.wire.proxies import sends
from onward.wire.renewals import open_renewer
from onward.wire.stream import BEAT
from onward.wire.work import (
    LOST_WORKER,
    REGISTRATION,
    claim_answer,
    claim_request,
    load_request,
    loaded_runs,
)
from onward.wire.work_session import WorkSession

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from contextlib import AbstractAsyncContextManager

    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.engine.worker_engine import Renewer, WorkerHooks
    from onward.model.claims import Wanted
    from onward.model.commits import Answered, Commit, CommitOutcome
    from onward.model.following import Continuation, Followed
    from onward.model.runs import Move, RunOwner
    from onward.model.workers import LostWorker, Registration
    from onward.wire.commit_queue import Wire
    from onward.wire.network import Network
    from onward.wire.stream import Beat

PROTOCOL = 1
CLAIM_WAIT = 20 * SECOND
"""How long a server may hold a claim for which there is no run."""
LEAVE_SECONDS = 5.0
GOODBYE_SECONDS = 1.0
"""How long a stream that the server wants to end is read on, for answers that are under way."""
MAX_REQUESTS = 1000
"""How many requests may be unanswered, beside commits."""


@sends(WorkerEngine, METHODS, "_send")
class RemoteWorker(WorkerEngine):
    """A `WorkerEngine` over a stream to a server.

    When the stream breaks, it is opened again, to the same server or another one. A call waits a
    moment for that, and then raises `Unavailable`. A claim waits at the server: `claim` returns
    what has arrived, and leaves a claim standing.
    """

    def __init__(
        self,
        network: Network,
        clock: Clock,
        worker: str,
        hooks: WorkerHooks,
        beat: Beat = BEAT,
    ) -> None:
        self._network = network
        self._clock = clock
        self._worker = worker
        self._hooks = hooks
        self._beat = beat
        self._registration: Registration | None = None
        self._lease: Duration = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._session: WorkSession | None = None
        self._is_connected = asyncio.Event()
        self._failure: Exception | None = None
        """Why the stream is not open; `LeaseLost`: it will not be again."""
        self._keeping: asyncio.Task[None] | None = None
        self._has_own_clock = False
        self._room = asyncio.Semaphore(MAX_REQUESTS)
        self._commits = CommitQueue(worker, clock, hooks, self._wire, network.spawn)
        self._owned: dict[str, int] = {}
        """The runs that are the worker's, with their fences: a new stream has news of them."""
        self._woken = asyncio.Event()
        self._changed: set[str] = set()
        self._is_all_changed = False
        self._claim: asyncio.Future[list[Any]] | None = None
        self._claimed: list[ClaimAnswer] = []
        """Answers that arrived and were not returned yet."""
        self._is_claim_lost = False
        self._claim_refusal: UserError | None = None
        """Why the last claim was refused; the worker reports it, and waits."""
        self._audit: set[str] | None = None

    @property
    def is_private(self) -> bool:
        return False

    @property
    def has_own_clock(self) -> bool:
        return self._has_own_clock

    # --- the stream ------------------------------------------------------------------------------

    async def join(
        self, registration: Registration, lease: Duration, before: LostWorker | None = None
    ) -> None:
        self._registration = registration
        self._lease = lease
        self._loop = asyncio.get_running_loop()
        hello = self._hello()
        if before is not None:
            hello.before.CopyFrom(LOST_WORKER.to_message(before))
        session = await self._open_first(hello)
        if self._keeping is None:
            self._keeping = self._network.spawn(
                self._keep(session), f"onward stream {self._worker}"
            )

    def _hello(self, **given: Any) -> Any:
        assert self._registration is not None
        return messages.Hello(
            protocol=PROTOCOL,
            sdk=f"onward-python/{version('onward')}",
            registration=REGISTRATION.to_message(self._registration),
            lease=self._lease,
            **given,
        )

    async def _open_first(self, hello: Any) -> WorkSession:
        """Open a stream; if it breaks before the welcome, try the next server for a while."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_SECONDS
        tries = 0
        while True:
            try:
                return await self._open(hello)
            except Unavailable:
                tries += 1
                delay = RECONNECTING.delay_after(tries, self._network.randomness.random())
                if loop.time() + delay / 1_000_000 > end:
                    raise
            await asyncio.sleep(delay / 1_000_000)

    async def _open(self, hello: Any) -> WorkSession:
        session = WorkSession(self._network, self._clock, self, self._beat)
        welcome = await session.open(hello)
        self._has_own_clock = welcome.has_own_clock
        if welcome.max_commits:
            frame_bytes = min(MAX_BYTES, welcome.max_frame_bytes or MAX_BYTES)
            session.wire.limits = WireLimits(welcome.max_commits, frame_bytes)
        for run in welcome.lost:
            self._owned.pop(run, None)
        self._note(welcome.lost)
        self._session, self._failure = session, None
        self._is_connected.set()
        if welcome.is_draining:
            self._hooks.on_drain()
        return session

    async def _keep(self, session: WorkSession | None) -> None:
        """Open the stream again whenever it ends."""
        tries = 0
        while True:
            if session is not None:
                opened_at = asyncio.get_running_loop().time()
                self._close_session(await session.closed)
                is_steady = asyncio.get_running_loop().time() - opened_at > STEADY_SECONDS
                tries = 0 if is_steady else tries + 1
                session = None
            if tries:
                delay = RECONNECTING.delay_after(tries, self._network.randomness.random())
                await asyncio.sleep(delay / 1_000_000)
            try:
                session = await self._open(self._hello(is_reconnect=True, held=self._owned))
            except LeaseLost as lost:
                self._failure = lost
                self._woken.set()
                return
            except OnwardError as error:
                self._failure = error
                tries += 1

    def _close_session(self, reason: Exception) -> None:
        self._session = None
        self._is_connected.clear()
        self._failure = reason

    async def _connected(self) -> WorkSession:
        """Return the stream that is open, or wait for one for a moment."""
        self._network.check_open()
        if self._session is None:
            if isinstance(self._failure, LeaseLost):
                raise self._failure
            try:
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await self._is_connected.wait()
            except TimeoutError:
                raise self._failure or Unavailable(
                    self._network.where, "cannot be reached"
                ) from None
        assert self._session is not None
        return self._session

    async def _wire(self) -> Wire:
        return (await self._connected()).wire

    async def _ask(self, name: str, request: Any) -> list[Any]:
        async with self._room:
            session = await self._connected()
            return await session.ask(name, request)

    async def _send(self, name: str, arguments: Mapping[str, Any]) -> Any:
        method = METHODS[name]
        [reply] = await self._ask(name, method.to_request(arguments))
        return method.decode_result(reply)

    # --- what arrives ----------------------------------------------------------------------------

    def on_time(self, at: Instant, asked: int) -> None:
        self._hooks.on_time(at, asked)

    def on_commits(self, reply: Any, at: Instant) -> None:
        self._commits.answered(reply, at)

    def on_refused_commits(self, frame: int, error: Exception) -> None:
        self._commits.refused(frame, error)

    def on_news(self, news: Any) -> None:
        if news.drain:
            self._hooks.on_drain()
        self._is_all_changed |= news.everything
        self._note(news.runs)

    def _note(self, runs: Collection[str]) -> None:
        self._changed.update(runs)
        if self._changed or self._is_all_changed:
            self._woken.set()

    def on_goodbye(self, session: WorkSession) -> None:
        if session is self._session:
            self._close_session(Unavailable(self._network.where, "is stopping"))
            asyncio.get_running_loop().call_later(GOODBYE_SECONDS, session.close)

    # --- the worker ------------------------------------------------------------------------------

    async def register(self, registration: Registration) -> None:
        await self._send("register", {"registration": registration})
        self._registration = registration

    def renewer(self) -> AbstractAsyncContextManager[Renewer]:
        assert self._loop is not None
        return open_renewer(self._network, self._loop, self._worker, self._hooks.on_drain)

    async def wait(self, seconds: float) -> News:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()
        # Runs that arrived and are not begun yet cannot read their inboxes: see `claim`.
        early = self._changed & self._unbegun()
        runs, self._changed = self._changed - early, early
        is_everything, self._is_all_changed = self._is_all_changed, False
        if is_everything:
            self._changed |= self._unbegun()
        return News(tuple(sorted(runs)), everything=is_everything)

    def _unbegun(self) -> set[str]:
        return {run.uid for answer in self._claimed for run in answer.runs}

    def wake(self) -> None:
        self._woken.set()

    async def next_due(self, since: Instant) -> Instant | None:  # noqa: ARG002
        return None  # the server answers the claim when a run becomes due

    async def maintain(self) -> bool:
        return False  # servers do that

    async def flush(self) -> None:
        await self._commits.flush()

    async def report_draining(self) -> None:
        await self._send("report_draining", {})
        late = self._unbegun()
        if late:  # they arrived too late to be begun
            self._claimed.clear()
            await self.audit(self._owned.keys() - late)

    async def leave(self, *, releases: bool) -> None:
        try:
            async with asyncio.timeout(LEAVE_SECONDS):
                await self._send("leave", {"releases": releases})
        except TimeoutError:
            raise Unavailable(self._network.where, "has not answered the leave request") from None
        if self._session is not None:
            self._session.end()

    def disconnect(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
        self._commits.close()
        if self._session is not None:
            self._session.close()
            self._close_session(Unavailable(self._network.where, "was disconnected"))

    # --- its runs --------------------------------------------------------------------------------

    async def claim(self, wanted: Wanted) -> ClaimAnswer:
        # Runs that arrived take up room that `wanted` offers: the next claim comes after them.
        if self._claim_refusal is not None:
            refusal, self._claim_refusal = self._claim_refusal, None
            raise StoreUnusable(
                "the server",
                f"refused a claim ({refusal})",
                "Use compatible versions of client and server",
            )
        if self._claim is None and not self._claimed:
            if self._audit is not None or self._is_claim_lost:
                known = self._owned if self._audit is None else self._audit
                await self._send("audit", {"known": list(known)})
                self._audit, self._is_claim_lost = None, False
            session = await self._connected()
            self._claim = session.ask("claim", claim_request(wanted, CLAIM_WAIT))
            self._claim.add_done_callback(self._on_claimed)
        claimed, self._claimed = self._claimed, []
        runs = [run for answer in claimed for run in answer.runs]
        changed = {uid for answer in claimed for uid in answer.changed}
        changed |= self._changed & {run.uid for run in runs}
        self._changed -= changed
        was_repeated = any(answer.was_repeated for answer in claimed)
        return ClaimAnswer(runs, frozenset(changed), was_repeated)

    def _on_claimed(self, done: asyncio.Future[list[Any]]) -> None:
        self._claim = None
        self._woken.set()
        if done.cancelled() or done.exception() is not None:
            self._is_claim_lost = True  # it may have claimed runs all the same
            error = None if done.cancelled() else done.exception()
            self._claim_refusal = error if isinstance(error, UserError) else None
            return
        answer = claim_answer(done.result())
        if answer.runs or answer.was_repeated:
            self._claimed.append(answer)
            self._owned |= {run.uid: run.fence for run in answer.runs}
            if self._audit is not None:
                self._audit |= {run.uid for run in answer.runs}

    async def load(
        self, histories: Collection[str], inboxes: Mapping[str, int | None]
    ) -> dict[str, LoadedRun]:
        async def ask(runs: list[str]) -> dict[str, LoadedRun]:
            wanted = [run for run in runs if run in histories]
            seen = {run: inboxes[run] for run in runs if run in inboxes}
            return loaded_runs(await self._ask("load", load_request(wanted, seen)))

        found, failed = await read_each(ask, list(dict.fromkeys((*histories, *inboxes))))
        return found | {run: LoadedRun(failure=error) for run, error in failed.items()}

    async def audit(self, known: Collection[str]) -> list[str]:
        kept = {*known, *self._unbegun()}
        for run in self._owned.keys() - kept:
            del self._owned[run]
        if self._claim is not None:  # its answer may name runs that the worker does not know yet
            self._audit = kept
            return []
        released: list[str] = await self._send("audit", {"known": list(kept)})
        return released

    async def give_up(self, by: RunOwner, name: str, move: Move) -> bool:
        is_given_up: bool = await self._send("give_up", {"by": by, "name": name, "move": move})
        self._disown(by.run, by.fence)
        return is_given_up

    def submit(self, commit: Commit, then: Answered) -> None:
        if commit.move is not None and commit.move.state != RunState.RUNNING:
            then = partial(self._moved, commit.run, commit.fence, then)
        self._commits.put(commit, then)

    def _moved(
        self, run: str, fence: int, then: Answered, answer: CommitOutcome | BaseException
    ) -> None:
        if not isinstance(answer, BaseException) and answer.fate is not Fate.BUSY:
            self._disown(run, fence)
        then(answer)

    def _disown(self, run: str, fence: int) -> None:
        if self._owned.get(run) == fence:  # or it was claimed again since
            del self._owned[run]

    async def retry(
        self, by: RunOwner, end: Move, delay: Duration, within: Duration | None
    ) -> Followed:
        arguments = {"by": by, "end": end, "delay": delay, "within": within}
        return self._followed(by, await self._send("retry", arguments))

    async def continue_run(self, by: RunOwner, end: Move, given: Continuation) -> Followed:
        arguments = {"by": by, "end": end, "given": given}
        return self._followed(by, await self._send("continue_run", arguments))

    async def end_handler(
        self, by: RunOwner, end: Move, code: str, retry_in: Duration | None
    ) -> Followed:
        arguments = {"by": by, "end": end, "code": code, "retry_in": retry_in}
        followed: Followed = await self._send("end_handler", arguments)
        if followed.fate != "busy":
            self._disown(by.run, by.fence)
        return followed

    def _followed(self, by: RunOwner, followed: Followed) -> Followed:
        if followed.fate == "made":
            self._disown(by.run, by.fence)
        return followed
