"""Cached results while Postgres loses requests and replies."""

from __future__ import annotations

import pytest

from onward import App, step, workflow
from onward.testing.proxy import LossyProxy
from tests.postgres.hand import STATEMENTS

done: list[int] = []


@step(cache="1h")
async def count_to(count: int) -> list[int]:
    done.append(count)
    return list(range(count))


@workflow
async def counting(count: int) -> list[int]:
    return await count_to(count)


@pytest.mark.parametrize("lost", ["request", "reply"])
async def test_a_result_whose_commit_is_lost_is_cached_once_and_whole(
    postgres_url: str, lost: str
) -> None:
    done.clear()
    async with LossyProxy(postgres_url) as proxy, App(postgres_url) as eyes:
        app = App(proxy.url)
        async with app, app.worker(workflows=[counting]):
            lose = proxy.drop_request if lost == "request" else proxy.drop_reply_after_commit
            fault = lose(STATEMENTS["commit_cached"].sql.encode())
            assert await app.run(counting, 5_000) == list(range(5_000))
            assert fault.happened.is_set()
            assert await app.run(counting, 5_000) == list(range(5_000))
        [entry] = await eyes.cache.list()
    assert entry.step == "count_to"
    assert done == [5_000]
