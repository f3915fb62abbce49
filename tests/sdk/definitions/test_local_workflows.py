"""Workflows that are local to a function, and share their names with earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import step, workflow
from onward.errors import BadInput

if TYPE_CHECKING:
    from onward import App, Workflow


def a_local_workflow(answer: int) -> Workflow[[], list[int]]:
    @step
    def add(n: int) -> int:
        return answer + n

    @workflow
    async def local() -> list[int]:
        return await add.map([0, 1])

    return local


async def test_each_worker_runs_the_local_workflow_that_is_started_there(app: App) -> None:
    async with app:
        for answer in (1, 2, 3):
            local = a_local_workflow(answer)
            async with app.worker():
                assert await app.run(local) == [answer, answer + 1]


async def test_a_second_local_workflow_of_one_name_is_refused_in_an_app(app: App) -> None:
    one, two = a_local_workflow(1), a_local_workflow(2)
    async with app.worker():
        assert await app.run(two) == [2, 3]
        with pytest.raises(BadInput, match="'local' is used by"):
            await app.run(one)


async def test_a_started_workflow_is_run_although_a_later_one_has_its_name(app: App) -> None:
    async with app:
        uid = (await app.start(a_local_workflow(1))).uid
        a_local_workflow(2)
        async with app.worker():
            run = await app.get(uid)
            assert await run.result(timeout="30s") == [1, 2]
