"""Hints through Redis: other processes hear at once; without it everything goes on."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from onward import App, Signal, workflow
from onward.core.instant import SECOND
from onward.errors import BadInput, StoreUnusable
from onward.store import open_store
from onward.store import redis as carrying
from onward.store.hints import ANYTHING, packed, queue_subject
from onward.store.invariants import check
from onward.store.sqlite import watch
from tests.conformance.suite.samples import a_run
from tests.kit.leaks import shown
from tests.redis.server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from onward.store import Store
    from onward.store.hints import Subscription

LONG = 20.0  # seconds: only a failing test waits that long
QUEUE = queue_subject("default")

number = Signal("number", int)


@workflow
async def double(n: int) -> int:
    return 2 * n


@workflow
async def add(count: int) -> int:
    return sum([await number.wait() for _ in range(count)])


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(carrying, "_RECONNECT_SECONDS", 0.02)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "onward.store"]


# --- heard ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_polls")
async def test_starts_signals_and_ends_are_heard_by_other_apps(
    deaf_url: str, redis: RedisServer
) -> None:
    client, other = (App(deaf_url, hints=redis.url) for _ in range(2))
    async with client, other, other.worker(workflows=[double, add]):
        await redis.until_heard_by(2)
        async with asyncio.timeout(LONG):
            assert await client.run(double, 21) == 42
            run = await client.start(add, 3)
            for n in (1, 2, 3):
                await run.signal(number, n)
            assert await run.result() == 6


@pytest.mark.usefixtures("no_polls")
async def test_without_redis_nobody_hears_there(deaf_url: str) -> None:
    client, other = App(deaf_url), App(deaf_url)
    async with client, other, other.worker(workflows=[double]):
        with pytest.raises(TimeoutError):
            await some_are_heard(client)


async def some_are_heard(client: App) -> None:
    """Wait for some runs; a worker that has just come may find the first by itself."""
    for _ in range(5):
        await (await client.start(double, 21)).result(timeout="300ms")


async def test_many_who_wait_share_one_subscription(deaf_url: str, redis: RedisServer) -> None:
    client, other = (App(deaf_url, hints=redis.url) for _ in range(2))
    async with client, other, other.worker(workflows=[add]), asyncio.timeout(LONG):
        await redis.until_heard_by(2)
        runs = [await client.start(add, 1) for _ in range(20)]
        waits = [asyncio.create_task(run.result()) for run in runs]
        await asyncio.wait(waits, timeout=0)
        assert redis.listeners() == 2
        for run in runs:
            await run.signal(number, 7)
        assert await asyncio.gather(*waits) == [7] * 20


WORKER = """
import asyncio, sys
import onward
from onward.engine import results
from onward.runtime.worker import claiming
from onward.store.sqlite import watch

claiming.POLL_SECONDS = results.POLL_SECONDS = 3600
watch.LOOK_EVERY = watch.LOOK_EVERY_WHILE_ACTIVE = 3600_000_000

@onward.workflow
async def double(n: int) -> int:
    return 2 * n

async def main() -> None:
    app = onward.App(sys.argv[1], hints=sys.argv[2])
    async with app, app.worker():
        await asyncio.to_thread(sys.stdin.read)

