"""What clients do wrong is answered with a problem, and hurts nobody else."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from onward.server.limits import StreamLimits
from onward.wire.messages import messages
from tests.server.raw import call, stepped, succeeded, uid_of

if TYPE_CHECKING:
    from tests.server.conftest import Worlds


async def test_a_frame_that_cannot_be_read_is_answered_and_the_stream_goes_on(
    sqlite: Worlds,
) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await worker.send_bytes(b"\xff\xff\xff")
        assert (await worker.push("problem")).code == "bad_input"
        assert (await worker.ask()).problem.code == "bad_input"  # it asks for nothing
        assert (await worker.ask(owned=messages.OwnedRequest())).HasField("owned")


async def test_after_a_refused_request_a_stream_is_not_read_for_a_while_but_others_are(
    sqlite: Worlds,
) -> None:
    limits = StreamLimits(refusal_seconds=3.0)
    async with (
        sqlite.serve(limits=limits) as world,
        world.worker("w1") as refused,
        world.worker("w2") as other,
    ):
        await refused.send_bytes(b"\xff\xff\xff")
        await refused.push("problem")
        request = await refused.send(owned=messages.OwnedRequest())
        assert (await other.ask(owned=messages.OwnedRequest())).HasField("owned")
        assert not refused.has_response(request)
        assert (await refused.response(request)).HasField("owned")


@pytest.mark.parametrize(
    ("refused", "seconds", "delay"), [(1, 0.0, 0.04), (3, 0.0, 0.12), (1, 0.01, 2.0), (1, 0.5, 5.0)]
)
def test_a_stream_waits_longer_the_more_work_its_refused_requests_were(
    refused: int, seconds: float, delay: float
) -> None:
    assert StreamLimits().refusal_delay(refused, seconds) == pytest.approx(delay)


async def test_a_commit_that_cannot_be_written_does_not_stop_the_others(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        unknown = stepped(1, run)
        unknown.records[0].state = "nonsense"
        foreign = messages.Commit(no=2, run="r2", fence=1, move=messages.Move(state="succeeded"))
        fates = await worker.commit(unknown, foreign, succeeded(3, run))
        assert fates == {1: "write_refused", 2: "lost", 3: "done"}


async def test_a_commit_with_a_text_that_no_database_stores_is_refused_and_no_failure_of_the_server(
    sqlite: Worlds, caplog: pytest.LogCaptureFixture
) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        unfit = stepped(1, run)
        unfit.records[0].args_hash = "a\0b"
        assert await worker.commit(unfit, succeeded(2, run)) == {1: "write_refused", 2: "done"}
    assert "server.failed" not in caplog.text


async def test_a_commit_with_the_number_of_an_unanswered_one_is_refused(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        commits = [stepped(1, run), stepped(1, run, "b#1", 2)]
        await worker.send(commits=messages.CommitsRequest(commits=commits))
        answers: list[str] = []
        while len(answers) < len(commits):
            reply = await worker.push("commits")
            answers += ["done"] * len(reply.done)
            answers += [each.problem.code for each in reply.others]
        assert sorted(answers) == ["bad_input", "done"]


async def test_a_frame_with_too_many_commits_is_refused(sqlite: Worlds) -> None:
    limits = StreamLimits(commits=2)
    async with sqlite.serve(limits=limits) as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        commits = [stepped(no, run, f"a#{no}", no) for no in (1, 2, 3)]
        answer = await worker.ask(commits=messages.CommitsRequest(commits=commits))
        assert answer.problem.code == "bad_input"


@pytest.mark.parametrize(
    ("operation", "arguments", "code"),
    [
        ("fly", {}, "bad_input"),
        ("within", {}, "bad_input"),
        ("now", {"when": 1}, "bad_input"),
        ("why", {"run_id": 1}, "bad_input"),
        ("why", b"{", "bad_input"),
        ("why", {"run_id": "r1"}, "not_found"),
        ("schedules.preview", {"name": "s", "count": 10**12, "after": None}, "bad_input"),
    ],
)
async def test_a_bad_call_is_answered_with_a_problem(
    operation: str, arguments: Any, code: str, sqlite: Worlds
) -> None:
    async with sqlite.serve() as world:
        reply = await world.client.reply(operation, arguments)
        assert reply.problem.code == code


async def test_a_stream_that_does_not_begin_with_a_hello_is_refused(sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.stream() as worker:
        response = await worker.ask(owned=messages.OwnedRequest())
        assert response.problem.code == "bad_input"
        await worker.is_over.wait()


@pytest.mark.parametrize(
    "hello",
    [
        {"protocol": 9},
        {"registration": messages.Registration(worker="w1")},
        {"registration": messages.Registration(worker="", queues=["default"])},
    ],
)
async def test_a_hello_that_does_not_fit_is_refused(hello: Any, sqlite: Worlds) -> None:
    async with sqlite.serve() as world, world.stream() as worker:
        assert (await worker.join(**hello)).problem.code == "bad_input"


@pytest.mark.parametrize("is_of_pipeline", [False, True])
async def test_a_hello_with_a_schedule_that_is_not_valid_writes_nothing(
    is_of_pipeline: bool, sqlite: Worlds
) -> None:
    schedule = messages.ScheduleSpec(
        name="bomb", workflow="greet", input=b"json:{}", args_hash="h", options="{}", every=1,
        zone="UTC", overlap="allow", catch_up="all", cap=1000,
    )  # fmt: skip
    limits = messages.DeclaredFlow(
        flow=messages.FlowId(kind="workflow", name="greet"), limits=messages.DeclaredLimits(max=1)
    )
    handler = messages.HandlerSpec(name="mail.fetch", kind="producer", schedule=schedule)
    pipeline = messages.PipelineSpec(name="mail", queue="default", handlers=[handler])
    declared: dict[str, Any] = (
        {"pipelines": [pipeline]} if is_of_pipeline else {"schedules": [schedule]}
    )
    async with sqlite.serve() as world, world.stream(limits=[limits], **declared) as worker:
        assert (await worker.join()).problem.code == "bad_input"
        assert await world.client.call("schedules.all") == []
        assert await world.client.call("pipelines.all") == []
        assert await world.client.call("list_flows") == []
        assert await world.client.call("list_workers") == []


async def test_a_worker_cannot_declare_limits_of_a_queue(sqlite: Worlds) -> None:
    limits = messages.DeclaredFlow(
        flow=messages.FlowId(kind="queue", name="payments"), limits=messages.DeclaredLimits(max=1)
    )
    async with sqlite.serve() as world, world.stream(limits=[limits]) as worker:
        assert (await worker.join()).problem.code == "write_refused"
        assert await world.client.call("list_flows") == []


async def test_a_message_beyond_the_limit_ends_only_its_own_stream(sqlite: Worlds) -> None:
    limits = StreamLimits(message_bytes=10_000)
    async with sqlite.serve(limits=limits) as world, world.worker("w2") as other:
        async with world.worker("w1") as worker:
            await worker.send_bytes(b"x" * 20_000)
            await worker.is_over.wait()
        assert (await other.ask(owned=messages.OwnedRequest())).HasField("owned")


async def test_a_server_stops_reading_until_commits_are_answered(sqlite: Worlds) -> None:
    async with sqlite.serve(limits=StreamLimits(commits=1)) as world, world.worker() as worker:
        await world.client.start("r1")
        [run] = await worker.claim()
        commits = [stepped(no, run, f"a#{no}", no) for no in range(1, 50)]
        for commit in commits[:-1]:
            await worker.send(commits=messages.CommitsRequest(commits=[commit]))
        await worker.commit(commits[-1])
        loaded = await worker.ask(load=messages.LoadRequest(histories=[uid_of("r1")]))
        assert len(loaded.load.runs[0].history) == 49


async def test_the_health_service_needs_no_key(sqlite: Worlds) -> None:
    async with sqlite.serve() as world:
        check = partial(call, world.channel, "grpc.health.v1.Health/Check")
        assert await check(b"") == b"\x08\x01"
        assert await check(b"\x0a\x11onward.v1.Workers") == b"\x08\x01"
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await check(b"\x0a\x04nope")
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND


async def test_one_call_returns_a_thousand_runs_at_most(sqlite: Worlds) -> None:
    async with sqlite.serve() as world:
        for limit in (1_001, 10**9, -1):
            given = {"query": [], "page": [limit], "attributes": {}}
            problem = (await world.client.reply("list_runs", given)).problem
            assert problem.code == "bad_input"
            assert "is not between 0 and 1,000" in problem.message
        assert await world.client.call("list_runs", query=[], page=[1_000], attributes={}) == []
