"""Claims that a server refuses: the worker reports them, and tries again later."""

from __future__ import annotations

import asyncio

import pytest

from onward.errors import BadInput, StoreUnusable
from onward.wire.problems import to_problem
from tests.unit.wire.test_remote_worker import WANTED, joined, settle

pytestmark = pytest.mark.usefixtures("onward_clock")


async def test_a_claim_that_is_refused_is_reported_once() -> None:
    async with joined() as world:
        await world.worker.claim(WANTED)
        request = await world.stream.sent("claim")
        world.stream.answer(request, problem=to_problem(BadInput("the claim", "is odd", "Stop")))
        await settle(lambda: world.worker._claim is None)
        with pytest.raises(StoreUnusable, match=r"refused a claim \(the claim is odd\. Stop\.\)"):
            await world.worker.claim(WANTED)
        asked = asyncio.ensure_future(world.worker.claim(WANTED))
        await world.stream.sent("audit")  # the refused claim may have taken runs all the same
        asked.cancel()
