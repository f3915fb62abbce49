"""A worker takes up workflows and steps that its process defines while it runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import onward
from onward import App, step, workflow
from onward.errors import BadInput


@workflow
async def early() -> str:
    return "early"


async def test_a_workflow_that_is_defined_after_the_worker_started_is_run(memory: App) -> None:
    async with memory, memory.worker():
        assert await memory.run(early) == "early"

        @workflow
        async def defined_late() -> str:
            return "late"

        assert await asyncio.wait_for(memory.run(defined_late), 60) == "late"
        assert await memory.unserved() == []


async def test_steps_and_children_that_are_defined_late_are_run(memory: App) -> None:
    async with memory, memory.worker():
        assert await memory.run(early) == "early"

        @step
        async def late_step(n: int) -> int:
            return 2 * n

        @workflow
        async def late_child(n: int) -> int:
            return await late_step(n)

        @workflow
        async def late_parent() -> list[int]:
            return [await late_child(1), await late_step(2), *await late_step.map([3, 4])]

        assert await asyncio.wait_for(memory.run(late_parent), 60) == [2, 4, 6, 8]


async def test_a_module_that_is_loaded_in_a_thread_is_taken_up(memory: App) -> None:
    def load() -> Any:
        names: dict[str, Any] = {"__name__": "plugin", "workflow": workflow}
        exec("@workflow\nasync def plugged_in() -> int:\n    return 7\n", names)
        return names["plugged_in"]

    async with memory, memory.worker():
        assert await memory.run(early) == "early"
        plugged_in = await asyncio.to_thread(load)

        assert await asyncio.wait_for(memory.run(plugged_in), 60) == 7


async def test_a_second_function_of_a_name_that_is_in_use_is_refused(memory: App) -> None:
    async with memory, memory.worker():
        assert await memory.run(early) == "early"

        @workflow(name="early")
        async def other() -> str:
            return "other"

        with pytest.raises(BadInput, match="'early' is used by"):
            await memory.start(other)
        onward.sdk.workflow.registered["early"].pop()


async def test_a_worker_with_a_list_takes_no_other_workflows(memory: App) -> None:
    async with memory, memory.worker(workflows=[early]):
        assert await memory.run(early) == "early"

        @workflow
        async def not_in_the_list() -> str:
            return "late"

        run = await memory.start(not_in_the_list)
        with pytest.raises(TimeoutError, match="no worker knows workflow 'not_in_the_list'"):
            await run.result(timeout="100ms")
