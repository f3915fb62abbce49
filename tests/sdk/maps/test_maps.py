"""`map` and `starmap`: every item once, in order, never more at a time than allowed."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import Retry, Signal, register_error, step, workflow
from onward.errors import BadInput, Unencodable
from tests.kit.watching import children_of, until, until_idle, until_open, until_state

if TYPE_CHECKING:
    from onward import App

let_go = Signal("let go", int)


class Gauge:
    """How many are under way, and the most that ever were."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.done: list[Any] = []
        self._lock = threading.Lock()

    def enter(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def leave(self, item: Any) -> None:
        with self._lock:
            self.now -= 1
            self.done.append(item)


gauge = Gauge()


@pytest.fixture(autouse=True)
def _new_gauge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.gauge", Gauge())


@register_error
class Spoiled(Exception):
    """An error that comes back as itself."""


@step
async def squared(n: int) -> int:
    gauge.enter()
    await asyncio.sleep(0)
    gauge.leave(n)
    return n * n


@step
def squared_in_thread(n: int) -> int:
    gauge.enter()
    gauge.leave(n)
    return n * n


@step(queue="away")
async def squared_away(n: int) -> int:
    return n * n


@step(retry=Retry(attempts=1))
async def squared_if_even(n: int) -> int:
    gauge.enter()
    gauge.leave(n)
    if n % 2:
        raise Spoiled(n)
    return n * n


@step
async def joined(left: str, right: str = "!") -> str:
    return left + right


@step
async def lengthened(size: int) -> str:
    return "x" * size


@workflow
async def squared_by_child(n: int) -> int:
    return await squared(n)


@workflow
async def map_steps(items: list[int], limit: int) -> list[int]:
    return await squared.map(items, limit=limit)


@workflow
async def map_children(items: list[int], limit: int) -> list[int]:
    return await squared_by_child.map(items, limit=limit)


@workflow
async def map_in_threads(items: list[int], limit: int) -> list[int]:
    return await squared_in_thread.map(items, limit=limit)


@workflow
async def map_away(items: list[int], limit: int) -> list[int]:
    return await squared_away.map(items, limit=limit)


WAYS = [map_steps, map_children, map_in_threads, map_away]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: str(way.name))
async def test_results_come_in_the_order_of_the_items(
    app: App, way: onward.Workflow[[list[int], int], list[int]]
) -> None:
    async with app, app.worker(slots=1, queues=["default", "away"]):
        for items in ([], [3], [5, 1, 4, 1, 5], list(range(25))):
            assert await app.run(way, items, 3) == [n * n for n in items]
        await until_idle(app)


@pytest.mark.parametrize("limit", [1, 3, 10])
async def test_no_more_are_under_way_than_allowed(app: App, limit: int) -> None:
    async with app, app.worker():
        await app.run(map_steps, list(range(40)), limit)
        assert gauge.most <= limit
        assert sorted(gauge.done) == list(range(40))


async def test_an_item_costs_the_run_nothing_but_a_share_of_its_chunk(app: App) -> None:
    async with app, app.worker():
        run = await app.start(map_steps, list(range(1200)), 100)

        assert await run.result(timeout="60s") == [n * n for n in range(1200)]
        chunks = await children_of(app, run)
        sizes = [len(await (await app.get(chunk.id)).history()) for chunk in chunks]
        assert sizes == [300] * 4
        assert len(await run.history()) == 4
        await until_idle(app)


@workflow
async def map_thousands(count: int) -> list[int]:
    total = checked = 0
    async for result in squared.map(range(count), limit=200):
        assert result == checked * checked
        checked += 1
        total += result
    return [checked, total]


async def test_twenty_thousand_items_each_once(app: App) -> None:
    async with app, app.worker():
        run = await app.start(map_thousands, 20_000)

        assert await run.result(timeout="200s") == [20_000, sum(n * n for n in range(20_000))]
        assert sorted(gauge.done) == list(range(20_000))
        assert gauge.most <= 200
        assert len(await run.history()) == 40
        await until_idle(app)


