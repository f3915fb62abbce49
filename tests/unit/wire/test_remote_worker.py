"""A remote worker and a server that answers late, twice, wrongly, or not at all."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from onward.core.lease import Fate
from onward.engine.worker_engine import WorkerHooks
from onward.errors import LeaseLost, NotFound, Unavailable
from onward.model.claims import Wanted
from onward.model.commits import Commit, CommitOutcome
from onward.model.runs import Move
from onward.model.workers import News
from onward.wire.messages import messages
from onward.wire.problems import to_problem
from onward.wire.remote_worker import RemoteWorker
from onward.wire.renewals import TRIES_A_LEASE
from onward.wire.stream import Beat
from tests.unit.wire.fake_network import REGISTRATION, FakeNetwork, FakeTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

pytestmark = pytest.mark.usefixtures("onward_clock")

WANTED = Wanted("w1", ("default",), ("work",), 10)


class World:
    """A worker that has joined, its stream, and what its hooks were called with."""

    def __init__(self, beat: Beat) -> None:
        self.network = FakeNetwork()
        self.times: list[tuple[int, int]] = []
        self.drains = 0
        self.has_given_up = False
        hooks = WorkerHooks(self._on_time, self._through, on_drain=self._on_drain)
        loop: Any = asyncio.get_running_loop()
        self.worker: Any = RemoteWorker(  # type: ignore[abstract]
            self.network, loop._clock, "w1", hooks, beat
        )
        self.stream: FakeTransport

    def _on_time(self, at: int, asked: int) -> None:
        self.times.append((at, asked))

    def _on_drain(self) -> None:
        self.drains += 1

    async def _through(self, send: Callable[[], Awaitable[Any]]) -> Any:
        while True:
            try:
                return await send()
            except Unavailable:
                if self.has_given_up:
                    raise
                await asyncio.sleep(0)

    def submit(self, *commits: Commit) -> list[Any]:
        """Submit commits, and return the list of their answers."""
        answers: list[Any] = []
        for commit in commits:
            self.worker.submit(commit, answers.append)
        return answers


@asynccontextmanager
async def joined(beat: Beat | None = None, **welcome: Any) -> AsyncIterator[World]:
    world = World(beat or Beat())
    joining = asyncio.ensure_future(world.worker.join(REGISTRATION, 15_000_000))
    world.stream, hello = await world.network.greeted(**welcome)
    assert not hello.is_reconnect
    assert hello.lease == 15_000_000
    await joining
    try:
        yield world
    finally:
        world.worker.disconnect()
        await world.network.close()


async def settle(check: Callable[[], object]) -> None:
    for _ in range(1000):
        if check():
            return
        await asyncio.sleep(0.001)
    pytest.fail("it did not happen")


def commit(run: str, fence: int = 1, **rest: Any) -> Commit:
    return Commit(run, fence, **rest)


def a_run(uid: str) -> Any:
    return messages.ClaimedRun(uid=uid, id=uid, kind="workflow", name="work", fence=1)


# --- claims ---------------------------------------------------------------------------------------


async def test_one_claim_stands_at_the_server_until_it_is_answered() -> None:
    async with joined() as world:
        assert not (await world.worker.claim(WANTED)).runs
        request = await world.stream.sent("claim")
        assert not (await world.worker.claim(WANTED)).runs
        assert world.stream.unread == 0
        world.stream.answer(request, claim=messages.ClaimReply(runs=[a_run("r1")]), at=7)
        await world.worker.wait(10)
        claimed = await world.worker.claim(WANTED)
        assert [run.uid for run in claimed.runs] == ["r1"]
        assert not claimed.was_repeated
        assert [at for at, _ in world.times] == [7]
        assert world.stream.unread == 0  # the worker has less room now than it said
        await world.worker.claim(WANTED)
        await world.stream.sent("claim")


async def test_an_answer_that_comes_while_nobody_waits_is_kept() -> None:
    async with joined() as world:
        await world.worker.claim(WANTED)
        request = await world.stream.sent("claim")
        world.stream.answer(request, claim=messages.ClaimReply(runs=[a_run("r1")]))
        await settle(lambda: world.worker._claimed)
        assert [run.uid for run in (await world.worker.claim(WANTED)).runs] == ["r1"]


async def test_a_claim_comes_in_parts() -> None:
    async with joined() as world:
        await world.worker.claim(WANTED)
        request = await world.stream.sent("claim")
        for uid, more in (("r1", True), ("r2", False)):
            reply = messages.ClaimReply(runs=[a_run(uid)])
            world.stream.answer(request, claim=reply, more=more)
        await world.worker.wait(10)
        claimed = await world.worker.claim(WANTED)
        assert [run.uid for run in claimed.runs] == ["r1", "r2"]


async def test_news_of_a_run_that_is_not_begun_yet_come_with_its_claim() -> None:
    async with joined() as world:
        await world.worker.claim(WANTED)
        request = await world.stream.sent("claim")
        world.stream.answer(request, claim=messages.ClaimReply(runs=[a_run("r1")]))
        world.stream.put(messages.Response(news=messages.News(runs=["r1", "r0"])))
        await settle(lambda: world.worker._changed)
        assert await world.worker.wait(10) == News(("r0",))
        assert (await world.worker.claim(WANTED)).changed == {"r1"}
        assert await world.worker.wait(0) == News()


async def test_runs_that_a_claim_took_whose_answer_was_lost_are_given_back_before_the_next() -> (
    None
):
    async with joined() as world:
        await world.worker.claim(WANTED)
        await world.stream.sent("claim")
        world.stream.cut()
        stream, hello = await world.network.greeted()
        assert hello.is_reconnect
        claiming = asyncio.ensure_future(world.worker.claim(WANTED))
        audit = await stream.sent("audit")
        assert list(audit.audit.known) == []
        stream.answer(audit, audit=messages.AuditReply(released=["r0"]))
        assert not (await claiming).runs
        await stream.sent("claim")


async def test_no_more_commits_are_unanswered_than_the_server_takes() -> None:
    async with joined(max_commits=3) as world:
        answers = world.submit(*(commit(str(n)) for n in range(7)))
        runs: list[str] = []
        while len(runs) < 7:
            frame = await world.stream.sent("commits")
            await asyncio.sleep(1)
            assert world.stream.unread == 0
            assert len(frame.commits.commits) <= 3
            runs += [each.run for each in frame.commits.commits]
            done = [each.no for each in frame.commits.commits]
            world.stream.answer(frame, commits=messages.CommitsReply(done=done), at=1)
        await world.worker.flush()
        assert runs == list("0123456")
        assert len(answers) == 7


async def test_no_audit_is_sent_while_a_claim_may_bring_runs_that_it_does_not_name() -> None:
    async with joined() as world:
        await world.worker.claim(WANTED)
        claim = await world.stream.sent("claim")
        assert await world.worker.audit(["r0"]) == []
        assert world.stream.unread == 0
        world.stream.answer(claim, claim=messages.ClaimReply(runs=[a_run("r1")]))
        await world.worker.wait(10)
        assert [run.uid for run in (await world.worker.claim(WANTED)).runs] == ["r1"]
        claiming = asyncio.ensure_future(world.worker.claim(WANTED))
        audit = await world.stream.sent("audit")
        assert sorted(audit.audit.known) == ["r0", "r1"]
        world.stream.answer(audit, audit=messages.AuditReply())
        await claiming
        await world.stream.sent("claim")


async def test_runs_that_arrive_while_a_worker_drains_are_given_back() -> None:
    async with joined() as world:
        await world.worker.claim(WANTED)
        claim = await world.stream.sent("claim")
        draining = asyncio.ensure_future(world.worker.report_draining())
        report = await world.stream.sent("report_draining")
        world.stream.answer(claim, claim=messages.ClaimReply(runs=[a_run("r1")]))
        world.stream.answer(report, report_draining=messages.Empty())
        audit = await world.stream.sent("audit")
        assert list(audit.audit.known) == []
        world.stream.answer(audit, audit=messages.AuditReply(released=["r1"]))
        await draining


# --- commits --------------------------------------------------------------------------------------


async def test_commits_are_gathered_into_frames_of_which_two_are_under_way() -> None:
    async with joined() as world:
        first = world.submit(commit("a"))
        frames = [await world.stream.sent("commits")]
        world.submit(commit("b"))
        frames.append(await world.stream.sent("commits"))
        later = world.submit(commit("c"), commit("d"), commit("e"))
        await asyncio.sleep(0.01)
        assert world.stream.unread == 0
        [sent] = frames[0].commits.commits
        world.stream.answer(frames[0], commits=messages.CommitsReply(done=[sent.no]), at=5)
        third = await world.stream.sent("commits")
        assert [each.run for each in third.commits.commits] == ["c", "d", "e"]
        await settle(lambda: first)
        assert first == [CommitOutcome(Fate.DONE, 5)]
        assert later == []


async def test_a_commit_that_waits_for_a_lock_holds_up_no_others() -> None:
    async with joined() as world:
        world.submit(commit("slow"), commit("a"))
        frame = await world.stream.sent("commits")
        _, quick = frame.commits.commits
        world.stream.answer(frame, commits=messages.CommitsReply(done=[quick.no]), at=1)
        for run in "bcd":
            answers = world.submit(commit(run))
            frame = await world.stream.sent("commits")
            done = [each.no for each in frame.commits.commits]
            world.stream.answer(frame, commits=messages.CommitsReply(done=done), at=1)
            await settle(answers.__len__)


async def test_what_was_not_answered_is_sent_again_in_its_order_before_newer_commits() -> None:
    async with joined() as world:
        answers = world.submit(commit("a"), commit("b"), commit("c"))
        frame = await world.stream.sent("commits")
        done = [frame.commits.commits[1].no]
        world.stream.answer(frame, commits=messages.CommitsReply(done=done), at=1)
        await settle(lambda: answers)
        world.stream.cut()
        world.submit(commit("d"))
        stream, _ = await world.network.greeted()
        again = await stream.sent("commits")
        assert [each.run for each in again.commits.commits] == ["a", "c", "d"]
        done = [each.no for each in again.commits.commits]
        stream.answer(again, commits=messages.CommitsReply(done=done), at=2)
        await world.worker.flush()
        assert answers == [
            CommitOutcome(Fate.DONE, 1),
            CommitOutcome(Fate.DONE, 2),
            CommitOutcome(Fate.DONE, 2),
        ]


async def test_an_outcome_that_comes_twice_counts_once() -> None:
    async with joined() as world:
        answers = world.submit(commit("a"))
        frame = await world.stream.sent("commits")
        reply = messages.CommitsReply(done=[frame.commits.commits[0].no])
        world.stream.answer(frame, commits=reply, at=1)
        world.stream.answer(frame, commits=reply, at=2)
        await world.worker.flush()
        assert answers == [CommitOutcome(Fate.DONE, 1)]


async def test_each_commit_has_its_own_fate_or_error() -> None:
    async with joined() as world:
        answers = world.submit(commit("a"), commit("b"), commit("c"))
        frame = await world.stream.sent("commits")
        a, b, c = (each.no for each in frame.commits.commits)
        others = [
            messages.Outcome(no=b, fate="busy", at=3),
            messages.Outcome(no=c, problem=to_problem(NotFound("run", "c", "default"))),
        ]
        world.stream.answer(frame, commits=messages.CommitsReply(done=[a], others=others), at=2)
        await world.worker.flush()
        assert answers[:2] == [CommitOutcome(Fate.DONE, 2), CommitOutcome(Fate.BUSY, 3)]
        assert isinstance(answers[2], NotFound)


async def test_a_frame_that_the_server_does_not_take_fails_its_commits() -> None:
    async with joined() as world:
        answers = world.submit(commit("a"))
        frame = await world.stream.sent("commits")
        world.stream.answer(frame, problem=to_problem(NotFound("run", "a", "default")))
        await world.worker.flush()
        assert isinstance(answers[0], NotFound)


async def test_a_commit_that_is_answered_with_an_outage_is_sent_again_on_another_stream() -> None:
    async with joined() as world:
        answers = world.submit(commit("a"))
        frame = await world.stream.sent("commits")
        no = frame.commits.commits[0].no
        others = [messages.Outcome(no=no, problem=to_problem(Unavailable("db", "is away")))]
        world.stream.answer(frame, commits=messages.CommitsReply(others=others))
        stream, _ = await world.network.greeted()
        again = await stream.sent("commits")
        done = [again.commits.commits[0].no]
        stream.answer(again, commits=messages.CommitsReply(done=done), at=4)
        await world.worker.flush()
        assert answers == [CommitOutcome(Fate.DONE, 4)]


async def test_a_worker_that_gives_up_gets_an_error_for_what_is_not_answered() -> None:
    async with joined() as world:
        answers = world.submit(commit("a"))
        await world.stream.sent("commits")
        world.has_given_up = True
        await world.worker.flush()
        assert isinstance(answers[0], Unavailable)


# --- requests -------------------------------------------------------------------------------------


async def test_answers_may_come_in_any_order() -> None:
    async with joined() as world:
        first = asyncio.ensure_future(world.worker.count_messages("a"))
        one = await world.stream.sent("count_messages")
        second = asyncio.ensure_future(world.worker.count_messages("b"))
        two = await world.stream.sent("count_messages")
        world.stream.answer(two, count_messages=messages.CountMessagesReply(count=2))
        world.stream.answer(one, count_messages=messages.CountMessagesReply(count=1))
        assert (await first, await second) == (1, 2)


async def test_a_problem_arrives_as_the_error_that_it_is() -> None:
    async with joined() as world:
        asking = asyncio.ensure_future(world.worker.count_messages("a"))
        request = await world.stream.sent("count_messages")
        world.stream.answer(request, problem=to_problem(LeaseLost("a")))
        with pytest.raises(LeaseLost):
            await asking


async def test_a_request_on_a_stream_that_breaks_is_unavailable_at_once() -> None:
    async with joined() as world:
        asking = asyncio.ensure_future(world.worker.owned())
        await world.stream.sent("owned")
        world.stream.cut()
        with pytest.raises(Unavailable):
            await asking
        await world.network.greeted()


async def test_a_request_waits_for_the_next_stream() -> None:
    async with joined() as world:
        world.stream.cut()
        await settle(lambda: world.worker._session is None)
        asking = asyncio.ensure_future(world.worker.owned())
        stream, _ = await world.network.greeted()
        request = await stream.sent("owned")
        stream.answer(request, owned=messages.OwnedReply(runs={"r1": 3}))
        assert await asking == {"r1": 3}


async def test_a_request_that_no_server_can_be_found_for_is_unavailable() -> None:
    async with joined() as world:
        world.network.refusing = Unavailable("fake", "is away")
        world.stream.cut()
        await settle(lambda: world.worker._session is None)
        with pytest.raises(Unavailable, match="is away"):
            await world.worker.owned()


async def test_a_request_that_is_not_answered_in_time_is_unavailable() -> None:
    async with joined() as world:
        asking = asyncio.ensure_future(world.worker.owned())
        await world.stream.sent("owned")
        for _ in range(4):
            world.stream.put(messages.Response(ping=messages.Ping()))
            await asyncio.sleep(10)
        with pytest.raises(Unavailable, match="has not answered the 'owned' request"):
            await asking


async def test_a_wrong_answer_ends_the_stream() -> None:
    async with joined() as world:
        asking = asyncio.ensure_future(world.worker.owned())
        request = await world.stream.sent("owned")
        world.stream.answer(request, audit=messages.AuditReply())
        with pytest.raises(
            Unavailable, match="answered the 'owned' request with a 'audit' response"
        ):
            await asking
        await world.network.greeted()


async def test_an_answer_to_a_question_that_was_withdrawn_is_ignored() -> None:
    async with joined() as world:
        asking = asyncio.ensure_future(world.worker.owned())
        request = await world.stream.sent("owned")
        asking.cancel()
        world.stream.answer(request, owned=messages.OwnedReply())
        world.stream.put(messages.Response(id=99, owned=messages.OwnedReply()))
        asking = asyncio.ensure_future(world.worker.owned())
        request = await world.stream.sent("owned")
        world.stream.answer(request, owned=messages.OwnedReply(runs={"r1": 1}))
        assert await asking == {"r1": 1}


# --- the stream -----------------------------------------------------------------------------------


async def test_a_reconnect_names_the_runs_that_the_worker_has() -> None:
    async with joined() as world:
        await world.worker.claim(WANTED)
        claim = await world.stream.sent("claim")
        runs = [a_run("stays"), a_run("ends"), a_run("busy")]
        world.stream.answer(claim, claim=messages.ClaimReply(runs=runs))
        await world.worker.wait(10)
        await world.worker.claim(WANTED)
        end = Move("succeeded", result=b"json:1")
        answers = world.submit(
            commit("stays", move=Move("running")),
            commit("ends", move=end),
            commit("busy", move=end),
        )
        frame = await world.stream.sent("commits")
        stays, ends, busy = (each.no for each in frame.commits.commits)
        others = [messages.Outcome(no=busy, fate="busy", at=1)]
        reply = messages.CommitsReply(done=[stays, ends], others=others)
        world.stream.answer(frame, commits=reply, at=1)
        await settle(lambda: len(answers) == 3)
        world.stream.cut()
        _, hello = await world.network.greeted(lost=["busy"])
        assert dict(hello.held) == {"stays": 1, "busy": 1}
        await settle(lambda: world.worker._changed)
        assert (await world.worker.wait(10)).runs == ("busy",)


async def test_a_lost_lease_is_raised_by_every_call_and_nothing_is_opened_again() -> None:
    async with joined() as world:
        answers = world.submit(commit("a"))
        await world.stream.sent("commits")
        world.stream.cut()
        stream = await world.network.opened()
        request = await stream.sent("hello")
        stream.answer(request, problem=to_problem(LeaseLost("w1", "the lease of worker")))
        await world.worker.wait(10)
        with pytest.raises(LeaseLost):
            await world.worker.claim(WANTED)
        await world.worker.flush()
        assert isinstance(answers[0], LeaseLost)


async def test_after_a_goodbye_the_last_answers_are_taken_and_a_new_stream_is_used() -> None:
    async with joined() as world:
        asking = asyncio.ensure_future(world.worker.owned())
        request = await world.stream.sent("owned")
        world.stream.put(messages.Response(goodbye=messages.Goodbye(why="it stops")))
        world.stream.answer(request, owned=messages.OwnedReply(runs={"r1": 1}))
        assert await asking == {"r1": 1}
        world.stream.cut()
        stream, hello = await world.network.greeted()
        assert hello.is_reconnect
        asking = asyncio.ensure_future(world.worker.owned())
        request = await stream.sent("owned")
        stream.answer(request, owned=messages.OwnedReply())
        assert await asking == {}


async def test_a_server_that_is_silent_for_25_seconds_is_left() -> None:
    async with joined() as world:
        await asyncio.sleep(24)
        before = world.stream.is_cancelled
        await asyncio.sleep(12)
        assert (before, world.stream.is_cancelled) == (False, True)
        _, hello = await world.network.greeted()
        assert hello.is_reconnect


async def test_pings_of_the_server_keep_a_stream() -> None:
    async with joined() as world:
        for _ in range(20):
            world.stream.put(messages.Response(ping=messages.Ping()))
            await asyncio.sleep(10)
        assert not world.stream.is_cancelled
        assert world.stream.unread in (19, 20)  # pings of the worker


async def test_an_order_to_drain_arrives_by_news_and_by_a_welcome() -> None:
    async with joined(is_draining=True) as world:
        assert world.drains == 1
        world.stream.put(messages.Response(news=messages.News(drain=True)))
        await settle(lambda: world.drains == 2)


async def test_news_that_anything_may_have_changed_are_told_once() -> None:
    async with joined() as world:
        world.stream.put(messages.Response(news=messages.News(everything=True)))
        assert await world.worker.wait(10) == News(everything=True)
        assert await world.worker.wait(0) == News()


async def test_a_wake_ends_the_wait_or_the_next_one() -> None:
    async with joined() as world:
        waiting = asyncio.ensure_future(world.worker.wait(1000))
        await asyncio.sleep(0)
        world.worker.wake()
        assert await waiting == News()
        world.worker.wake()
        assert await world.worker.wait(1000) == News()


async def test_a_worker_that_leaves_says_so_and_sends_no_more() -> None:
    async with joined() as world:
        leaving = asyncio.ensure_future(world.worker.leave(releases=True))
        request = await world.stream.sent("leave")
        assert request.leave.releases
        world.stream.answer(request, leave=messages.Empty())
        await leaving
        await settle(lambda: world.stream.is_ended)


async def test_a_worker_that_takes_the_place_of_another_names_it() -> None:
    from onward.model.workers import LostWorker

    world = World(Beat())
    before = LostWorker("w0", {"r1": 4})
    joining = asyncio.ensure_future(world.worker.join(REGISTRATION, 15_000_000, before))
    _, hello = await world.network.greeted()
    await joining
    assert hello.before.worker == "w0"
    assert dict(hello.before.held) == {"r1": 4}
    world.worker.disconnect()
    await world.network.close()


async def test_a_join_that_is_refused_opens_no_second_stream() -> None:
    world = World(Beat())
    joining = asyncio.ensure_future(world.worker.join(REGISTRATION, 15_000_000))
    stream = await world.network.opened()
    request = await stream.sent("hello")
    stream.answer(request, problem=to_problem(NotFound("namespace", "shop", "default")))
    with pytest.raises(NotFound):
        await joining
    await world.network.close()


# --- the lease ------------------------------------------------------------------------------------


async def test_a_renewal_returns_whether_the_lease_is_kept_and_hears_of_a_drain() -> None:
    async with joined() as world:
        replies = [
            messages.RenewReply(is_kept=True),
            messages.RenewReply(is_kept=False, is_draining=True),
        ]
        seconds: list[float] = []

        async def call(rpc: Any, request: Any, timeout: float) -> Any:
            assert request.worker == "w1"
            seconds.append(timeout)
            return replies.pop(0)

        world.network.renewing = call
        async with world.worker.renewer() as renewer:
            assert await renewer.renew(15_000_000)
            assert not await renewer.renew(3_000_000)
        await settle(lambda: world.drains == 1)
        assert seconds == [15 / TRIES_A_LEASE, 3 / TRIES_A_LEASE]


async def test_the_parts_of_a_list_are_joined() -> None:
    async with joined() as world:
        asking = asyncio.ensure_future(world.worker.messages("r1", [1, 2, 3]))
        request = await world.stream.sent("messages")
        for seq in (1, 2, 3):
            row = messages.InboxRow(run="r1", seq=seq, kind="signal", payload=b"json:1")
            part = messages.MessagesReply(messages=[row])
            world.stream.answer(request, messages=part, more=seq < 3)
        assert [row.seq for row in await asking] == [1, 2, 3]
