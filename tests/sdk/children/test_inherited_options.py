"""What the runs that do a part of some work have from the run that needs them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward import step, workflow
from tests.kit.watching import children_of, until, working

if TYPE_CHECKING:
    from onward import App


@step
async def cut(n: int) -> int:
    return n


@workflow
async def cut_apart(n: int) -> int:
    return n


@workflow
async def carve() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(cut.options(limit=5)(1), name="limited")
        group.create_task(cut.options(queue="far")(2), name="queued")
        group.create_task(cut.options(tags=["saw"])(3), name="tagged")
        group.create_task(all_of(), name="mapped")


async def all_of() -> None:
    await cut.map([1])
    await cut_apart.map([1])


async def test_steps_sent_elsewhere_and_parts_of_maps_have_the_priority_of_their_run(
    app: App,
) -> None:
    async with working(app, workflows=[carve], tags=["blade"]):
        run = await app.start(carve.options(priority=7, tags=["blade"]))

        async def all_there() -> bool:
            return len(await app.runs()) == 6  # itself, and five for which it waits

        await until(all_there)
        rows = await children_of(app, run)
        await run.cancel(force=True)

    assert {row.priority for row in rows} == {7}
    assert sorted((row.kind, row.name, row.queue, row.tags) for row in rows) == [
        ("map", "cut", "default", ("blade",)),
        ("map", "cut_apart", "default", ()),
        ("step", "cut", "default", ("blade",)),
        ("step", "cut", "default", ("saw",)),
        ("step", "cut", "far", ()),
    ]
