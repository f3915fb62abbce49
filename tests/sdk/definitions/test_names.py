"""Names: history knows a call by its name, so a name belongs to one function."""

from __future__ import annotations

import importlib.util
import logging
import re
import sys
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, effect, step, workflow
from onward.errors import BadInput, RunFailed
from tests.kit.watching import working

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import ModuleType


@step(name="named twice")
async def first() -> str:
    return "the first"


@step(name="named twice")
async def second() -> str:
    return "the second"


@effect(name="sent twice")
async def send_first() -> str:
    return "the first"


@effect(name="sent twice")
async def send_second() -> str:
    return "the second"


@workflow(name="of two")
async def one_of_two() -> str:
    return "one"


@workflow(name="of two")
async def other_of_two() -> str:
    return "the other"


onward.sdk.workflow.registered["of two"].pop()  # or the workers of all tests would warn of it


@workflow
async def call_both(what: str) -> list[str]:
    match what:
        case "step":
            return [await first(), await first(), await second()]
        case "effect":
            return [await send_first(), await send_second()]
        case "child":
            return [await one_of_two(), await other_of_two()]
        case _:
            await onward.start(other_of_two)
            return []


@pytest.mark.parametrize(
    ("what", "says"),
    [
        ("step", r"the step name 'named twice' is used by .*first \(.*:\d+\) and by .*second \("),
        ("effect", r"the effect name 'sent twice' is used by .*send_first .* and by .*send_second"),
        ("child", r"the workflow name 'of two' is used by .*one_of_two .* and by .*other_of_two"),
        ("start", r"the workflow name 'of two' is used by .*one_of_two .* and by .*other_of_two"),
    ],
)
async def test_two_functions_of_a_name_are_refused_where_the_second_is_called(
    app: App, what: str, says: str
) -> None:
    async with working(app, workflows=[call_both, one_of_two]):
        with pytest.raises(RunFailed, match=says):
            await app.run(call_both, what)


def greeting(word: str) -> Callable[[], Any]:
    @step
    async def greet() -> str:
        return word

    return greet


@workflow
async def greet_with_both() -> list[str]:
    return [await greeting("hello")(), await greeting("goodbye")()]


async def test_what_a_call_makes_anew_each_time_keeps_its_name(app: App) -> None:
    async with working(app, workflows=[greet_with_both]):
        for _ in range(2):
            assert await app.run(greet_with_both) == ["hello", "goodbye"]


# --- loaded again ---------------------------------------------------------------------------------

SHOP = """
from onward import step, workflow

@step
async def sell_again() -> str:
    return "PRICE"

@workflow
async def shop_again() -> str:
    return await sell_again()
"""


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[[str], ModuleType]]:
    """What loads a module with a price in it, again and again, as a notebook or a reload does."""

    def loaded(price: str, name: str = "shop_loaded_again") -> ModuleType:
        file = tmp_path / f"{price}.py"
        file.write_text(SHOP.replace("PRICE", price))
        spec = importlib.util.spec_from_file_location(name, file)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield loaded
    sys.modules.pop("shop_loaded_again", None)
    onward.sdk.step.registered.pop("sell_again", None)
    onward.sdk.workflow.registered.pop("shop_again", None)


async def test_code_that_is_loaded_again_takes_the_place_of_the_old(
    app: App, load: Callable[[str], ModuleType]
) -> None:
    old, new = load("cheap"), load("dear")
    async with working(app):
        assert await app.run(new.shop_again) == "dear"
        assert await app.run(old.shop_again) == "dear"


@pytest.fixture
def two_shops(load: Callable[..., ModuleType]) -> Iterator[tuple[ModuleType, ModuleType]]:
    """Two modules with a workflow of one name."""
    yield load("cheap"), load("dear", "shop_elsewhere")
    del sys.modules["shop_elsewhere"]


async def test_of_two_workflows_of_a_name_the_one_that_is_started_is_meant(
    app: App, two_shops: tuple[ModuleType, ModuleType], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "onward.worker")
    _, dear = two_shops
    async with working(app):
        assert await app.run(dear.shop_again) == "dear"
    [told] = [vars(record) for record in caplog.records]
    assert (told["event"], told["workflow"]) == ("worker.unclear", "shop_again")
    cheap_place, dear_place = told["places"].split(" and ")
    assert re.fullmatch(r"shop_loaded_again.shop_again \(cheap.py:\d+\)", cheap_place)
    assert re.fullmatch(r"shop_elsewhere.shop_again \(dear.py:\d+\)", dear_place)


async def test_the_other_of_two_workflows_of_a_name_is_refused_where_it_is_started(
    app: App, two_shops: tuple[ModuleType, ModuleType]
) -> None:
    cheap, dear = two_shops
    async with working(app):
        assert await app.run(cheap.shop_again) == "cheap"
        with pytest.raises(BadInput, match="the workflow name 'shop_again' is used by"):
            await app.start(dear.shop_again)


async def test_of_two_workflows_of_a_name_a_later_worker_runs_what_this_process_has_started(
    app: App, two_shops: tuple[ModuleType, ModuleType]
) -> None:
    _, dear = two_shops
    async with app:
        run = await app.start(dear.shop_again)
        async with app.worker():
            assert await run.result(timeout="60s") == "dear"


async def test_two_workflows_of_a_name_cannot_be_given_to_a_worker(
    memory: App, two_shops: tuple[ModuleType, ModuleType]
) -> None:
    async with memory:
        with pytest.raises(BadInput, match="the workflow name 'shop_again' is used by"):
            async with memory.worker(workflows=[shop.shop_again for shop in two_shops]):
                pass


async def test_of_two_workflows_of_a_name_each_app_runs_the_one_that_it_starts(
    two_shops: tuple[ModuleType, ModuleType],
) -> None:
    for shop, price in zip(two_shops, ("cheap", "dear"), strict=True):
        app = App(":memory:")
        async with working(app):
            assert await app.run(shop.shop_again) == price


async def test_what_a_body_calls_is_what_its_name_means_to_every_worker_of_the_process(
    app: App, two_shops: tuple[ModuleType, ModuleType]
) -> None:
    _, dear = two_shops

    @workflow
    async def sent_away() -> list[str]:
        return [
            await dear.sell_again.options(queue="away")(),
            await dear.shop_again.options(queue="away")(),
        ]

    async with working(app, workflows=[sent_away]), app.worker(queues=["away"]):
        run = await app.start(sent_away)
        assert await run.result(timeout="60s") == ["dear", "dear"]


async def test_a_worker_that_could_not_start_chooses_no_name(
    app: App, two_shops: tuple[ModuleType, ModuleType]
) -> None:
    cheap, dear = two_shops
    async with app:
        with pytest.raises(BadInput):
            async with app.worker(tags="no list"):
                pass
        await app.start(cheap.shop_again.options(delay="1h"))
        await app.start(dear.shop_again.options(delay="1h"))


@pytest.mark.parametrize("kind", ["step", "map", "producer", "consumer"])
def test_a_workflow_is_not_named_like_runs_of_another_kind(kind: str) -> None:
    async def fn() -> None: ...

    with pytest.raises(BadInput, match=f'begins with "{kind} "'):
        workflow(name=f"{kind} orders")(fn)