asyncio.run(main())
"""


@pytest.fixture(params=["file", "postgres"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return str(tmp_path / "app.db")
    url: str = request.getfixturevalue("deaf_url")
    return url


@pytest.mark.usefixtures("no_polls")
async def test_another_process_hears(
    shared: str, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LOOK_EVERY", "LOOK_EVERY_WHILE_ACTIVE"):  # nothing looks at the file either
        monkeypatch.setattr(watch, name, 3600 * SECOND)
    async with App(shared, hints=redis.url) as client:
        with worker_process(shared, redis.url):
            await redis.until_heard_by(2)
            async with asyncio.timeout(LONG):
                runs = [await client.start(double, n) for n in range(5)]
                assert [await run.result() for run in runs] == [0, 2, 4, 6, 8]


@contextmanager
def worker_process(url: str, redis: str) -> Iterator[None]:
    command = [sys.executable, "-c", WORKER, url, redis]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()  # it leaves then
            try:
                assert process.wait(LONG) == 0
            finally:
                process.kill()


async def test_it_is_reached_over_tcp_too(deaf_url: str) -> None:
    with RedisServer(tcp=True) as server:
        async with App(deaf_url, hints=f"redis://127.0.0.1:{server.port}/0"):
            await server.until_heard_by(1)


async def test_what_a_store_told_itself_is_not_told_to_it_again(
    deaf_url: str, redis: RedisServer
) -> None:
    subjects = [queue_subject(queue) for queue in ("one", "two")]
    async with (
        open_store(deaf_url, hints=redis.url) as ours,
        open_store(deaf_url, hints=redis.url) as theirs,
    ):
        await redis.until_heard_by(2)
        with ours.subscribe(subjects) as ours_heard, theirs.subscribe(subjects) as theirs_heard:
            await ours.start(a_run("a")._replace(queue="one"))
            assert await hear(ours_heard) == {"queue:one"}
            assert await hear(theirs_heard) == {"queue:one"}  # so it has been sent to both by now
            await theirs.start(a_run("b")._replace(queue="two"))
            assert await hear(ours_heard) == {"queue:two"}


async def test_nothing_is_heard_of_another_namespace(deaf_url: str, redis: RedisServer) -> None:
    def store(namespace: str) -> Store:
        return open_store(deaf_url, namespace=namespace, hints=redis.url)

    subjects = [queue_subject(queue) for queue in ("one", "two")]
    async with store("a") as a, store("a") as other_a, store("b") as b, store("b") as other_b:
        await redis.until_heard_by(4)
        with other_a.subscribe(subjects) as ear_a, other_b.subscribe(subjects) as ear_b:
            await a.start(a_run("a")._replace(queue="one"))
            assert await hear(ear_a) == {"queue:one"}
            await b.start(a_run("b")._replace(queue="two"))
            assert await hear(ear_b) == {"queue:two"}


async def hear(subscription: Subscription) -> set[str]:
    """Return the next that is heard, but for what is always rung when listening begins."""
    while not (heard := await subscription.wait(LONG) - {ANYTHING}):
        pass
    return heard


# --- away -----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
async def test_everything_goes_on_while_redis_is_not_there_yet(
    deaf_url: str, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "onward.store")
    redis.kill()
    app = App(deaf_url, hints=redis.url)
    async with app, app.worker(workflows=[double]):
        for n in range(50):  # meanwhile it is tried often, and one line is logged
            assert await app.run(double, n) == 2 * n
        assert [line.partition(" error=")[0] for line in told(caplog)] == [
            f"redis away: address={redis.url}"
        ]
        redis.start()
        await redis.until_heard_by(1)
        assert await app.run(double, 4) == 8
    assert told(caplog)[1:] == [f"redis back: address={redis.url}"]


@pytest.mark.usefixtures("quick")
async def test_nothing_is_lost_when_redis_dies_and_comes_back(
    deaf_url: str, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    client, other = (App(deaf_url, hints=redis.url) for _ in range(2))
    async with client, other, other.worker(workflows=[double, add]):
        await redis.until_heard_by(2)
        waiting = await client.start(add, 3)
        for n in (1, 2, 3):
            runs = [await client.start(double, m) for m in range(20)]
            redis.kill()
            await waiting.signal(number, n)
            runs += [await client.start(double, m) for m in range(20, 40)]
            assert [await run.result(timeout=LONG) for run in runs] == [2 * m for m in range(40)]
            redis.start()
            await redis.until_heard_by(2)
        assert await waiting.result(timeout=LONG) == 6
        assert await check(client._store) == []
    assert (
        len([line for line in told(caplog) if "redis away" in line]) == 6
    )  # two apps, three times


@pytest.mark.usefixtures("no_polls", "quick")
async def test_after_it_came_back_hints_go_through_it_again(
    deaf_url: str, redis: RedisServer
) -> None:
    client, other = (App(deaf_url, hints=redis.url) for _ in range(2))
    async with client, other, other.worker(workflows=[double]):
        await redis.until_heard_by(2)
        redis.kill()
        redis.start()
        await redis.until_heard_by(2)
        async with asyncio.timeout(LONG):
            for n in range(5):
                assert await client.run(double, n) == 2 * n


@pytest.mark.usefixtures("quick")
async def test_whoever_listens_again_looks_for_what_nobody_told_it(
    deaf_url: str, redis: RedisServer
) -> None:
    async with open_store(deaf_url, hints=redis.url) as store:
        assert store._redis is not None
        await store._redis.ready.wait()
        with store.subscribe(["queue:default"]) as subscription:
            redis.kill()
            redis.start()
            assert await subscription.wait(LONG) == {ANYTHING}


@pytest.mark.usefixtures("quick")
async def test_views_hear_their_own_namespace_through_one_redis(
    deaf_url: str, redis: RedisServer
) -> None:
    async with (
        open_store(deaf_url, hints=redis.url) as store,
        open_store(deaf_url, namespace="one", hints=redis.url) as other,
    ):
        assert store._redis is not None
        await store._redis.ready.wait()
        async with store.view("one") as one, store.view("two") as two:
            with one.subscribe([QUEUE]) as first, two.subscribe([QUEUE]) as second:
                await redis.until_heard_by(4)
                await other.start(a_run("a"))
                async with asyncio.timeout(LONG):
                    while QUEUE not in await first.wait(LONG):
                        pass
                assert QUEUE not in await second.wait(0)
                redis.kill()
                redis.start()
                assert await first.wait(LONG) == {ANYTHING}
                assert await second.wait(LONG) == {ANYTHING}


async def test_a_redis_that_does_not_answer_holds_nobody_up(
    deaf_url: str, redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(carrying, "_QUIET_SECONDS", 0.05)
    app = App(deaf_url, hints=redis.url)
    async with asyncio.timeout(LONG), app, app.worker(workflows=[double]):
        await redis.until_heard_by(1)
        redis.freeze()
        carrier = app._store._redis
        assert carrier is not None
        assert await app.run(double, 21) == 42
        while carrier.ready.is_set():  # noqa: ASYNC110 - it finds out by itself
            await asyncio.sleep(0.01)
        assert await app.run(double, 4) == 8


# --- set-up ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["", "here", "http://host", "redis://host:port/0"])
def test_an_address_that_is_not_one_of_a_redis_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match="Use redis://host:6379/0"):
        App(":memory:", hints=url)


@pytest.mark.parametrize(
    "url",
    [
        "redis://:secret@host:port/0",
        "redis://:77/secret@host",
        "redis://h#secret",
        "redis://[secret",
    ],
)
def test_an_address_that_is_refused_shows_no_password(url: str) -> None:
    with pytest.raises(BadInput) as refused:
        App(":memory:", hints=url)

    assert "secret" not in shown(refused.value)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(StoreUnusable, match=r"pip install 'onward\[redis\]'"):
        App(":memory:", hints="redis://host")


@pytest.mark.usefixtures("quick")
async def test_no_password_is_logged(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    url = f"unix://ada:secret@{tmp_path}/none.sock?password=secret"
    async with App(":memory:", hints=url):
        while not told(caplog):  # noqa: ASYNC110 - it finds out by itself
            await asyncio.sleep(0.005)
    [line] = told(caplog)
    assert f"redis away: address=unix://{tmp_path}/none.sock" in line
    assert "secret" not in caplog.text


def test_too_many_subjects_become_one_that_stands_for_all() -> None:
    assert packed([{"run:a"}, {"run:b", "run:a"}], 100) == "run:a\nrun:b"
    assert packed([{f"run:{number}" for number in range(100)}], 100) == ANYTHING