@workflow
async def starmap_pairs() -> list[str]:
    pairs: list[tuple[str, ...]] = [("a", "b"), ("c",), ("d", "e")]
    return await joined.starmap(pairs, limit=2)


async def test_starmap_spreads_the_arguments_of_each_item(app: App) -> None:
    async with app, app.worker():
        assert await app.run(starmap_pairs) == ["ab", "c!", "de"]


@workflow
async def two_maps_at_once() -> list[list[int]]:
    maps = squared.map([1, 2], limit=2), squared.map([3, 4], limit=2)
    return list(await asyncio.gather(*maps))


@workflow
async def maps_in_turn() -> list[list[int]]:
    return [await squared.map([1, 2]), await squared.map([3]), *await two_maps_at_once()]


async def test_maps_stand_beside_and_behind_one_another_and_in_children(app: App) -> None:
    async with app, app.worker(slots=1, warm=0):
        assert await app.run(maps_in_turn) == [[1, 4], [9], [1, 4], [9, 16]]
        await until_idle(app)


# --- errors ---------------------------------------------------------------------------------------


@workflow
async def map_to_the_first_error(items: list[int]) -> str:
    try:
        await squared_if_even.map(items, limit=4)
    except Spoiled as spoiled:
        return f"{spoiled.args[0]} is spoiled"
    return "all well"


async def test_the_first_error_in_order_is_raised_and_the_rest_is_not_begun(app: App) -> None:
    async with app, app.worker():
        items = [*range(0, 6000, 2)]  # six chunks, of which four are open at a time
        items[100], items[50] = 101, 51
        run = await app.start(map_to_the_first_error, items)

        assert await run.result(timeout="60s") == "51 is spoiled"
        await until_idle(app)
        assert len(gauge.done) < 3000
        chunks = {row.state for row in await children_of(app, run)}
        assert chunks <= {"succeeded", "cancelled"}


@workflow
async def map_with_errors(items: list[int]) -> list[str]:
    found = await squared_if_even.map(items, limit=4, return_exceptions=True)
    return [f"{type(each).__name__} {each}" for each in found]


async def test_errors_may_stand_among_the_results(app: App) -> None:
    async with app, app.worker(warm=0):
        assert await app.run(map_with_errors, [0, 1, 2, 3]) == [
            "int 0",
            "Spoiled 1",
            "int 4",
            "Spoiled 3",
        ]
        await until_idle(app)


@workflow
async def spoil(n: int) -> int:
    return await squared_if_even(n)


@workflow
async def map_failing_children() -> list[str]:
    found = await spoil.map([1, 2], return_exceptions=True)
    return [type(each).__name__ for each in found]


async def test_an_error_of_a_child_stands_for_its_item(app: App) -> None:
    async with app, app.worker():
        assert await app.run(map_failing_children) == ["Spoiled", "int"]


@workflow
async def map_unfit() -> str:
    try:
        await joined.map(["a", "b", object()])  # type: ignore[list-item] # that is the test
    except Unencodable as refused:
        return "\n".join([str(refused), *refused.__notes__])
    return "taken"


async def test_an_item_that_cannot_be_kept_is_refused_with_its_path_before_anything_begins(
    app: App,
) -> None:
    async with app, app.worker():
        run = await app.start(map_unfit)
        told = await run.result(timeout="60s")
        assert "joined(left)" in told
        assert "item 2 of the map" in told
        assert await run.history() == []


@workflow
async def map_many_arguments() -> str:
    try:
        await joined.starmap([("a", "b", "c")])
    except TypeError as refused:
        return str(refused)
    return "taken"


async def test_an_item_that_does_not_fit_the_function_is_an_ordinary_type_error(app: App) -> None:
    async with app, app.worker():
        assert "joined" in await app.run(map_many_arguments)


