"""A connected worker: requests in, responses out."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from onward.codec import encode_error
from onward.core.access import poll_scope
from onward.core.instant import SECOND
from onward.core.lease import Fate
from onward.core.run import Reason, RunState
from onward.engine.failures import classified
from onward.engine.frame_checks import DEFAULT_LIMITS, check_registration
from onward.engine.payloads import pack
from onward.errors import BadInput, NotOpen, Rejected, StoreUnusable, Unavailable, WriteRefused
from onward.model.commits import CommitOutcome
from onward.model.runs import Move, RunOwner
from onward.server.claims import NOTHING, WaitingClaim, offer_of
from onward.server.faults import problem_of
from onward.server.limits import (
    CLAIM_BYTES,
    MAX_CLAIM,
    MAX_SUSPECTS,
    MAX_WAIT_SECONDS,
)
from onward.server.outcomes import Outcomes
from onward.server.replies import LISTS, Replies
from onward.telemetry.events import emit
from onward.wire.messages import messages
from onward.wire.methods import METHODS
from onward.wire.work import (
    TEXT_RULE,
    commit_of,
    row_count,
    wanted_by,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from onward.core.access import Principal
    from onward.engine.frame_checks import NeededFacts
    from onward.engine.worker_engine import WorkerEngine
    from onward.errors import PayloadTooLarge
    from onward.model.claims import Wanted
    from onward.model.commits import Commit
    from onward.model.runs import ClaimedRun
    from onward.model.workers import ClaimAnswer, Registration
    from onward.server.claims import ClaimLines
    from onward.server.limits import StreamLimits
    from onward.server.outbox import Outbox
    from onward.server.rights import WorkerRights

_AWAY = (NotOpen, StoreUnusable, Unavailable, asyncio.CancelledError)
"""The errors of commits that were not tried, or not until the database answered."""

_PING = messages.Response(ping=messages.Ping())

_LEAVING = ("report_draining", "leave")
"""The requests after which a worker takes no more runs."""


class StreamSession:
    """Answers the requests of one worker on one stream.

    Args:
        engine: The engine of this worker.
        registration: What the worker takes.
        principal: Whose key it uses.
        claims: Where its claims wait.
        rights: Says what the worker may write.
        outbox: Where responses go.
        limits: How much it may ask at a time.
        server: The name of this server, for its log.
    """

    def __init__(  # noqa: PLR0913 - each is a thing of its own
        self,
        engine: WorkerEngine,
        registration: Registration,
        principal: Principal,
        claims: ClaimLines,
        rights: WorkerRights,
        outbox: Outbox,
        limits: StreamLimits,
        server: str,
    ) -> None:
        self.engine = engine
        self.registration = registration
        self.worker = registration.worker
        self.principal = principal
        self.outbox = outbox
        self.why_ended = ""
        self._claims = claims
        self._rights = rights
        self._limits = limits
        self._server = server
        self._replies = Replies(engine, outbox, limits)
        self._outcomes = Outcomes(outbox.put)
        self.refusals = 0
        """How many requests and commits were refused since a request was last read."""
        self._claim: WaitingClaim | None = None
        self._claimed = asyncio.Event()
        """Set while no claim is unanswered."""
        self._claimed.set()
        self._looking = asyncio.Lock()
        self._takes_runs = True
        self._unanswered: dict[int, int] = {}
        """The sizes of the commits that have no outcome yet."""
        self._unanswered_bytes = 0
        self.drain: Callable[[], None] = lambda: None
        """Lets the worker know that it is to take no more runs."""
        self.heard_at = self.pinged_at = asyncio.get_running_loop().time()
        self.is_closed = asyncio.Event()
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._reading: dict[str, asyncio.Task[None]] = {}
        """The runs whose next commit waits for what its check needs."""
        self._has_room = asyncio.Event()
        self._ended = asyncio.Event()

    def ping(self) -> None:
        """Send a frame, so that proxies do not close the stream."""
        self.outbox.put(_PING)

    # --- requests --------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Answer a frame, now or later; a bad one is answered with a problem."""
        request_id, name = 0, "frame"
        try:
            request = messages.Request.FromString(data)
            request_id, name = request.id, request.WhichOneof("request") or ""
            if name == "commits":
                self._receive_commits(request.commits)
            elif name == "claim":
                self._receive_claim(request_id, request.claim)
            elif name != "ping":
                self._receive_call(request_id, name, request)
        except Exception as error:  # noqa: BLE001 - one bad frame must not end the stream
            self._put_problem(request_id, error, name)

    @property
    def is_full(self) -> bool:
        """Whether too much is unanswered to read more for now."""
        return (
            len(self._unanswered) >= self._limits.commits
            or self._unanswered_bytes >= self._limits.commit_bytes
            or len(self._tasks) >= self._limits.calls
        )

    async def has_room(self) -> None:
        """Wait until more may be read."""
        while self.is_full and not self._ended.is_set():
            self._has_room.clear()
            await self._has_room.wait()

    def _receive_call(self, request_id: int, name: str, request: Any) -> None:
        call: Callable[[], Awaitable[None]]
        if name == "load":
            call = partial(self._replies.load, request_id, request.load)
        elif name in METHODS:
            call = partial(self._call, request_id, name, getattr(request, name))
        else:
            what = f"request {name!r}" if name else "the request"
            advice = "Use compatible versions of client and server"
            raise BadInput(what, "is unknown to this server", advice)
        self._spawn(self._answered(request_id, name, call))

    async def _answered(
        self, request_id: int, name: str, call: Callable[[], Awaitable[None]]
    ) -> None:
        try:
            await call()
        except Exception as error:  # noqa: BLE001 - the worker gets it
            self._put_problem(request_id, error, name)

    async def _call(self, request_id: int, name: str, request: Any) -> None:
        method = METHODS[name]
        arguments = method.to_arguments(request)
        if "by" in arguments:
            arguments["by"] = arguments["by"]._replace(worker=self.worker)
        await self._rights.check_call(name, arguments)
        if name == "keep_progress" and not self._rights.keeps_progress(**arguments):
            self.outbox.put(messages.Response(id=request_id, keep_progress=messages.Empty()))
            return
        if name in LISTS:
            await self._replies.send_list(request_id, name, arguments)
            return
        if name == "register":
            self._note(arguments["registration"])
            await self.finish_claim()
        elif name in _LEAVING:
            self._takes_runs = False
            await self.finish_claim()
        if name == "audit":  # it would release runs that a claim is about to answer with
            async with self._looking:
                result = await self.engine.audit(**arguments)
                self._rights.keep(arguments["known"])
        else:
            result = await getattr(self.engine, name)(**arguments)
        await self.outbox.has_room()
        self._replies.put(request_id, name, method.encode_result(result))

    def _note(self, registration: Registration) -> None:
        if registration.worker != self.worker:
            raise BadInput(
                f"worker {registration.worker!r}", "does not belong to this stream", "Join again"
            )
        check_worker(registration, self.principal)
        self.registration = registration

    # --- claims ----------------------------------------------------------------------------------

    def _receive_claim(self, request_id: int, request: Any) -> None:
        if self._claim is not None:
            raise BadInput(
                "a second claim", "is not allowed", "Wait until the first claim is answered"
            )
        if not self._takes_runs or not request.limit:
            self._replies.claimed(request_id, NOTHING)
            return
        _check_suspects(request.suspects)
        wanted = wanted_by(request, self.registration)
        wanted = replace(wanted, limit=min(wanted.limit, MAX_CLAIM), max_bytes=CLAIM_BYTES)
        wait = min(max(0, request.wait) / SECOND, MAX_WAIT_SECONDS)
        self._claim = WaitingClaim(
            offer_of(wanted, has_pipelines=bool(self.registration.pipelines)),
            partial(self._look, wanted),
            partial(self._answer_claim, request_id),
            asyncio.get_running_loop().time() + wait,
        )
        self._claimed.clear()
        self._claims.add(self._claim)

    async def finish_claim(self) -> None:
        """Answer the claim without further waiting; wait for the look in progress."""
        if self._claim is not None:
            self._claims.finish(self._claim)
            await self._claimed.wait()

    async def _look(self, wanted: Wanted) -> ClaimAnswer:
        async with self._looking:
            return await self.engine.claim(wanted)

    def _answer_claim(self, request_id: int, answer: ClaimAnswer | Exception) -> None:
        self._claim = None
        self._claimed.set()
        if isinstance(answer, Exception):
            self._put_problem(request_id, answer, "claim")
        else:
            unsent = self._replies.claimed(request_id, answer)
            too_large = {run.uid for run, _ in unsent}
            self._rights.claimed(run for run in answer.runs if run.uid not in too_large)
            for run, error in unsent:
                self._spawn(self._end_unsent(run, error))

    async def _end_unsent(self, run: ClaimedRun, error: PayloadTooLarge) -> None:
        """End a run that no frame can hold: the next claim could not be answered with it either."""
        emit("server.failed", server=self._server, where="claim", cause=error)
        by = RunOwner(self.worker, run.uid, run.fence)
        end = Move(RunState.FAILED, Reason.INTERNAL, error=pack(encode_error(error)))
        try:
            await self.engine.give_up(by, run.name, classified(end))
        except _AWAY:  # an audit releases the run, because the worker does not know it
            pass
        except Exception as broken:  # noqa: BLE001 - the same
            problem_of(broken, self._server, "claim")

    # --- commits ---------------------------------------------------------------------------------

    def _receive_commits(self, request: Any) -> None:
        if len(request.commits) > self._limits.commits:
            raise BadInput("the frame", "has too many commits", "Send fewer commits at a time")
        for message in request.commits:
            no = message.no
            if no in self._unanswered:
                fact = "has the number of another unanswered commit"
                self._outcomes.add(no, BadInput(f"commit {no}", fact, "Use another number"))
                continue
            size = self._unanswered[no] = message.ByteSize()
            self._unanswered_bytes += size
            try:
                _check_rows(message, size)
                self._receive_commit(no, commit_of(message))
            except Exception as error:  # noqa: BLE001 - the other commits of the frame are written
                self._answer_commit(no, error)

    def _receive_commit(self, no: int, commit: Commit) -> None:
        if not self._rights.has(commit.run, commit.fence):
            self._answer_commit(no, CommitOutcome(Fate.LOST, 0))
            return
        before = self._reading.get(commit.run)
        needed = self._rights.needs_facts(commit)
        if needed or before is not None:
            work = self._submit_after(before, no, commit, needed)
            self._reading[commit.run] = self._spawn(work)
        else:
            self._submit(no, self._rights.checked(commit))

    def _submit(self, no: int, commit: Commit | None) -> None:
        if commit is None:
            self._answer_commit(no, CommitOutcome(Fate.BUSY, 0))
        else:
            self.engine.submit(commit, partial(self._written, no, commit))

    async def _submit_after(
        self, before: asyncio.Task[None] | None, no: int, commit: Commit, needed: NeededFacts
    ) -> None:
        """Submit a commit once what its check needs was read, after earlier ones of its run."""
        try:
            if before is not None:
                await asyncio.wait([before])
            if not self._rights.has(commit.run, commit.fence):  # it has left meanwhile
                self._answer_commit(no, CommitOutcome(Fate.LOST, 0))
                return
            facts = await self._rights.facts(commit, needed)
            self._submit(no, self._rights.checked(commit, facts))
        except Exception as error:  # noqa: BLE001 - the worker gets it
            self._answer_commit(no, error)
        finally:
            if self._reading.get(commit.run) is asyncio.current_task():
                del self._reading[commit.run]

    def _written(self, no: int, commit: Commit, answer: CommitOutcome | BaseException) -> None:
        if not isinstance(answer, BaseException):
            self._rights.written(commit, answer)
            if commit.move is not None and commit.move.has_time:
                self._claims.due_changed()
        self._answer_commit(no, answer)

    def _answer_commit(self, no: int, answer: CommitOutcome | BaseException) -> None:
        self._unanswered_bytes -= self._unanswered.pop(no, 0)
        if not self._has_room.is_set():
            self._has_room.set()
        if isinstance(answer, BaseException):
            if isinstance(answer, _AWAY):
                # Later commits of the run may be written before the worker sends this one again.
                self.end("the database is unavailable")
                return
            if isinstance(answer, Rejected):  # the worker's mistake, and no failure of the server
                answer = WriteRefused(TEXT_RULE, answer.fact)
            problem_of(answer, self._server, "commits")  # it is logged if it is unexpected
            self.refusals += 1
        self._outcomes.add(no, answer)

    # --- the end ---------------------------------------------------------------------------------

    def end(self, why: str) -> None:
        """End the stream; the worker reconnects."""
        if not self._ended.is_set():
            self.why_ended = why
            self._takes_runs = False
            if self._claim is not None:
                self._claims.finish(self._claim)
            self._ended.set()
            self._has_room.set()

    async def ended(self) -> None:
        """Wait until the stream should end."""
        await self._ended.wait()

    async def answered(self) -> None:
        """Wait until all commits and calls have their answer."""
        await self._claimed.wait()
        while self._unanswered or self._tasks:
            self._has_room.clear()
            await self._has_room.wait()

    async def close(self) -> None:
        """Withdraw the claim and end the calls in progress; the worker keeps its lease."""
        self._takes_runs = False
        if self._claim is not None:
            self._claims.withdraw(self._claim)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        async with self._looking:  # or what it finds would come after the worker has reconnected
            pass

    # --- responses -------------------------------------------------------------------------------

    def _put_problem(self, request_id: int, error: BaseException, where: str) -> None:
        problem = problem_of(error, self._server, where)
        if not isinstance(error, _AWAY):
            self.refusals += 1
        self.outbox.put(messages.Response(id=request_id, problem=problem))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._has_room.set()


