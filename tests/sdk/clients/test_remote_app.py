"""An App behind a server: what differs from one with a database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, Signal, workflow
from onward.errors import BadInput, BadStoreUrl, StoreUnusable, Unavailable
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