@pytest.mark.parametrize("limit", [0, -1])
async def test_a_limit_lets_something_happen(limit: int) -> None:
    with pytest.raises(BadInput, match="is too low"):
        await squared.map([1], limit=limit)


# --- large things ---------------------------------------------------------------------------------


@workflow
async def map_large() -> list[int]:
    return [len(text) for text in await lengthened.map([700_000] * 8, limit=8)]


@workflow
async def map_large_items() -> int:
    texts = ["x" * 700_000 for _ in range(16)]
    return sum(map(len, await joined.map(texts, limit=4)))


async def test_results_and_items_may_be_larger_together_than_one_may_be(app: App) -> None:
    async with app, app.worker():
        assert await app.run(map_large) == [700_000] * 8
        run = await app.start(map_large_items)
        assert await run.result(timeout="60s") == 16 * 700_001
        for chunk in await children_of(app, run):
            assert len((await app._store.end(chunk.uid)).input) < 5_000_000


@workflow
async def map_too_large() -> list[str]:
    once = lengthened.options(retry=Retry(attempts=1))
    found = await once.map([2, 3_000_000], return_exceptions=True)
    return [each if isinstance(each, str) else type(each).__name__ for each in found]


async def test_a_result_that_is_too_large_is_the_error_of_its_item(app: App) -> None:
    async with app, app.worker():
        assert await app.run(map_too_large) == ["xx", "PayloadTooLarge"]


# --- one by one -----------------------------------------------------------------------------------


@workflow
async def take_some(wanted: int, count: int) -> list[int]:
    found = []
    async for result in squared.map(range(count), limit=4):
        found.append(result)
        if len(found) == wanted:
            break
    await let_go.wait()
    return found


async def test_who_stops_half_way_has_the_rest_cancelled(app: App) -> None:
    async with app, app.worker():
        run = await app.start(take_some, 3, 4_000)
        await until_open(run, "let go")

        async def is_quiet() -> bool:
            return not [
                row
                for row in await children_of(app, run)
                if row.state in ("ready", "running", "waiting")
            ]

        await until(is_quiet)
        assert len(await children_of(app, run)) < 8, "more was begun than was wanted"
        await run.signal(let_go, 1)
        assert await run.result(timeout="60s") == [0, 1, 4]
        await until_idle(app)


@workflow
async def take_pauses(count: int) -> int:
    total = 0
    async for result in squared.map(range(count), limit=2):
        total += result
        if result == 4:
            await let_go.wait()
    return total


async def test_a_body_may_wait_between_two_results_and_be_replayed(app: App) -> None:
    async with app:
        async with app.worker():
            run = await app.start(take_pauses, 10)
            await until_open(run, "let go")
        async with app.worker():
            await run.signal(let_go, 1)
            assert await run.result(timeout="60s") == sum(n * n for n in range(10))
            assert sorted(gauge.done) == list(range(10))
            await until_idle(app)


async def test_a_map_ends_with_the_run_that_makes_it(app: App) -> None:
    async with app, app.worker(queues=["default"]):
        run = await app.start(map_away, [1, 2, 3], 3)  # no worker serves that queue
        await until_state(run, "waiting")
        await run.cancel()

        await until_state(run, "cancelled")

        async def is_quiet() -> bool:
            counts = await app.counts()
            return set(counts) == {"cancelled"} or "waiting" not in counts

        await until(is_quiet)


# --- what the caller says -------------------------------------------------------------------------


@step(retry=Retry(attempts=3, delay="1ms"))
async def never_well(n: int) -> int:
    gauge.enter()
    gauge.leave(n)
    raise LookupError(f"{n} is never well")


@workflow
async def map_once_each() -> list[str]:
    once = never_well.options(retry=Retry(attempts=1))
    return [str(each) for each in await once.map([1, 2], return_exceptions=True)]


@workflow
async def map_as_it_says() -> list[str]:
    return [str(each) for each in await never_well.map([1, 2], return_exceptions=True)]