def _check_rows(commit: Any, size: int) -> None:
    """Refuse a commit that would take long to convert; each of its rows takes two bytes or more."""
    if size > 2 * DEFAULT_LIMITS.rows and row_count(commit) > DEFAULT_LIMITS.rows:
        raise WriteRefused("size", "a commit has too many rows")


def _check_suspects(suspects: Sequence[Any]) -> None:
    # A room is as large as the worker's number of slots, however few runs a claim may take.
    is_odd = any(not 0 <= each.crashes < MAX_CLAIM or each.room < 0 for each in suspects)
    if is_odd or len(suspects) > MAX_SUSPECTS:
        advice = "Check that the worker follows the worker protocol"
        raise BadInput("the claim", "has an invalid `suspects` field", advice)


def check_worker(registration: Registration, principal: Principal) -> None:
    """Refuse a worker that serves queues that its key does not allow, or that cannot be stored.

    Raises:
        BadInput: it serves none, or declares a schedule that is not valid.
        Forbidden: the key does not allow one of them.
        WriteRefused: it cannot be stored.
    """
    refusal = check_registration(registration, DEFAULT_LIMITS)
    if refusal is not None:
        raise WriteRefused(*refusal)
    if not registration.queues:
        raise BadInput("the worker", "serves no queue", "Add a queue to the registration")
    for queue in registration.queues:
        principal.check(poll_scope(queue))
