"""An app that is opened and closed: by several at once, in several loops, and in a fork."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path  # noqa: TC003 - pytest's own annotations
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, workflow
from onward.errors import BadInput, BadStoreUrl, StoreUnusable

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@workflow
async def twice(n: int) -> int:
    return 2 * n


async def test_an_app_that_several_open_at_once_is_one_app(app: App) -> None:
    async def use(n: int) -> int:
        async with app, app.worker():
            return await app.run(twice, n)

    assert await asyncio.gather(*map(use, range(5))) == [0, 2, 4, 6, 8]


async def test_an_app_that_one_leaves_while_another_comes_stays_open(app: App) -> None:
    async def use(n: int) -> str:
        async with app:
            return (await app.start(twice, n)).id

    async with asyncio.TaskGroup() as group:
        for n in range(20):
            group.create_task(use(n))
            await asyncio.sleep(0)


async def test_an_open_app_is_refused_in_another_loop(app: App) -> None:
    async def come_in() -> None:
        async with app:
            pass

    def elsewhere(work: Any) -> BadInput:
        with pytest.raises(BadInput, match="Create a separate App") as refused:
            asyncio.run(work)
        return refused.value

    async with app:
        await asyncio.to_thread(elsewhere, come_in())
        await asyncio.to_thread(elsewhere, app.start(twice, 1))
        assert (await app.start(twice, 1)).id


def test_an_app_may_be_used_in_one_loop_after_another(tmp_path: Path) -> None:
    app = App(tmp_path / "app.db")

    async def use() -> list[int]:
        async with app, app.worker():
            return await asyncio.gather(*(app.run(twice, n) for n in range(3)))

    assert asyncio.run(use()) == asyncio.run(use()) == [0, 2, 4]


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_process_gets_an_error_from_its_parents_app(tmp_path: Path) -> None:
    app = App(tmp_path / "app.db")
    opened, over = threading.Event(), threading.Event()

    async def keep_open() -> None:
        async with app:
            opened.set()
            await asyncio.to_thread(over.wait)

    keeper = threading.Thread(target=asyncio.run, args=(keep_open(),))
    keeper.start()
    opened.wait()
    child = os.fork()
    if not child:
        try:
            asyncio.run(app.start(twice, 1))
        except StoreUnusable:
            os._exit(7)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    over.set()
    keeper.join()
    assert os.waitstatus_to_exitcode(status) == 7


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_refused_at_once_whatever_it_does_with_the_app(tmp_path: Path) -> None:
    with App(tmp_path / "app.db").sync() as app, app.worker(workflows=[twice]):
        run = app.start(twice, 4)

        said = in_a_fork(
            lambda: app.run(twice, 1),
            run.result,
            lambda: asyncio.run(entered(App(tmp_path / "app.db"))),
        )

        assert [text.partition(",")[0] for text in said] == [
            f"a sync App was opened by process {os.getpid()}",
            f"a sync App was opened by process {os.getpid()}",
            f"{tmp_path}/app.db was opened by process {os.getpid()}",
        ]
        assert app.run(twice, 5) == run.result() + 2 == 10


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
async def test_a_forked_child_that_waits_for_a_run_of_its_parent_is_refused_at_once(
    tmp_path: Path,
) -> None:
    app = App(tmp_path / "app.db")
    async with app, app.worker(workflows=[twice]):
        run = await app.start(twice, 4)
        await run.result()

        said = in_a_fork(lambda: asyncio.run(awaited(run.result())))

        assert [text.partition(",")[0] for text in said] == [
            f"{tmp_path}/app.db was opened by process {os.getpid()}"
        ]


async def awaited(work: Awaitable[Any]) -> None:
    async with asyncio.timeout(60):
        await work


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_may_open_a_file_that_was_closed_before(tmp_path: Path) -> None:
    with App(tmp_path / "app.db").sync() as app, app.worker(workflows=[twice]):
        app.run(twice, 1)

    assert in_a_fork(lambda: asyncio.run(entered(App(tmp_path / "app.db")))) == [""]


async def entered(app: App) -> None:
    async with app:
        await app.runs()


def in_a_fork(*acts: Callable[[], Any]) -> list[str]:
    """Return what each act raises in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            said = [refusal_of(act) for act in acts]
            os.write(writer, "\n".join(said).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as text:
        said = text.read().split("\n")
    os.waitpid(child, 0)
    return said


def refusal_of(act: Callable[[], Any]) -> str:
    try:
        act()
    except StoreUnusable as refusal:
        return str(refusal)
    return ""


@pytest.mark.parametrize("url", [None, 3])
def test_what_is_no_address_is_refused(url: Any) -> None:
    with pytest.raises(BadStoreUrl, match="not str"):
        App(url)


@pytest.mark.parametrize("namespace", ["", "a:b", "a\nb"])
def test_a_namespace_that_could_be_mistaken_is_refused(namespace: str) -> None:
    with pytest.raises(BadInput, match="namespace"):
        App(":memory:", namespace=namespace)
