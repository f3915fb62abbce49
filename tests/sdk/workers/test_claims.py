"""When the end of a run lets its worker claim another one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onward import App, step, workflow
from tests.kit.watching import until, working

RUNS = 20
gates: list[asyncio.Event] = []


@step
async def double(n: int) -> int:
    return 2 * n


@workflow
async def doubled(n: int) -> int:
    return await double(n)


@step
async def passes_the_gate() -> None:
    gates.append(asyncio.Event())
    await gates[-1].wait()


@workflow
async def gated() -> None:
    await passes_the_gate()


async def test_a_worker_without_a_free_slot_claims_as_soon_as_a_run_has_succeeded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("onward.runtime.worker.claiming.POLL_SECONDS", 60.0)
    async with App(":memory:") as app, app.worker(slots=1):
        async with asyncio.timeout(30):
            runs = [await app.start(doubled, n) for n in range(RUNS)]
            assert [await run.result() for run in runs] == [2 * n for n in range(RUNS)]


@pytest.mark.parametrize(
    ("change", "gains"),
    [
        ({}, False),
        ({"held_by": "queue\ndefault"}, True),
        ({"crashes": 1}, True),
        ({"handler": "orders.Pack"}, True),
    ],
)
async def test_a_worker_with_free_slots_gains_from_the_end_of_a_run_that_held_back_others(
    change: dict[str, Any], gains: bool
) -> None:
    gates.clear()
    app = App(":memory:")
    async with working(app) as worker:
        run = await app.start(gated)
        await until(lambda: bool(gates))
        claimed = worker.running[run.uid].claimed
        assert worker.claiming.gains_from(claimed._replace(**change)) is gains
        gates[0].set()
        await run.result()
