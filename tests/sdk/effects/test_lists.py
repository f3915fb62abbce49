"""The ledger for operators: lists by pages, abbreviated ids, and what can be said now."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from onward import App, Unknown, effect, workflow
from onward.errors import NotFound
from onward.store.runs.ledger import effect as row_of
from tests.kit.ledgers import effect_of
from tests.kit.watching import check_database, until_state

if TYPE_CHECKING:
    from onward.sdk.effects import EffectInfo


@effect(approve=True)
async def post(letter: int) -> int:
    return letter


@effect
async def lose(n: int) -> int:
    raise ConnectionError("gone")


async def shrug(n: int, *, key: str) -> Unknown:
    return Unknown()


@effect(reconcile=shrug)
async def wonder(n: int) -> int:
    raise ConnectionError("gone")


@workflow
async def letters(count: int) -> list[int]:
    return await asyncio.gather(*(post(n) for n in range(count)))


@workflow
async def lost() -> int:
    return await lose(1)


@workflow
async def unsure() -> int:
    return await wonder(1)


async def choices(app: App, info: EffectInfo) -> dict[str, datetime | None]:
    return {choice.verdict: choice.since for choice in await app.effects.choices(info.id)}


async def test_all_effects_come_by_pages_newest_runs_first(app: App) -> None:
    async with app, app.worker(workflows=[letters]):
        for name in ("first", "second"):
            await until_state(await app.start(letters.options(id=name), 3), "paused")
        seen: list[EffectInfo] = []
        while page := await app.effects.all(limit=2, after=seen[-1].id if seen else ""):
            assert len(page) == 2
            seen += page
        assert [info.run for info in seen] == ["second"] * 3 + ["first"] * 3
        assert len({info.id for info in seen}) == 6


async def test_settled_effects_are_among_all_but_not_among_the_pending(app: App) -> None:
    async with app, app.worker(workflows=[letters]):
        run = await app.start(letters, 1)
        await until_state(run, "paused")
        [info] = await app.effects.pending()
        await app.effects.approve(info.id, reason="fine")
        assert await run.result(timeout="60s") == [0]
        assert await app.effects.pending() == []
        assert [(one.id, one.state) for one in await app.effects.all()] == [(info.id, "applied")]
        await check_database(app)


async def test_an_effect_is_found_by_every_beginning_of_its_id(app: App) -> None:
    async with app, app.worker(workflows=[letters]):
        await until_state(await app.start(letters, 1), "paused")
        [info] = await app.effects.pending()
        for length in range(1, len(info.id) + 1):
            assert await app.effects.find(info.id[:length]) == [info]
        other = "0" if info.id[0] != "0" else "1"
        for beginning in (other, info.id + "0", "", "no hex", "\0"):
            assert await app.effects.find(beginning) == []


async def test_several_effects_are_found_by_what_they_share(app: App) -> None:
    async with app, app.worker(workflows=[letters]):
        await until_state(await app.start(letters, 17), "paused")
        every = sorted(info.id for info in await app.effects.pending())
        found = [info.id for n in range(16) for info in await app.effects.find(f"{n:x}", limit=17)]
        assert found == every


async def test_nothing_is_listed_or_found_from_another_namespace(url: str) -> None:
    app = App(url)
    async with app, app.worker(workflows=[letters]):
        await until_state(await app.start(letters, 1), "paused")
        [info] = await app.effects.pending()
        async with App(url, namespace="other") as other:
            assert await other.effects.all() == []
            assert await other.effects.find(info.id) == []
            with pytest.raises(NotFound):
                await other.effects.choices(info.id)


async def test_what_waits_for_approval_can_be_approved_rejected_or_skipped(app: App) -> None:
    async with app, app.worker(workflows=[letters]):
        await until_state(await app.start(letters, 1), "paused")
        [info] = await app.effects.pending()
        assert await choices(app, info) == {"approve": None, "reject": None, "skip": None}


async def test_not_applied_can_be_said_when_it_counts(app: App) -> None:
    async with app, app.worker(workflows=[lost]):
        info = await effect_of(app, await app.start(lost), "indeterminate")
        said = await choices(app, info)
        assert list(said) == ["applied", "not_applied", "skip"]
        assert said == {"applied": None, "not_applied": info.judged_from, "skip": None}
        row = await row_of(app._store, info.id)
        assert row is not None
        assert row.settle_until is not None
        counts = datetime.fromtimestamp(row.settle_until / 1_000_000, UTC)
        assert said["not_applied"] == counts


async def test_a_reconciler_can_be_asked_again_where_there_is_one(app: App) -> None:
    async with app, app.worker(workflows=[unsure]):
        info = await effect_of(app, await app.start(unsure), "needs_reconcile")
        assert list(await choices(app, info)) == ["applied", "not_applied", "skip", "ask_again"]


async def test_of_a_settled_effect_nothing_can_be_said(app: App) -> None:
    async with app, app.worker(workflows=[lost]):
        info = await effect_of(app, await app.start(lost), "indeterminate")
        await app.effects.resolve(info.id, "skip", reason="so be it")
        assert await choices(app, info) == {}
