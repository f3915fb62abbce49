"""Maps with keys: results are found again by what an item is about, wherever it stands."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from onward import Retry, Signal, register_error, step, workflow
from onward.core.digest import digest
from onward.errors import BadInput, RunFailed
from tests.kit.watching import children_of, until, until_idle, until_open

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward import App, Run, Workflow

resume_list = Signal("resume list", int)
priced: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _nothing_priced() -> None:
    priced.clear()


@register_error
class Unpriced(Exception):
    """An error that comes back as itself."""


@step(retry=Retry(attempts=1))
async def priced_item(item: str) -> str:
    priced[item] += 1
    if item.startswith("bad"):
        raise Unpriced(item)
    return f"{item} costs {len(item)}"


@step
async def noted_after(text: str) -> str:
    priced[text] += 1
    return text


@workflow
async def priced_order(item: str) -> str:
    return await priced_item(item)


def itself(item: str) -> str:
    return item


def code(items: list[str], mapped: Any, limit: int = 4) -> Workflow[[], list[str]]:
    """Return a workflow as one deploy has it: always of the same name, with a list of its own."""

    @workflow(name="price list")
    async def price_list() -> list[str]:
        found: list[str] = await mapped.map(items, key=itself, limit=limit)
        after = await asyncio.gather(noted_after("one"), noted_after("other"))
        await resume_list.wait()
        again = await mapped.map([items[0]], key=itself, limit=4)
        return [*found, *after, *again]

    return price_list


ITEMS = [f"item {n}" for n in range(12)]
CHANGES: dict[str, Callable[[list[str]], list[str]]] = {
    "the same": list,
    "reordered": lambda items: items[::-1],
    "filtered": lambda items: items[3:],
    "all but one gone": lambda items: items[5:6],
    "extended": lambda items: ["new", *items[::-1], "newer"],
    "filtered and extended": lambda items: ["new", *items[6:], "newer"],
}


def expected(items: list[str]) -> list[str]:
    found = [f"{item} costs {len(item)}" for item in items]
    return [*found, "one", "other", found[0]]


@pytest.mark.parametrize(
    ("change", "mapped"),
    [*((change, priced_item) for change in CHANGES), ("filtered and extended", priced_order)],
)
async def test_a_list_that_is_changed_by_a_deploy_keeps_its_results(
    app: App, change: str, mapped: Any
) -> None:
    old, new = code(ITEMS, mapped), code(CHANGES[change](ITEMS), mapped)
    beside = [priced_order]
    async with app:
        async with app.worker(workflows=[old, *beside]):
            run = await app.start(old)
            await until_open(run, "resume list")
        assert set(priced.values()) == {1}
        async with app.worker(workflows=[new, *beside]):
            await run.signal(resume_list, 1)
            changed = CHANGES[change](ITEMS)

            assert await run.result(timeout="60s") == expected(changed)
            again = changed[0]  # that map has a place of its own in the code
            assert {item for item, times in priced.items() if times > 1} == {again}
            await until_idle(app)


async def test_a_list_that_is_changed_while_it_is_worked_through_keeps_what_was_done(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    monkeypatch.setattr(f"{__name__}.gates", {"item 3": gate, "item 7": gate})
    old, new = code(ITEMS, gated_item, 48), code(["new", *ITEMS[::-1]], gated_item, 48)
    async with app:
        working = asyncio.create_task(work(app, old))
        run = await app.start(old)
        await until(lambda: has_recorded(app, run, len(ITEMS) - 2))
        working.cancel()  # what was under way is not known to have been done
        await asyncio.wait([working])
        gate.set()
        async with app.worker(workflows=[new]):
            await run.signal(resume_list, 1)
            found = await run.result(timeout="60s")
            assert found[:-3] == [f"{item}!" for item in ["new", *ITEMS[::-1]]]
            assert {item for item, times in priced.items() if times > 1} == {
                "item 3",
                "item 7",
                "new",
            }
            await until_idle(app)


async def work(app: App, code: Workflow[[], list[str]]) -> None:
    async with app.worker(workflows=[code]):
        await asyncio.Event().wait()


async def has_recorded(app: App, run: Run[Any], count: int) -> bool:
    """Say whether so many items of a map are done, and known to be."""
    chunks = [chunk.uid for chunk in await children_of(app, run)]
    rows = [row for rows in (await app._store.history(chunks)).values() for row in rows]
    return len([row for row in rows if row.seq is not None]) == count


gates: dict[str, asyncio.Event] = {}


@step
async def gated_item(item: str) -> str:
    priced[item] += 1
    if item in gates:
        await gates[item].wait()
    return f"{item}!"


@workflow
async def map_by_key(items: list[str]) -> list[str]:
    return await priced_item.map(items, key=itself)


async def test_keys_that_are_not_unique_are_refused(app: App) -> None:
    async with app, app.worker():
        with pytest.raises(RunFailed, match="the keys of a map are not unique"):
            await app.run(map_by_key, ["a", "b", "a"])
        assert priced == {}
    with pytest.raises(BadInput, match="not unique"):
        await priced_item.map(["a", "a"], key=itself)


async def test_a_key_is_text(app: App) -> None:
    with pytest.raises(BadInput, match="the key of an item is of type int"):
        await priced_item.map(["a"], key=len)  # type: ignore[arg-type] # that is the test
    with pytest.raises(BadInput, match="the key of an item is empty"):
        await priced_item.map([""], key=itself)


async def test_any_text_may_be_a_key(app: App) -> None:
    items = [":" * 512, "a=b#c.d@e~f%g", "é" * 200, "map 0", "0", "%3A"]
    async with app, app.worker(warm=0):
        run = await app.start(map_by_key, items)
        assert await run.result(timeout="60s") == [f"{item} costs {len(item)}" for item in items]
        assert set(priced.values()) == {1}
        await until_idle(app)


async def test_a_map_by_key_may_be_empty_or_have_one_item(app: App) -> None:
    async with app, app.worker():
        assert await app.run(map_by_key, []) == []
        assert await app.run(map_by_key, ["one"]) == ["one costs 3"]


@workflow
async def map_many_by_key(count: int) -> int:
    found = await priced_item.map([str(n) for n in range(count)], key=itself)
    assert found == [f"{n} costs {len(str(n))}" for n in range(count)]
    return len(found)


async def test_no_chunk_of_a_map_by_key_is_too_large(app: App) -> None:
    async with app, app.worker():
        run = await app.start(map_many_by_key, 2000)

        assert await run.result(timeout="60s") == 2000
        assert set(priced.values()) == {1}
        chunks = await children_of(app, run)
        sizes = [len(await (await app.get(chunk.id)).history()) for chunk in chunks]
        assert max(sizes) <= 500
        assert sum(sizes) == 2000
        await until_idle(app)


@workflow
async def map_bad_by_key(items: list[str]) -> str:
    try:
        await priced_item.map(items, key=itself, limit=2)
    except Unpriced as unpriced:
        return str(unpriced)
    return "all well"


@workflow
async def map_all_by_key(items: list[str]) -> list[str]:
    found = await priced_item.map(items, key=itself, return_exceptions=True)
    return [f"{type(each).__name__}: {each}" for each in found]


async def test_an_error_in_a_map_by_key_is_raised_and_the_rest_is_cancelled(app: App) -> None:
    bad = next(f"bad {n}" for n in range(99) if int(digest(f"bad {n}"), 16) % 4 == 0)
    items = [bad, *(f"item {n}" for n in range(1500))]  # four buckets, and it is in the first
    async with app, app.worker():
        run = await app.start(map_bad_by_key, items)
        assert await run.result(timeout="60s") == bad
        await until_idle(app)
        assert sum(priced.values()) < 1500


async def test_errors_may_stand_among_the_results_of_a_map_by_key(app: App) -> None:
    async with app, app.worker(warm=0):
        assert await app.run(map_all_by_key, ["a", "bad b", "c"]) == [
            "str: a costs 1",
            "Unpriced: bad b",
            "str: c costs 1",
        ]
