"""What happens when an id is started again: it is returned, rejected, or replaced."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Literal
from uuid import uuid4

import pytest

from onward import App, Signal, step, workflow
from onward.errors import BadInput, Conflict, RunCancelled
from tests.kit.watching import info_of, until, until_state, working

kept: Counter[str] = Counter()
leave = Signal("leave", str)


@pytest.fixture(autouse=True)
def _nothing_is_kept() -> None:
    kept.clear()


@step
async def keep(what: str) -> str:
    kept[what] += 1
    return what


@workflow
async def guest(name: str) -> str:
    try:
        word = await leave.wait()
    finally:
        await keep(f"{name} left")
    return f"{name} {word}"


@workflow
async def visit(name: str) -> str:
    return await keep(name)


async def test_the_run_that_has_the_id_is_returned_also_when_it_is_over(app: App) -> None:
    async with working(app):
        first = await app.start(visit.options(id="v"), "ada")
        assert await first.result(timeout="60s") == "ada"
        again = await app.start(visit.options(id="v"), "ada")

        assert again.uid == first.uid
        assert await again.result(timeout="60s") == "ada"
        assert kept == {"ada": 1}


async def test_an_id_that_looks_like_a_uid_is_refused(app: App) -> None:
    async with app:
        run = await app.start(visit.options(id="v"), "ada")

        with pytest.raises(BadInput, match="format of run uids"):
            await app.start(visit.options(id=run.uid), "ada")
        with pytest.raises(BadInput, match="format of run uids"):
            await app.fork("v", new_id=run.uid)
        assert (await app.start(visit.options(id=str(uuid4())), "ada")).uid != run.uid


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("waiting", "the run with this id is waiting"),
        ("paused", "the run with this id is paused"),
        ("succeeded", "the run with this id has succeeded"),
        ("cancelled", "the run with this id was cancelled"),
    ],
)
async def test_a_rejection_says_how_the_run_stands(app: App, state: str, words: str) -> None:
    async with working(app):
        run = await app.start(guest.options(id="g"), "ada")
        await until_state(run, "waiting")
        match state:
            case "paused":
                await app.pause("g")
            case "succeeded":
                await run.signal(leave, "bye")
            case "cancelled":
                await run.cancel()
        await until_state(run, state)

        with pytest.raises(Conflict, match=words):
            await app.start(guest.options(id="g", on_conflict="reject"), "ada")


@pytest.mark.parametrize("policy", ["return", "reject"])
async def test_other_arguments_are_a_conflict_unless_they_replace(
    app: App, policy: Literal["return", "reject"]
) -> None:
    async with app:
        await app.start(visit.options(id="v"), "ada")

        with pytest.raises(Conflict, match="different arguments"):
            await app.start(visit.options(id="v", on_conflict=policy), "bob")
        with pytest.raises(Conflict, match="a different workflow"):
            await app.start(guest.options(id="v", on_conflict=policy), "ada")


async def test_an_unknown_policy_is_refused() -> None:
    with pytest.raises(BadInput, match="return, reject, replace"):
        visit.options(id="v", on_conflict="merge")  # type: ignore[arg-type] # a checker sees it too


async def test_a_delayed_run_is_replaced_before_it_ever_starts(app: App) -> None:
    later = visit.options(id="v", delay="1h", on_conflict="replace")
    soon = visit.options(id="v", delay="20ms", on_conflict="replace")
    async with working(app):
        first = await app.start(later, "ada")
        await app.start(later, "bob")
        last = await app.start(soon, "eve")

        assert await last.result(timeout="60s") == "eve"
        assert await first.result(timeout="60s") == "eve"
        assert kept == {"eve": 1}
        assert await app.counts() == {"succeeded": 1}
        rows = await app.runs()
        assert [row.reason for row in rows] == [None, "replaced", "replaced"]
        assert (rows[0].link, rows[0].follows) == ("replaces", rows[1].uid)


async def test_a_running_run_cleans_up_before_it_is_replaced(app: App) -> None:
    async with working(app):
        first = await app.start(guest.options(id="g"), "ada")
        await until_state(first, "waiting")

        second = await app.start(guest.options(id="g", on_conflict="replace"), "bob")

        assert kept == {"ada left": 1}
        old = await info_of(app, first.uid)
        assert (old.state, old.reason) == ("cancelled", "replaced")
        await second.signal(leave, "bye")
        assert await first.result(timeout="60s") == "bob bye"
        new = await info_of(app, second.uid)
        assert old.finished_at is not None
        assert (new.created_at >= old.finished_at, new.attempt) == (True, 1)


async def test_a_paused_run_is_replaced(app: App) -> None:
    async with working(app):
        first = await app.start(guest.options(id="g"), "ada")
        await until_state(first, "waiting")
        await app.pause("g")
        await until_state(first, "paused")

        second = await app.start(visit.options(id="g", on_conflict="replace"), "bob")

        assert await second.result(timeout="60s") == "bob"


@pytest.mark.parametrize("how", ["succeeded", "failed", "cancelled"])
async def test_a_run_that_is_over_is_replaced_at_once(app: App, how: str) -> None:
    async with working(app):
        first = await app.start(guest.options(id="g"), "ada")
        await until_state(first, "waiting")
        if how == "succeeded":
            await first.signal(leave, "bye")
        else:
            await first.cancel()
        await until_state(first, "succeeded", "cancelled")
        before = await info_of(app, first.uid)

        second = await app.start(visit.options(id="g", on_conflict="replace"), "ada")

        assert await second.result(timeout="60s") == "ada"
        after = await info_of(app, first.uid)
        assert (after.state, after.reason) == (before.state, before.reason)


async def test_of_many_who_replace_at_once_one_has_the_id(app: App) -> None:
    async with working(app):
        first = await app.start(guest.options(id="g"), "first")
        await until_state(first, "waiting")

        replacers = [
            app.start(guest.options(id="g", on_conflict="replace"), f"guest {n}") for n in range(5)
        ]
        runs = await asyncio.wait_for(asyncio.gather(*replacers), 60)

        assert len({run.uid for run in runs}) == 5
        await app.signal("g", leave, "bye")
        results = {await run.result(timeout="60s") for run in (first, *runs)}
        assert len(results) == 1
        assert results.pop().endswith("bye")
        states = Counter([row.state for row in await app.runs()])
        assert states == {"cancelled": 5, "succeeded": 1}


async def test_a_replaced_run_is_found_by_its_key(app: App) -> None:
    async with working(app):
        first = await app.start(visit.options(id="v"), "ada")
        await first.result(timeout="60s")
        await app.start(visit.options(id="v", on_conflict="replace"), "bob")

        listed = [info.uid for info in await app.runs()]
        assert first.uid in listed
        assert (await app.get("v")).uid != first.uid


@workflow
async def host_of_guest() -> str:
    try:
        return await guest.options(id="g")("ada")
    except RunCancelled as told:
        return f"{told.state} {told.reason}"


async def test_a_parent_gets_an_error_when_its_child_was_replaced(app: App) -> None:
    async with working(app):
        parent = await app.start(host_of_guest)

        async def is_there() -> bool:
            return any(info.state == "waiting" for info in await app.runs(name="guest"))

        await until(is_there)
        second = await app.start(visit.options(id="g", on_conflict="replace"), "bob")

        assert await parent.result(timeout="60s") == "cancelled replaced"
        assert await second.result(timeout="60s") == "bob"
        assert (await second.info()).parent is None


async def test_a_run_that_no_worker_has_is_replaced_all_the_same(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.engine.starting.PATIENCE_SECONDS", 0.05)
    async with app:
        first = await app.start(guest.options(id="g"), "ada")
        async with app.worker():
            await until_state(first, "waiting")
        last = await app.start(visit.options(id="g", on_conflict="replace"), "bob")

        assert (await info_of(app, first.uid)).state == "cancelled"
        async with app.worker():
            assert await last.result(timeout="60s") == "bob"
