"""A run whose commit a server refuses: it ends, because the commit would be refused again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import onward
from onward import step, workflow
from onward.errors import WriteRefused
from onward.runtime.registry import Registry
from tests.unit.runtime.fake_engine import FakeEngine, arguments, working

if TYPE_CHECKING:
    from onward.model.commits import Commit

REFUSED = WriteRefused("size", "a record is too large")


@step
async def measure(n: int) -> int:
    return n


@workflow
async def rest() -> None:
    await onward.sleep("1h")


@workflow
async def measures() -> None:
    await asyncio.gather(*(measure(n) for n in range(3)))


@workflow
async def rests() -> None:
    await asyncio.gather(*(rest() for _ in range(3)))


REGISTRY = Registry([each.definition for each in (rest, measures, rests)])


@pytest.mark.parametrize("body", [measures, rests], ids=["steps", "children"])
async def test_a_run_whose_commits_are_refused_ends_with_the_refusal(body: Any) -> None:
    engine = FakeEngine()
    run = engine.add(body.name, arguments(body))

    def refuse(commit: Commit) -> Exception | None:
        return REFUSED if commit.records else None

    engine.before_commit = refuse
    async with working(engine, REGISTRY):
        await engine.until(lambda: run.is_over)

    assert (run.state, run.reason) == ("failed", "internal")
    with pytest.raises(onward.StepFailed, match=r"WriteRefused: .*a record is too large"):
        run.outcome()
    assert engine.calls.count("claim") == 1
    assert list(engine.runs.values()) == [run]


async def test_the_children_of_a_run_whose_commit_is_refused_are_cancelled() -> None:
    engine = FakeEngine()
    run = engine.add("rests", arguments(rests))

    def refuse(commit: Commit) -> Exception | None:
        return REFUSED if commit.starts and len(engine.runs) > 1 else None

    engine.before_commit = refuse
    async with working(engine, REGISTRY):
        await engine.until(lambda: all(each.is_over for each in engine.runs.values()))

    [_, child] = engine.runs.values()
    assert (run.state, run.reason, child.state) == ("failed", "internal", "cancelled")


async def test_a_run_that_the_worker_no_longer_has_is_lost() -> None:
    engine = FakeEngine()
    run = engine.add("measures", arguments(measures))

    def lose(_: Commit) -> Exception | None:
        if run.fence > 1:
            return None
        run.state = "ready"
        engine.wake()
        return WriteRefused("run", "the worker does not have it")

    engine.before_commit = lose
    async with working(engine, REGISTRY):
        await engine.until(lambda: run.is_over)

    assert (run.state, run.fence) == ("succeeded", 2)
