"""A server for one worker: the real services, an engine in memory, and faults on demand."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Self

import grpc
import grpc.aio

from onward.core.instant import SECOND
from onward.testing.protocol.commit_log import CommitLog
from onward.testing.protocol.faults import Faults, PlayedStream
from onward.testing.protocol.rules import RuleBroken
from onward.wire.messages import messages

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from types import TracebackType

    from onward.testing.protocol.engine import ScriptedEngine

SERVICE = "onward.v1.Workers"
MAX_WAIT = 20 * SECOND
REFUSED = messages.Problem(code="rejected", message="refused", fields=b'{"fact":"by a test"}')
UNKNOWN_FIELD = b"\xf2\x3e\x05later"
"""A field that no message has: number 1006, with the text `later`."""


class ScriptedServer:
    """Answers a worker, and notes every rule that it breaks.

    Args:
        engine: The runs.
    """

    def __init__(self, engine: ScriptedEngine) -> None:
        self.engine = engine
        self.faults = Faults()
        self.streams: list[PlayedStream] = []
        self.workers: list[Any] = []
        """The registrations, in the order in which workers joined."""
        self.broken: list[RuleBroken] = []
        self.requests: list[tuple[str, Any]] = []
        """Every request: its kind and its content."""
        self.renewals: list[Any] = []
        self.left: list[Any] = []
        self.changed = asyncio.Condition()
        self.commits = CommitLog()
        self._unknown: set[str] = set()
        self._kept: list[tuple[PlayedStream, Any]] = []
        self._told_lost: dict[tuple[str, int], float] = {}
        self._server: Any = None
        self.port = 0
        engine.on_change = self.look_again

    # --- life ------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._server = grpc.aio.server()
        unary = grpc.unary_unary_rpc_method_handler
        handlers = {
            "Work": grpc.stream_stream_rpc_method_handler(
                self._work, messages.Request.FromString, messages.Response.SerializeToString
            ),
            "Renew": unary(
                self._renew, messages.RenewRequest.FromString, messages.RenewReply.SerializeToString
            ),
            "ReleaseOthers": unary(
                self._release_others,
                messages.ReleaseOthersRequest.FromString,
                messages.ReleaseOthersReply.SerializeToString,
            ),
            "NoteBlocked": unary(
                self._note_blocked,
                messages.NoteBlockedRequest.FromString,
                messages.NoteBlockedReply.SerializeToString,
            ),
        }
        generic = grpc.method_handlers_generic_handler(SERVICE, handlers)
        self._server.add_generic_rpc_handlers((generic,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._server.stop(grace=0)

    def look_again(self) -> None:
        """Answer a claim if there is a run, and let scenarios see what has changed."""
        self._answer_claim()
        task = asyncio.ensure_future(self._notify())
        task.add_done_callback(lambda _: None)

    async def _notify(self) -> None:
        async with self.changed:
            self.changed.notify_all()

    async def until(self, is_true: Callable[[], bool], seconds: float) -> bool:
        """Wait until something is true; return whether it came to be."""
        async with self.changed:
            try:
                async with asyncio.timeout(seconds):
                    await self.changed.wait_for(is_true)
            except TimeoutError:
                return False
            return True

    # --- what scenarios do -----------------------------------------------------------------------

    @property
    def worker(self) -> str:
        """The id of the worker that joined last."""
        return str(self.workers[-1].worker) if self.workers else ""

    @property
    def stream(self) -> PlayedStream:
        """The newest stream."""
        return self.streams[-1]

    def is_connected(self) -> bool:
        """Return whether the worker has a stream, and has said Hello on it."""
        return bool(self.streams) and not self.stream.is_cut and self.stream.hello is not None

    def cut(self) -> None:
        """Break the stream."""
        self.stream.is_cut = True
        self.stream.out.put_nowait(None)

    def say_goodbye(self) -> None:
        """Tell the worker that this server stops."""
        self._put(self.stream, messages.Response(goodbye=messages.Goodbye(why="a test")))
        self.cut()

    def tell(self, *runs: str, everything: bool = False, drain: bool = False) -> None:
        """Send news."""
        news = messages.News(runs=runs, everything=everything, drain=drain)
        self._put(self.stream, messages.Response(news=news))

    def let_go(self) -> None:
        """Send the answers that were kept."""
        self.faults.held.clear()
        kept, self._kept = self._kept, []
        for stream, response in kept:
            self._note_answered(response)
            self._put(stream, response)

    @property
    def kept(self) -> int:
        """How many answers are kept."""
        return len(self._kept)

    def forget_kept(self) -> None:
        """Lose the answers that were kept."""
        self.faults.held.clear()
        self._kept.clear()

    def count(self, kind: str) -> int:
        """Return how many requests of a kind have come."""
        return sum(name == kind for name, _ in self.requests)

    # --- the stream ------------------------------------------------------------------------------

    async def _work(self, requests: AsyncIterator[Any], _context: Any) -> AsyncIterator[Any]:
        stream = PlayedStream()
        self.streams.append(stream)
        reading = asyncio.ensure_future(self._read(stream, requests))
        try:
            while True:
                response = await stream.out.get()
                if response is None:
                    return
                yield response
        finally:
            stream.is_cut = True
            reading.cancel()
            self.look_again()

    async def _read(self, stream: PlayedStream, requests: AsyncIterator[Any]) -> None:
        try:
            async for request in requests:
                if stream.is_cut:
                    return
                try:
                    self._take(stream, request)
                except RuleBroken as broken:
                    self.broken.append(broken)
                self.look_again()
        except (grpc.RpcError, asyncio.CancelledError):
            pass
        finally:
            stream.is_cut = True
            stream.out.put_nowait(None)
            self.look_again()

    def _take(self, stream: PlayedStream, request: Any) -> None:
        kind = request.WhichOneof("request")
        stream.heard.append(asyncio.get_running_loop().time())
        if stream.hello is None:
            self._hello(stream, request)
            return
        if kind is None:
            return
        body = getattr(request, kind)
        self.requests.append((kind, body))
        if kind == "ping":
            return
        if kind == "hello" or request.id == 0 or request.id in stream.ids:
            raise RuleBroken("request-ids", f"a {kind} with the id {request.id}")
        stream.ids.add(request.id)
        problems = self.faults.problems.get(kind)
        if problems:
            self._put(stream, messages.Response(id=request.id, problem=problems.pop(0)))
            return
        getattr(self, f"_on_{kind}", self._on_other)(stream, request, kind, body)

    def _hello(self, stream: PlayedStream, request: Any) -> None:
        if request.WhichOneof("request") != "hello" or request.id != 1:
            raise RuleBroken("hello-first", f"a {request.WhichOneof('request')} came first")
        hello = stream.hello = request.hello
        stream.ids.add(1)
        if hello.protocol != 1 or not hello.sdk:
            raise RuleBroken("hello-first", f"protocol {hello.protocol}, sdk {hello.sdk!r}")
        known = [each.worker for each in self.workers]
        worker = hello.registration.worker
        if self.faults.is_lease_lost and hello.is_reconnect:
            self.faults.is_lease_lost = False
            problem = messages.Problem(
                code="lease_lost", message="the lease was lost", fields=b'{"run":"","what":"lease"}'
            )
            self._put(stream, messages.Response(id=1, problem=problem))
            return
        if hello.is_reconnect and worker not in known:
            raise RuleBroken("reconnect", f"worker {worker!r} reconnects, but never joined")
        if not hello.is_reconnect:
            self._join(hello)
        stream.max_commits = self.faults.max_commits
        self._put(stream, messages.Response(id=1, at=self.engine.tick(), hello=self._welcome()))

    def _join(self, hello: Any) -> None:
        given = hello.registration
        if not (given.worker and given.queues and given.names and given.slots and hello.lease > 0):
            raise RuleBroken("registration", f"the registration is {given}, lease {hello.lease}")
        self.workers.append(given)
        self.commits = CommitLog()  # a new worker counts anew
        if hello.HasField("before"):
            self.engine.audit(hello.before.worker, set())

    def _welcome(self) -> Any:
        lost, self.faults.lost_on_reconnect = self.faults.lost_on_reconnect, []
        return messages.Welcome(
            server="the protocol tester",
            protocol=1,
            namespace="default",
            lost=lost,
            max_payload_bytes=2 * 1024 * 1024,
            max_frame_bytes=4 * 1024 * 1024,
            max_commits=self.faults.max_commits,
        )

    def _put(self, stream: PlayedStream, response: Any) -> None:
        if stream.is_cut:
            return
        if self.faults.sends_unknown:
            stream.out.put_nowait(messages.Response.FromString(UNKNOWN_FIELD))
            response = messages.Response.FromString(response.SerializeToString() + UNKNOWN_FIELD)
        for _ in range(2 if self.faults.sends_twice and response.id != 1 else 1):
            stream.out.put_nowait(response)

    def _answer(
        self, stream: PlayedStream, request: Any, kind: str, body: Any, **rest: Any
    ) -> None:
        # Outcomes of commits are matched by `no`: a server may answer several requests at once.
        request_id = 0 if kind == "commits" else request.id
        response = messages.Response(id=request_id, at=self.engine.now, **{kind: body}, **rest)
        if kind in self.faults.held:
            self._kept.append((stream, response))
        elif self.faults.dropped[kind] > 0:
            self.faults.dropped[kind] -= 1
            self._unknown |= {run.uid for run in response.claim.runs}
        else:
            self._note_answered(response)
            self._put(stream, response)

    def _note_answered(self, response: Any) -> None:
        if response.WhichOneof("response") == "commits":
            self.commits.note_answer(response.commits)

    # --- claims ----------------------------------------------------------------------------------

    def _on_claim(self, stream: PlayedStream, request: Any, _kind: str, claim: Any) -> None:
        if stream.claim is not None:
            raise RuleBroken("one-claim", "a second claim came before the first was answered")
        known = self.engine.owned(self.worker).keys() - self._unknown
        free = self.workers[-1].slots - len(known)
        if not 0 < claim.limit <= free or not 0 <= claim.wait <= MAX_WAIT:
            fact = f"limit {claim.limit} with {free} free slots, wait {claim.wait}"
            raise RuleBroken("one-claim", fact)
        stream.claim = request
        self._answer_claim()
        loop = asyncio.get_running_loop()
        loop.call_later(claim.wait / SECOND, self._end_claim, stream, request)

    def _end_claim(self, stream: PlayedStream, request: Any) -> None:
        """Answer a claim for which no run came, if it is still without an answer."""
        if request is not None and stream.claim is request and not stream.is_cut:
            stream.claim = None
            self._answer(stream, request, "claim", messages.ClaimReply())

    def _answer_claim(self) -> None:
        if not self.streams or self.stream.claim is None or self.stream.is_cut:
            return
        request, stream = self.stream.claim, self.stream
        names = set(self.workers[-1].names)
        runs = self.engine.claim(self.worker, names, request.claim.limit)
        if runs:
            stream.claim = None
            self._answer(stream, request, "claim", messages.ClaimReply(runs=runs))

    def _on_load(self, stream: PlayedStream, request: Any, kind: str, load: Any) -> None:
        rows = []
        for uid in {*load.histories, *load.inboxes}:
            run = self.engine.runs[uid]
            rows.append(messages.LoadedRun(run=uid))
            if uid in load.histories:
                rows += [messages.LoadedRun(run=uid, history=[row]) for row in run.history]
            if uid in load.inboxes:
                position = load.inboxes[uid]
                taken = {row.message for row in run.history if row.HasField("message")}
                seen = position.seen if position.HasField("seen") else 0
                new = [row for row in run.inbox if row.seq > seen and row.seq not in taken]
                rows += [messages.LoadedRun(run=uid, inbox=[self._shown(row)]) for row in new]
        self.engine.tick()
        if self.faults.in_parts:
            for row in rows:
                self._answer(stream, request, kind, messages.LoadReply(runs=[row]), more=True)
            rows = []
        self._answer(stream, request, kind, messages.LoadReply(runs=rows))

    def _shown(self, row: Any) -> Any:
        if not (self.faults.omits_payloads and row.HasField("payload")):
            return row
        shown = messages.InboxRow()
        shown.CopyFrom(row)
        shown.ClearField("payload")
        shown.is_omitted = 1
        return shown

    # --- commits ---------------------------------------------------------------------------------

    def _on_commits(self, stream: PlayedStream, request: Any, kind: str, sent: Any) -> None:
        at = self.engine.tick()
        reply = messages.CommitsReply()
        for commit in sent.commits:
            outcome = self._commit(stream, commit, at)
            if outcome is None:
                reply.done.append(commit.no)
            else:
                reply.others.append(outcome)
        unanswered = sum(not each.is_answered for each in stream.commits)
        if unanswered > stream.max_commits:
            raise RuleBroken("max-commits", f"{unanswered} commits are unanswered")
        self._answer(stream, request, kind, reply)
        self.look_again()

    def _commit(self, stream: PlayedStream, commit: Any, at: int) -> Any:
        """Write a commit; return its outcome if that is not `done`."""
        sent = self.commits.add(stream, commit, self.engine.owned(self.worker))
        if commit.run in self.faults.refused:
            self.faults.refused.remove(commit.run)
            return messages.Outcome(no=commit.no, problem=REFUSED)
        self._check_told(commit)
        run = self.engine.runs.get(commit.run)
        if sent.is_done and run is not None and run.fence == commit.fence:
            return None  # it was written before, and the answer was lost
        fate = self.engine.apply(self.worker, commit)
        sent.is_done = fate == "done"
        if fate == "lost":
            self._note_lost(commit.run, commit.fence)
        return None if sent.is_done else messages.Outcome(no=commit.no, fate=fate, at=at)

    def _note_lost(self, run: str, fence: int) -> None:
        self._told_lost.setdefault((run, fence), asyncio.get_running_loop().time())

    def _check_told(self, commit: Any) -> None:
        told = self._told_lost.get((commit.run, commit.fence))
        if told is not None and asyncio.get_running_loop().time() - told > 0.2:
            raise RuleBroken("lost", "a commit for a run came after the fate `lost`")

    # --- the rest --------------------------------------------------------------------------------

    def _on_other(self, stream: PlayedStream, request: Any, kind: str, _body: Any) -> None:
        reply = messages.Response.DESCRIPTOR.fields_by_name[kind].message_type.name
        self._answer(stream, request, kind, getattr(messages, reply)())

    def _on_messages(self, stream: PlayedStream, request: Any, kind: str, wanted: Any) -> None:
        rows = [row for row in self.engine.runs[wanted.run].inbox if row.seq in wanted.seqs]
        if self.faults.in_parts:
            for row in rows:
                part = messages.MessagesReply(messages=[row])
                self._answer(stream, request, kind, part, more=True)
            rows = []
        self._answer(stream, request, kind, messages.MessagesReply(messages=rows))

    def _on_count_messages(
        self, stream: PlayedStream, request: Any, kind: str, wanted: Any
    ) -> None:
        count = len(self.engine.runs[wanted.run].inbox)
        self._answer(stream, request, kind, messages.CountMessagesReply(count=count))

    def _on_owned(self, stream: PlayedStream, request: Any, kind: str, _body: Any) -> None:
        runs = self.engine.owned(self.worker)
        self._answer(stream, request, kind, messages.OwnedReply(runs=runs))

    def _on_audit(self, stream: PlayedStream, request: Any, kind: str, audit: Any) -> None:
        released = self.engine.audit(self.worker, set(audit.known))
        self._answer(stream, request, kind, messages.AuditReply(released=released))

    def _on_give_up(self, stream: PlayedStream, request: Any, kind: str, given: Any) -> None:
        run = self.engine.runs[given.by.run]
        run.state, run.reason = given.move.state, given.move.reason or None
        run.moves.append(given.move)
        self._answer(stream, request, kind, messages.GiveUpReply(is_given_up=True))

    def _on_keep_progress(self, stream: PlayedStream, request: Any, kind: str, given: Any) -> None:
        self.engine.runs[given.run].progress = given.value
        self._answer(stream, request, kind, messages.Empty())

    def _on_report_draining(self, stream: PlayedStream, request: Any, kind: str, body: Any) -> None:
        self._end_claim(stream, stream.claim)
        self._on_other(stream, request, kind, body)

    def _on_leave(self, stream: PlayedStream, request: Any, kind: str, leave: Any) -> None:
        self._end_claim(stream, stream.claim)
        self.left.append(leave)
        if leave.releases:
            self.engine.audit(self.worker, set())
        self._answer(stream, request, kind, messages.Empty())

    async def _renew(self, request: Any, _context: Any) -> Any:
        self.renewals.append(request)
        self.look_again()
        is_kept = request.worker == self.worker and not self.faults.is_lease_lost
        return messages.RenewReply(is_kept=is_kept, at=self.engine.now)

    async def _release_others(self, _request: Any, _context: Any) -> Any:
        return messages.ReleaseOthersReply()

    async def _note_blocked(self, _request: Any, _context: Any) -> Any:
        return messages.NoteBlockedReply()
