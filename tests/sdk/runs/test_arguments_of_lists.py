"""Limits and ids that users give: an App on a database and one on a server treat them alike."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from onward import App, workflow
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = 1_050


@workflow
async def idle() -> None: ...


async def test_a_list_may_be_longer_than_what_one_call_returns(app: App) -> None:
    async with app:
        await asyncio.gather(*(app.start(idle) for _ in range(MANY)))
        everything = await app.runs(limit=10**30)
        assert len({info.uid for info in everything}) == MANY
        assert everything == sorted(everything, key=lambda info: info.uid, reverse=True)
        assert await app.runs(limit=5_000) == everything
        assert await app.runs(limit=MANY - 1) == everything[:-1]
        assert await app.runs(limit=1_000) == everything[:1_000]
        assert await app.runs(limit=5_000, before=everything[9].uid) == everything[10:]
        assert await app.runs(limit=0) == []


LISTS: dict[str, Callable[[App, Any], Any]] = {
    "runs": lambda app, limit: app.runs(limit=limit),
    "dead": lambda app, limit: app.dead.list(limit=limit),
    "pending effects": lambda app, limit: app.effects.pending(limit=limit),
    "all effects": lambda app, limit: app.effects.all(limit=limit),
    "cache": lambda app, limit: app.cache.list(limit=limit),
    "found effects": lambda app, limit: app.effects.find("a", limit=limit),
    "inputs": lambda app, limit: app.inputs.list(limit=limit),
    "events": lambda app, limit: app.topics.peek("t", limit=limit),
    "slots": lambda app, limit: app.schedules.slots("s", limit),
}
AT_ONCE = ("found effects", "inputs", "events", "slots")


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize("limit", ["5", 2.5, True, None, -1])
async def test_a_limit_that_is_no_number_is_refused(app: App, kind: str, limit: Any) -> None:
    async with app:
        with pytest.raises(BadInput, match=rf"^limit={limit!r} is"):
            await LISTS[kind](app, limit)


@pytest.mark.parametrize("kind", AT_ONCE)
async def test_a_list_without_pages_names_its_longest(app: App, kind: str) -> None:
    async with app:
        with pytest.raises(BadInput, match=r"is not between . and 10?,000"):
            await LISTS[kind](app, 10**30)


async def test_a_count_beyond_a_million_is_refused(app: App) -> None:
    async with app:
        assert await app.dead.count(maximum=1_000_000) == 0
        with pytest.raises(BadInput, match="maximum=1000001 is not between 0 and 1,000,000"):
            await app.dead.count(maximum=1_000_001)
        with pytest.raises(BadInput, match="parts=1001 is not between 1 and 1,000"):
            await app.dead.groups(parts=1_001)


LOOKUPS: dict[str, Callable[[App, Any], Any]] = {
    "get": lambda app, given: app.get(given),
    "signal": lambda app, given: app.signal(given, "go"),
    "cancel": lambda app, given: app.cancel(given),
    "pause": lambda app, given: app.pause(given),
    "resume": lambda app, given: app.resume(given),
    "retry": lambda app, given: app.retry(given),
    "fork": lambda app, given: app.fork(given),
    "why": lambda app, given: app.why(given),
    "before": lambda app, given: app.runs(before=given),
    "name": lambda app, given: app.runs(name=given),
    "dead": lambda app, given: app.dead.get(given),
    "discard": lambda app, given: app.dead.discard(given),
    "effect": lambda app, given: app.effects.get(given),
    "effects of": lambda app, given: app.effects.of(given),
    "approve": lambda app, given: app.effects.approve(given, reason="r"),
    "schedule": lambda app, given: app.schedules.get(given),
    "slots": lambda app, given: app.schedules.slots(given),
    "pipeline": lambda app, given: app.pipelines.get(given),
    "input": lambda app, given: app.inputs.get(given),
}


@pytest.mark.parametrize("kind", LOOKUPS)
async def test_an_id_that_is_no_text_is_refused(app: App, kind: str) -> None:
    async with app:
        with pytest.raises(BadInput, match=r"is of type int, not str\. Pass a str"):
            await LOOKUPS[kind](app, 3)
