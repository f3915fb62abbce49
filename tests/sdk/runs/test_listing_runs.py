"""`app.runs()`: narrowed to what was started by whom, by tags, and by what runs say."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import App, step, workflow
from onward.engine import search
from onward.errors import BadInput, NotFound

if TYPE_CHECKING:
    from onward import RunInfo


@step(queue="elsewhere")
async def weigh(parcel: str) -> str:
    return parcel


@step
async def label(customer: object) -> None:
    onward.current().attributes["customer"] = customer


@workflow
async def pack_one(parcel: str) -> str:
    return await weigh(parcel)


@workflow
async def pack(parcels: int) -> list[str]:
    return await asyncio.gather(
        *(pack_one.options(id=f"parcel-{n}")(f"parcel {n}") for n in range(parcels))
    )


@workflow
async def order(customer: object, *, state: str = "new") -> None:
    onward.current().attributes["state"] = "made"
    await label(customer)
    onward.current().attributes["state"] = state


@workflow
async def endless(rounds: int) -> None:
    onward.current().attributes["round"] = rounds
    if rounds:
        onward.continue_as_new(rounds - 1)


@workflow
async def idle() -> None: ...


def names(found: list[RunInfo]) -> list[str]:
    return sorted(f"{info.kind} {info.name}" for info in found)


def ids(found: list[RunInfo]) -> set[str]:
    return {info.id for info in found}


async def packed(app: App) -> None:
    """Leave a run behind with two children, each with a step that was sent elsewhere."""
    async with app.worker(queues=["default", "elsewhere"]):
        await app.run(pack.options(id="pack-1"), 2)
        await app.run(idle.options(id="idle-1"))


# --- who started it -------------------------------------------------------------------------------


async def test_all_runs_are_listed_without_a_filter(app: App) -> None:
    async with app:
        await packed(app)
        assert len(await app.runs()) == 6


async def test_what_runs_have_started_can_be_left_out(app: App) -> None:
    async with app:
        await packed(app)
        assert ids(await app.runs(children=False)) == {"pack-1", "idle-1"}


async def test_the_children_of_a_run_are_found_by_its_id_or_uid(app: App) -> None:
    async with app:
        await packed(app)
        uid = (await app.get("pack-1")).uid
        for parent in ("pack-1", uid):
            assert ids(await app.runs(parent=parent)) == {"parcel-0", "parcel-1"}


async def test_a_family_is_a_run_and_all_that_came_of_it(app: App) -> None:
    async with app:
        await packed(app)
        assert names(await app.runs(root="pack-1")) == [
            "step weigh", "step weigh", "workflow pack", "workflow pack_one", "workflow pack_one",
        ]  # fmt: skip
        assert names(await app.runs(root="parcel-0")) == ["step weigh", "workflow pack_one"]


async def test_a_family_is_narrowed_like_any_list(app: App) -> None:
    async with app:
        await packed(app)
        assert names(await app.runs(root="pack-1", kind="step")) == ["step weigh", "step weigh"]
        [newest] = await app.runs(root="pack-1", limit=1)
        assert len(await app.runs(root="pack-1", before=newest.uid)) == 4


async def test_a_family_of_a_missing_run_is_an_error(app: App) -> None:
    async with app:
        with pytest.raises(NotFound, match="no run 'missing'"):
            await app.runs(root="missing")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"kind": "workflaw"}, "kind='workflaw' is not a kind. Use one of workflow, step, map"),
        ({"state": "asleep"}, "state='asleep' is not a state. Use one of ready, running"),
        ({"limit": -1}, "limit=-1 is negative"),
        ({"tag": "two words"}, "contains a space"),
        ({"tag": "two\u3000words"}, "contains a space"),
        ({"parent": "a", "root": "b"}, "parent and root cannot be combined"),
        ({"attributes": {"customer": object()}}, "attribute customer"),
    ],
)
async def test_what_no_run_could_be_is_refused(
    memory: App, words: dict[str, Any], said: str
) -> None:
    async with memory:
        with pytest.raises((BadInput, onward.errors.Unencodable), match=said):
            await memory.runs(**words)


# --- tags and attributes --------------------------------------------------------------------------


async def test_runs_are_found_by_a_tag(app: App) -> None:
    async with app:
        await app.start(idle.options(id="a", tags=["eu", "gpu"]))
        await app.start(idle.options(id="b", tags=["europe"]))
        assert ids(await app.runs(tag="eu")) == {"a"}


async def test_runs_are_found_by_what_they_say_of_themselves_at_last(app: App) -> None:
    async with app, app.worker():
        await app.run(order.options(id="a"), 42)
        await app.run(order.options(id="b"), 42, state="paid")
        await app.run(order.options(id="c"), 43, state="paid")
        assert ids(await app.runs(attributes={"customer": 42})) == {"a", "b"}
        assert ids(await app.runs(attributes={"customer": 42, "state": "paid"})) == {"b"}
        assert ids(await app.runs(attributes={"state": "made"})) == set()
        assert ids(await app.runs(attributes={"colour": None})) == set()


async def test_what_is_found_by_attributes_has_them(app: App) -> None:
    async with app, app.worker():
        await app.run(order, 42)
        [info] = await app.runs(attributes={"customer": 42})
        assert info.attributes == {"customer": 42, "state": "new"}


@pytest.mark.parametrize("value", [True, 1, 1.0, "1", None, {"a": [1], "b": 2}])
async def test_values_of_other_types_are_others(memory: App, value: object) -> None:
    every: list[object] = [True, 1, 1.0, "1", None, {"b": 2, "a": [1]}]
    async with memory, memory.worker():
        for each in every:
            await memory.run(order.options(id=repr(each)), each)
        [info] = await memory.runs(attributes={"customer": value})
        assert info.attributes["customer"] == value
        assert type(info.attributes["customer"]) is type(value)


async def test_a_continued_run_is_found_by_what_it_began_with(app: App) -> None:
    async with app, app.worker():
        await app.run(endless.options(id="a"), 1)
        assert [info.link for info in await app.runs(attributes={"round": 0})] == ["continued_from"]


async def test_attributes_are_looked_for_beyond_the_first_runs(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "SCANNED", 2)
    async with app, app.worker():
        for number in range(7):
            await app.run(order.options(id=str(number)), number % 3)
        first = await app.runs(attributes={"customer": 0}, limit=2)
        assert [info.id for info in first] == ["6", "3"]
        rest = await app.runs(attributes={"customer": 0}, before=first[-1].uid)
        assert [info.id for info in rest] == ["0"]


def test_the_sync_app_finds_runs_too() -> None:
    with App(":memory:").sync() as app, app.worker(tags=["eu"]):
        app.run(order.options(id="a", tags=["eu"]), 42)
        assert ids(app.runs(tag="eu", root="a", attributes={"customer": 42})) == {"a"}
        assert app.runs(parent="a", kind="map", children=False) == []