async def test_the_options_of_a_step_hold_for_every_item(app: App) -> None:
    async with app, app.worker():
        await app.run(map_once_each)
        assert len(gauge.done) == 2
        await app.run(map_as_it_says)
        assert len(gauge.done) == 2 + 6


@workflow(retry=Retry(attempts=2, delay="1ms"))
async def map_with_a_word_on_retries() -> list[str]:
    return [str(each) for each in await never_so_well.map([1], return_exceptions=True)]


@step
async def never_so_well(n: int) -> int:
    gauge.enter()
    gauge.leave(n)
    raise LookupError(f"{n} is never well")


async def test_the_word_of_the_workflow_holds_for_the_steps_that_it_maps(app: App) -> None:
    async with app, app.worker():
        await app.run(map_with_a_word_on_retries)
        assert len(gauge.done) == 2


@workflow
async def map_sent_children() -> list[int]:
    return await squared_by_child.options(queue="far", priority=3).map([1, 2])


async def test_the_options_of_a_workflow_hold_for_every_item(app: App) -> None:
    async with app, app.worker(), app.worker(queues=["far"]):
        run = await app.start(map_sent_children)
        assert await run.result(timeout="60s") == [1, 4]
        items = await app.runs(name="squared_by_child")
        assert [info.queue for info in items] == ["far", "far"]
        await until_idle(app)


@workflow
async def map_one_id() -> str:
    try:
        await squared_by_child.options(id="one").map([1, 2])
    except BadInput as refused:
        return str(refused)
    return "taken"


async def test_a_map_cannot_have_one_id(app: App) -> None:
    async with app, app.worker():
        assert "all runs of a map" in await app.run(map_one_id)


@step(name="twin")
async def elder_twin(n: int) -> int:
    return n


@step(name="twin")
async def younger_twin(n: int) -> int:
    return -n


@workflow
async def map_twins() -> tuple[list[int], str]:
    mapped = await younger_twin.map([1])
    try:
        await elder_twin.map([1])
    except BadInput as refused:
        return mapped, str(refused)
    return mapped, "taken"


async def test_a_step_whose_name_another_has_is_not_mapped_for_the_wrong_one(app: App) -> None:
    async with app, app.worker():
        mapped, told = await app.run(map_twins)
        assert mapped == [-1]
        assert "elder_twin" in told
        assert "younger_twin" in told


@step(name="namesake")
async def namesake_step(n: int) -> int:
    return n + 1


@workflow(name="namesake")
async def namesake_workflow(n: int) -> int:
    return n + 10


@workflow
async def map_namesakes() -> list[list[int]]:
    return [await namesake_step.map([1]), await namesake_workflow.map([1])]


async def test_a_step_and_a_workflow_of_one_name_are_distinct(app: App) -> None:
    async with app, app.worker():
        assert await app.run(map_namesakes) == [[2], [11]]


# --- outside a run --------------------------------------------------------------------------------


async def test_outside_a_run_it_is_a_plain_map() -> None:
    assert await squared.map([1, 2, 3], limit=2) == [1, 4, 9]
    assert await squared_in_thread.map([]) == []
    assert await squared_by_child.map([4]) == [16]
    assert gauge.most <= 2
    assert [each async for each in squared.map(range(3))] == [0, 1, 4]


async def test_outside_a_run_the_first_error_is_raised() -> None:
    with pytest.raises(Spoiled):
        await squared_if_even.map([2, 1, 4])
    found = await squared_if_even.map([2, 1], return_exceptions=True)
    assert [type(each).__name__ for each in found] == ["int", "Spoiled"]


async def test_outside_a_run_one_may_stop_half_way() -> None:
    results = aiter(squared.map(range(1000), limit=5))
    assert [await anext(results), await anext(results)] == [0, 1]
    await results.aclose()
    assert len(gauge.done) < 10
    assert gauge.most <= 5
