"""Maps whose results are too large together for one chunk: the run reads the others later."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter
from random import Random
from typing import TYPE_CHECKING

import pytest

from onward import Retry, Signal, Workflow, step, workflow
from onward.errors import RunCancelled
from onward.wire.rpc import MAX_COMMIT_BYTES
from tests.kit.watching import until_state, working

if TYPE_CHECKING:
    from onward import App, Run

NAMES = [f"{n:02}" for n in range(24)]
LIMIT = 24
"""All calls are under way before the first of them ends."""

SIZE = 300
MOST = 1000
"""How many bytes a chunk may return in these tests."""

done: Counter[str] = Counter()
broken: set[str] = set()
go = Signal("go", str)


@pytest.fixture
def _little_room(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("chunk_data", "chunks", "held_results"):
        monkeypatch.setattr(f"onward.runtime.body.{module}.MAX_RETURNED", MOST)
    monkeypatch.setattr("onward.runtime.body.chunk_data.OVERHEAD", 0)
    monkeypatch.setattr("onward.runtime.body.chunks.MAX_BYTES", 500)
    monkeypatch.setattr("onward.runtime.body.chunks.MAX_SMALL", 10)


little_room = pytest.mark.usefixtures("_little_room")


@pytest.fixture(autouse=True)
def _new_world() -> None:
    done.clear()
    broken.clear()


@step(retry=Retry(attempts=1))
async def slab(name: str) -> str:
    done[name] += 1
    if name in broken:
        raise ConnectionError(f"{name} is broken")
    return name * (SIZE // len(name))


@step(queue="default")
async def slab_away(name: str) -> str:
    return await slab(name)


@workflow
async def slab_run(name: str) -> str:
    return await slab(name)


@workflow
async def held_in_order() -> list[str]:
    return [text[:2] for text in await slab.map(NAMES, limit=LIMIT)]


@workflow
async def held_one_by_one() -> list[str]:
    found: list[str] = []
    async for text in slab.map(NAMES, limit=LIMIT):
        if len(found) in (5, 17):
            await go.wait()  # so that the rest is replayed
        found.append(text[:2])
    return found


@workflow
async def held_by_key() -> list[str]:
    return [text[:2] for text in await slab.map(NAMES, limit=LIMIT, key=str)]


@workflow
async def held_children() -> list[str]:
    return [text[:2] for text in await slab_run.map(NAMES, limit=LIMIT)]


@workflow
async def held_away() -> list[str]:
    return [text[:2] for text in await slab_away.map(NAMES, limit=LIMIT)]


@workflow
async def held_with_failures(keyed: bool) -> list[str]:
    key = str if keyed else None
    found = await slab.map(NAMES, limit=LIMIT, return_exceptions=True, key=key)
    failed = [each for each in found if isinstance(each, BaseException)]
    if failed:
        raise RuntimeError(f"{len(failed)} failed")
    return [str(text)[:2] for text in found]


@workflow
async def held_to_the_first_failure(keyed: bool) -> list[str]:
    found = await slab.map(NAMES, limit=LIMIT, key=str if keyed else None)
    return [text[:2] for text in found]


async def largest_of(app: App, run: Run[list[str]]) -> int:
    """Return the size of the largest record; results were read of chunks at least once."""
    history = (await app._store.history([run.uid]))[run.uid]
    assert any(row.name == "read map" for row in history)
    return max(len(row.payload or b"") for row in history)


SHAPES = [held_in_order, held_by_key, held_children, held_away]


@little_room
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.definition.name)
async def test_no_chunk_returns_too_much_and_no_item_is_done_twice(
    app: App, shape: Workflow[[], list[str]]
) -> None:
    async with working(app, warm=0):
        run = await app.start(shape)
        assert await run.result(timeout="30s") == NAMES
        assert await largest_of(app, run) < 2 * MOST  # with places, and the names of fields
    assert done == dict.fromkeys(NAMES, 1)


@little_room
async def test_held_results_are_read_in_the_course_of_the_map_and_replayed(app: App) -> None:
    async with working(app, warm=0):
        run = await app.start(held_one_by_one)
        await until_state(run, "waiting")
        await run.signal(go, "on")
        await run.signal(go, "on")
        assert await run.result(timeout="30s") == NAMES
        await largest_of(app, run)
    assert done == dict.fromkeys(NAMES, 1)


@little_room
@pytest.mark.parametrize("keyed", [False, True])
async def test_retries_do_the_failed_items_again_and_read_what_the_first_run_has(
    app: App, keyed: bool
) -> None:
    broken.update(("01", "09", "22"))
    async with working(app):
        run = await app.start(held_with_failures, keyed)
        await until_state(run, "failed")
        broken.discard("01")
        await until_state(await app.retry(run.id), "failed")
        broken.clear()
        third = await app.retry(run.id)
        assert await third.result(timeout="30s") == NAMES
        await largest_of(app, third)
    assert done == {**dict.fromkeys(NAMES, 1), "01": 2, "09": 3, "22": 3}


@little_room
@pytest.mark.parametrize("keyed", [False, True])
async def test_a_run_that_failed_with_its_first_item_is_retried(app: App, keyed: bool) -> None:
    broken.add("09")
    async with working(app):
        run = await app.start(held_to_the_first_failure, keyed)
        await until_state(run, "failed")
        broken.clear()
        assert await (await app.retry(run.id)).result(timeout="30s") == NAMES


@little_room
async def test_a_fork_reads_the_results_of_the_forked_run(app: App) -> None:
    async with working(app):
        run = await app.start(held_in_order)
        assert await run.result(timeout="30s") == NAMES
        history = (await app._store.history([run.uid]))[run.uid]
        last = [row.identity for row in history if row.name == "read map"][-1]
        fork = await app.fork(run.id, last, new_id="fork")
        assert await fork.result(timeout="30s") == NAMES
    assert done == dict.fromkeys(NAMES, 1)


@little_room
async def test_a_map_is_cancelled_with_results_left_to_read(app: App) -> None:
    async with working(app):
        run = await app.start(held_one_by_one)
        await until_state(run, "waiting")
        await run.cancel()
        with pytest.raises(RunCancelled):
            await run.result(timeout="30s")
    assert done == dict.fromkeys(NAMES, 1)


class Verbose(Exception):
    pass


@step(retry=Retry(attempts=1))
async def lament(n: int) -> str:
    raise Verbose(f"{n}: " + "so it is " * 400)


@workflow
async def held_errors() -> list[str]:
    found = await lament.map(range(20), limit=80, return_exceptions=True)
    return [str(error)[:90] for error in found]


async def test_large_errors_are_shortened_so_that_the_chunk_can_return_them(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.runtime.body.chunks.MAX_ERRORS", 4000)
    async with working(app):
        run = await app.start(held_errors)
        found = await run.result(timeout="30s")
        history = (await app._store.history([run.uid]))[run.uid]
    assert [f"{n}: so it is" in text for n, text in enumerate(found)] == [True] * 20
    # Per chunk: one that reaches the limit, and four that are shortened.
    assert max(len(row.payload or b"") for row in history) < 15_000


def text_of(page: int) -> str:
    """Return a text of a megabyte and a half, which compression makes only a little smaller."""
    return f"{page:02}" + b64encode(Random(page).randbytes(1_125_000)).decode()


@step
async def page(n: int) -> str:
    await asyncio.sleep(0)
    return text_of(n)


@workflow
async def many_pages(keyed: bool) -> int:
    pages = await page.map(range(30), key=str if keyed else None)
    return sum(len(text) * int(text[:2]) for text in pages)


@pytest.mark.parametrize("keyed", [False, True])
async def test_thirty_results_of_a_megabyte_and_a_half(app: App, keyed: bool) -> None:
    async with working(app):
        run = await app.start(many_pages, keyed)
        assert await run.result(timeout="60s") == 1_500_002 * sum(range(30))
        history = (await app._store.history([run.uid]))[run.uid]
    assert max(len(row.payload or b"") for row in history) < MAX_COMMIT_BYTES
