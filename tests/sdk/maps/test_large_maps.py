"""Maps whose results are large: a chunk returns what it has, and others do the rest."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from onward import Retry, Signal, Workflow, step, workflow
from tests.kit.watching import until_state, working

if TYPE_CHECKING:
    from onward import App

NAMES = [f"{n:02}" for n in range(40)]
SIZE = 300
done: Counter[str] = Counter()
broken: set[str] = set()
go = Signal("go", str)


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.runtime.body.chunks.MAX_BYTES", 1000)
    done.clear()
    broken.clear()


@step(retry=Retry(attempts=1))
async def blob(name: str) -> str:
    done[name] += 1
    if name in broken:
        raise ConnectionError(f"{name} is broken")
    return name * (SIZE // len(name))


@workflow
async def child(name: str) -> str:
    return await blob(name)


@workflow
async def in_order() -> list[str]:
    return [text[:2] for text in await blob.map(NAMES, limit=4)]


@workflow
async def one_by_one() -> list[str]:
    found: list[str] = []
    async for text in blob.map(NAMES, limit=4):
        if len(found) == len(NAMES) // 2:
            await go.wait()  # so that the rest is replayed
        found.append(text[:2])
    return found


@workflow
async def by_key() -> list[str]:
    return [text[:2] for text in await blob.map(NAMES, limit=4, key=str)]


@workflow
async def children() -> list[str]:
    return [text[:2] for text in await child.map(NAMES, limit=4)]


@pytest.mark.parametrize("shape", [in_order, by_key, children], ids=lambda w: w.definition.name)
async def test_all_items_are_done_once_and_come_back_in_order(
    app: App, shape: Workflow[[], list[str]]
) -> None:
    async with working(app):
        run = await app.start(shape)
        assert await run.result(timeout="30s") == NAMES
        history = (await app._store.history([run.uid]))[run.uid]
        largest = max(len(row.payload or b"") for row in history)
        assert largest < 1000 + 4 * (SIZE + 20)  # what was under way comes on top
    assert done == dict.fromkeys(NAMES, 1)


async def test_a_map_is_gone_through_one_by_one_also_after_its_body_was_put_away(app: App) -> None:
    async with working(app, warm=0):
        run = await app.start(one_by_one)
        await until_state(run, "waiting")
        await run.signal(go, "on")
        assert await run.result(timeout="30s") == NAMES
    assert done == dict.fromkeys(NAMES, 1)


@workflow
async def some_fail(keyed: bool) -> list[str]:
    key = str if keyed else None
    found = await blob.map(NAMES, limit=4, return_exceptions=True, key=key)
    failed = [each for each in found if isinstance(each, BaseException)]
    if failed:
        raise RuntimeError(f"{len(failed)} failed")
    return [str(text)[:2] for text in found]


@pytest.mark.parametrize("keyed", [False, True])
async def test_a_retry_does_only_the_failed_items_again(app: App, keyed: bool) -> None:
    broken.update(("03", "17", "38"))
    async with working(app):
        run = await app.start(some_fail, keyed)
        await until_state(run, "failed")
        broken.clear()
        assert await (await app.retry(run.id)).result(timeout="30s") == NAMES
    assert done == {**dict.fromkeys(NAMES, 1), "03": 2, "17": 2, "38": 2}
