"""An App behind a server: what differs from one with a database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, Signal, effect, step, workflow
from onward.errors import (
    BadInput,
    BadStoreUrl,
    NotOpen,
    PayloadTooLarge,
    StoreUnusable,
    Unavailable,
)
from onward.pipelines import Pipeline
from tests.kit.watching import until

if TYPE_CHECKING:
    from pathlib import Path

    from onward.pipelines import ProducerContext
    from tests.kit.servers import ServerThread

go = Signal("go", int)


@workflow
async def waiting() -> int:
    return await go.wait()


@workflow
async def double(n: int) -> int:
    return 2 * n


async def test_apps_of_two_processes_share_runs_through_a_server(server_url: str) -> None:
    async with App(server_url) as client, App(server_url) as other, other.worker():
        run = await client.start(waiting.options(id="w"))
        await client.signal("w", go, 7)
        assert await run.result(timeout="30s") == 7
        assert [each.id for each in await other.runs()] == ["w"]


async def test_namespaces_are_apart(server_url: str) -> None:
    async with App(server_url) as one, App(server_url, namespace="two") as two:
        await one.start(double, 1)
        assert len(await one.runs()) == 1
        assert await two.runs() == []


async def test_many_starts_share_calls(server_url: str) -> None:
    async with App(server_url) as app:
        runs = await asyncio.gather(*(app.start(double, n) for n in range(1_000)))
        assert len({run.uid for run in runs}) == 1_000
        lanes = app._opened._starts  # type: ignore[attr-defined]
        assert sum(lane.batches for lane in lanes) < 20


async def test_a_wait_for_a_result_goes_on_while_a_server_restarts(
    servers: ServerThread, tmp_path: Path
) -> None:
    database = str(tmp_path / "app.db")
    with servers.serve(database) as url:
        app = App(url)
        await app.__aenter__()
        run = await app.start(waiting)
        result = asyncio.ensure_future(run.result(timeout="60s"))
        working = app.worker()
        await working.__aenter__()
    with servers.serve(database, url.removeprefix("onward://")):
        await run.signal(go, 3)
        assert await result == 3
        await working.__aexit__(None, None, None)
        await app.__aexit__(None, None, None)


async def test_a_run_whose_commit_is_too_large_for_the_server_fails(server_url: str) -> None:
    """A worker that tried again would be refused again."""
    numbers = Pipeline("numbers")
    found = numbers.topic("found", str)

    @numbers.producer(every="1h", publishes=[found])
    async def find(ctx: ProducerContext, cursor: None) -> None:
        for number in range(5):  # in one commit, of more than 8 MiB
            ctx.publish(found, "x" * 2_000_000, id=str(number))

    async with App(server_url) as app, app.worker(pipelines=[numbers]):
        await app.pipelines.trigger("numbers")

        async def has_failed() -> bool:
            return bool(await app.runs(kind="producer", state="failed"))

        await until(has_failed)
        [run] = await app.runs(kind="producer")
        assert (run.reason, run.error_type) == ("internal", "onward.errors.PayloadTooLarge")
        assert "the limit is 8,388,608" in str(run.error)


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match=r"onward://localhost:1 cannot be reached"):
        await App("onward://localhost:1").__aenter__()


async def test_a_transaction_of_ones_own_says_why_it_cannot_be_used(server_url: str) -> None:
    async with App(server_url) as app:
        with pytest.raises(StoreUnusable, match=r"is a server.*Start the run after you commit"):
            app.within(object())
        with pytest.raises(StoreUnusable, match="is a server"):
            await app.blocking_within(object())


def test_the_sync_client_works_through_a_server(server_url: str) -> None:
    with App(server_url).sync() as app, app.worker():
        assert app.run(double, 4) == 8


def metadata_of(app: App) -> dict[str, Any]:
    connection = app._opened._connection  # type: ignore[attr-defined]
    return dict(connection.metadata)


def test_the_key_is_the_one_given_or_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONWARD_KEY", "onw_env")
    assert metadata_of(App("onward://localhost"))["authorization"] == "Bearer onw_env"
    given = App("onward://localhost", key="onw_given")
    assert metadata_of(given)["authorization"] == "Bearer onw_given"
    assert "onw_" not in repr(given._opened) + repr(vars(given._opened))
    monkeypatch.delenv("ONWARD_KEY")
    assert "authorization" not in metadata_of(App("onward://localhost"))


def test_a_key_in_the_environment_does_not_disturb_a_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ONWARD_KEY", "onw_env")
    assert App(":memory:")._opened.is_private


def test_what_a_server_does_itself_is_refused() -> None:
    with pytest.raises(BadInput, match="hints= applies to databases only"):
        App("onward://localhost", hints="redis://localhost")
    with pytest.raises(BadStoreUrl, match="ONWARD_KEY"):
        App("onward://onw_key@localhost")


def test_without_grpc_the_error_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['grpc'] = None\n"
        "from onward import App\n"
        "try:\n    App('onward://localhost')\n"
        "except Exception as error:\n    print(type(error).__name__, error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("StoreUnusable")
    assert "pip install 'onward[grpc]'" in done.stdout


async def test_a_bad_argument_of_one_caller_fails_no_signal_of_another(server_url: str) -> None:
    async with App(server_url) as app:
        await app.start(waiting.options(id="w"))
        bad: Any = 3
        sent = await asyncio.gather(
            app.signal("w", "x", 1),
            app.signal("w", "x", 1, message_id=bad),
            app.signal("w", "y", 1),
            return_exceptions=True,
        )
        assert [type(each) for each in sent] == [type(None), BadInput, type(None)]


@effect
async def send(text: str) -> int:
    return len(text)


@workflow
async def sending() -> int:
    return await send("x" * 1_900_000)


async def test_large_arguments_of_many_effects_are_sent_in_several_frames(server_url: str) -> None:
    async with App(server_url) as app, app.worker(workflows=[sending]):
        runs = await asyncio.gather(*(app.start(sending) for _ in range(12)))
        ends = await asyncio.gather(*(run.result(timeout="60s") for run in runs))
        assert ends == [1_900_000] * 12


async def test_events_that_no_message_can_carry_are_refused_together(server_url: str) -> None:
    numbers = Pipeline("numbers")
    found = numbers.topic("found", str)

    @numbers.producer(every="1h", publishes=[found])
    async def find(ctx: ProducerContext, cursor: None) -> None:
        pass

    async with App(server_url) as app:
        await app.pipelines.declare(numbers)
        texts = [f"{number:03}" + "x" * 1_500_000 for number in range(12)]
        with pytest.raises(PayloadTooLarge, match=r"pipelines\.publish is .* limit is 16,777,216"):
            await app.publish_many(found, texts, id=lambda text: text[:3])
        assert await app.publish_many(found, texts[:6], id=lambda text: text[:3]) == 6


@step
async def read_much() -> str:
    return "x" * 1_500_000


@workflow
async def reading_much() -> int:
    return sum([len(await read_much()) for _ in range(12)])


async def test_a_history_of_more_than_16_mib_is_read(server_url: str) -> None:
    async with App(server_url) as app, app.worker(workflows=[reading_much]):
        run = await app.start(reading_much)
        await run.result(timeout="60s")
        assert len([event for event in await run.history() if event.name == "read_much"]) == 12


async def test_times_of_a_schedule_have_its_zone(server_url: str) -> None:
    async with App(server_url) as app:
        created = await app.schedules.create(
            "daily", double, [1], cron="0 9 * * *", zone="Europe/Berlin"
        )
        found = await app.schedules.get("daily")
        [listed] = await app.schedules.list()
        end = datetime.now(UTC)
        start = end - timedelta(days=2)
        filled = await app.schedules.backfill("daily", start, end)
        slots = await app.schedules.slots("daily")
        times = [created.next_at, found.next_at, listed.next_at]
        times += [each.at for each in (*filled, *slots)]
        assert len(times) == 3 + 2 + 2
        assert {str(each.tzinfo) for each in times if each} == {"Europe/Berlin"}


async def test_a_caller_that_waits_for_a_result_when_the_app_is_closed_is_told(
    server_url: str, tmp_path: Path
) -> None:
    for url in (server_url, str(tmp_path / "own.db")):
        async with App(url) as app:
            run = await app.start(waiting)
            result = asyncio.ensure_future(run.result())
            await asyncio.sleep(0)
        with pytest.raises(NotOpen, match="was closed while this call was waiting"):
            await result


FORKING = """
import os, sys
from onward import App
from onward.errors import StoreUnusable

def opens():
    with App(sys.argv[1]).sync() as app:
        return app.counts()

def in_child():
    child = os.fork()
    if not child:
        try:
            print(opens(), flush=True)
        except StoreUnusable as refusal:
            print(refusal, flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

with App(sys.argv[1]).sync() as app:
    in_child()
    print(app.counts(), flush=True)
"""


async def test_a_process_forked_from_one_with_an_open_app_cannot_connect(server_url: str) -> None:
    made = await asyncio.create_subprocess_exec(
        sys.executable, "-c", FORKING, server_url, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(60):
        out, _ = await made.communicate()
    refusal, counts = out.decode().splitlines()
    assert "fork before you open one" in refusal
    assert counts == "{}"
