"""Rows that were damaged, edited by hand or written by a newer version spoil only their own run."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any, NamedTuple

import asyncpg
import pytest

from onward import App, Retry, Signal, effect, step, workflow
from onward.engine.loading import read_each
from onward.errors import NewerRow, RunFailed, RunPaused, UnreadableRow
from tests.kit.watching import lasting, until, until_open, until_state

if TYPE_CHECKING:
    from collections.abc import Iterable

go = Signal("go", str)


@step
async def one(x: int) -> int:
    return x + 1


@effect(approve=True)
async def ring(x: int) -> int:
    return x


@workflow
async def victim(n: int) -> str:
    word = await go.wait()
    number = await one(n)
    other = await go.wait()
    return f"{word} {number} {other}"


@workflow
async def rings(n: int) -> int:
    return await ring(n)


@workflow
async def fails(n: int) -> None:
    raise LookupError(str(n))


holding: dict[int, asyncio.Event] = {}


@step
async def hold(n: int) -> None:
    holding[n] = asyncio.Event()
    await holding[n].wait()


@workflow
async def holds(n: int) -> str:
    await hold(n)
    return await go.wait()


@workflow
async def holds_and_listens_twice(n: int) -> str:
    await hold(n)
    return await go.wait() + await go.wait()


@workflow
async def innocent(n: int) -> int:
    return await one(n)


class Edit(NamedTuple):
    """What is done to a row of the run `{uid}`, and what becomes of that run."""

    sql: str
    state: str
    reason: str | None
    error: str = ""


RUN, DATA = "UPDATE onward_run SET", "UPDATE onward_run_data SET"
RECORD, INBOX = "UPDATE onward_record SET", "UPDATE onward_inbox SET"
OF = "WHERE run = '{uid}'"

EDITS = {
    "record of an unknown kind": Edit(
        f"{RECORD} kind = 'future' {OF} AND kind = 'step'",
        "paused",
        "divergence",
        "record ':one#1', attempt 1, of run {uid} cannot be read: its kind is 'future'",
    ),
    "record without a payload": Edit(
        f"{RECORD} payload = NULL {OF} AND kind = 'step'",
        "failed",
        "internal",
        "record ':one#1' of run {id} cannot be read: ValueError: the payload is missing",
    ),
    "clock record without a payload": Edit(
        f"{RECORD} kind = 'clock', identity = '=clock.2', payload = NULL {OF} AND kind = 'step'",
        "failed",
        "internal",
        "record '=clock.2' of run {id} cannot be read: ValueError: the payload is missing",
    ),
    "clock record in another codec": Edit(
        f"{RECORD} kind = 'clock', identity = '=clock.2', payload = '{{garbage}}' {OF}"
        " AND kind = 'step'",
        "paused",
        "divergence",
        "record '=clock.2' of run {id} cannot be read: its codec tag is",
    ),
    "record in another codec": Edit(
        f"{RECORD} payload = '{{garbage}}' {OF} AND kind = 'step'",
        "paused",
        "divergence",
        "record ':one#1' of run {id} cannot be read: its codec tag is",
    ),
    "error in another codec": Edit(
        f"{RECORD} state = 'failed', error = '{{garbage}}' {OF} AND kind = 'step'",
        "paused",
        "divergence",
        "record ':one#1' of run {id} cannot be read: its codec tag is",
    ),
    "position taken twice": Edit(
        f"{RECORD} seq = 1 {OF} AND seq IS NOT NULL",
        "failed",
        "internal",
        "of run {uid} cannot be read: another record has the same position, 1",
    ),
    "message of an unknown kind": Edit(
        f"{INBOX} kind = 'future' {OF} AND seq = 2",
        "paused",
        "divergence",
        "message 2 of run {uid} cannot be read: its kind is 'future'",
    ),
    "message in another codec": Edit(
        f"{INBOX} payload = '{{garbage}}' {OF} AND seq = 2",
        "paused",
        "divergence",
        "signal 'go' does not match str: its codec tag is",
    ),
    "cancel for an unknown reason": Edit(
        f"{INBOX} kind = 'cancel', name = 'sunspots', payload = '{{garbage}}' {OF} AND seq = 2",
        "cancelled",
        "operator",
    ),
    "arguments in another codec": Edit(
        f"{DATA} input = '{{garbage}}' WHERE uid = '{{uid}}'",
        "paused",
        "divergence",
        "the arguments of run {id} cannot be read: its codec tag is",
    ),
    "attributes in another codec": Edit(
        f"{DATA} attributes = '{{garbage}}' WHERE uid = '{{uid}}'",
        "paused",
        "divergence",
        "the attributes of run {id} cannot be read: its codec tag is",
    ),
    "no data": Edit(
        "DELETE FROM onward_run_data WHERE uid = '{uid}'",
        "failed",
        "internal",
        "the data of run {id} cannot be read: its row is missing",
    ),
    "a step by the name of a workflow": Edit(
        f"{RUN} kind = 'step' WHERE uid = '{{uid}}'",
        "failed",
        "internal",
        "run {id} cannot be read: its name 'victim' does not match its kind 'step'",
    ),
    "a consumer by the name of a workflow": Edit(
        f"{RUN} kind = 'consumer' WHERE uid = '{{uid}}'",
        "failed",
        "internal",
        "run {id} cannot be read: its name 'victim' does not match its kind 'consumer'",
    ),
    "a time that no calendar has": Edit(
        f"{RUN} deadline = 9223372036854775807 WHERE uid = '{{uid}}'", "succeeded", None
    ),
    "nothing": Edit("SELECT 1", "succeeded", None),
}

# Reading the signal with the id "torn" is an error, as if its page were damaged.
TEAR = (
    "ALTER TABLE onward_inbox RENAME TO torn_inbox",
    "CREATE VIEW onward_inbox AS SELECT * FROM torn_inbox"
    " WHERE message <> 'signal torn' OR 1 / (seq - seq) = 1",
)


async def execute(url: str, statements: Iterable[str]) -> None:
    """Run statements as an operator with a shell would."""
    if url.startswith("postgresql:"):
        other = await asyncpg.connect(url)
        try:
            await other.execute("SET search_path TO onward")
            for sql in statements:
                await other.execute(sql.replace("'{garbage}'", r"'\xff00'"))
        finally:
            await other.close()
        return
    with sqlite3.connect(url) as file:
        for sql in statements:
            file.execute(sql.replace("'{garbage}'", "x'ff00'"))
    file.close()


@lasting
async def test_a_damaged_row_spoils_only_its_own_run(url: str) -> None:
    async with App(url) as app:
        async with app.worker(warm=0):
            runs = {name: await app.start(victim.options(id=name), 1) for name in EDITS}
            for run in runs.values():
                await run.signal(go, "first")
            for run in runs.values():
                await until_state(run, "waiting")
        for run in runs.values():
            await run.signal(go, "second")
        await execute(
            url, [edit.sql.replace("{uid}", runs[name].uid) for name, edit in EDITS.items()]
        )

        async with app.worker(warm=0):
            assert await app.run(innocent, 1) == 2
            for name, run in runs.items():
                await until_state(run, EDITS[name].state)
            infos = {name: await run.info() for name, run in runs.items()}
            listed = {info.id: info.state for info in await app.runs(name="victim")}
            assert await app.run(innocent, 2) == 3

        assert {name: (info.state, info.reason) for name, info in infos.items()} == {
            name: (edit.state, edit.reason) for name, edit in EDITS.items()
        }
        assert listed == {name: edit.state for name, edit in EDITS.items()}
        for name, edit in EDITS.items():
            error = edit.error.replace("{uid}", runs[name].uid).replace("{id}", name)
            assert error in (infos[name].error or "")


@pytest.mark.parametrize("url", ["postgres"], indirect=True)
async def test_an_inbox_that_cannot_be_read_while_runs_execute_ends_only_its_own_run(
    url: str,
) -> None:
    holding.clear()

    async def are_executing() -> bool:
        return len(holding) == 2

    async with App(url) as app, app.worker():
        runs = [await app.start(holds, n) for n in (1, 2)]
        await until(are_executing)
        bad, good = runs
        await execute(url, TEAR)
        await good.signal(go, "on")
        await bad.signal(go, "torn", message_id="torn")
        await until_state(bad, "failed")
        holding[2].set()
        assert await good.result(timeout="60s") == "on"
        assert f"the history or the inbox of run {bad.id} cannot be read" in str(await bad.info())


@lasting
async def test_waiting_for_an_unreadable_run_raises(url: str) -> None:
    async with App(url) as app:
        run = await app.start(victim, 1)
        await execute(url, [f"DELETE FROM onward_run_data WHERE uid = '{run.uid}'"])
        async with app.worker():
            with pytest.raises(RunFailed, match="its row is missing"):
                await run.result(timeout="60s")

            other = await app.start(victim, 1)
            await until_state(other, "waiting")
            sql = f"UPDATE onward_inbox SET kind = 'future' WHERE run = '{other.uid}'"
        await other.signal(go, "on")
        await execute(url, [sql])
        async with app.worker():
            with pytest.raises(RunPaused, match="its kind is 'future'"):
                await other.result(timeout="60s", raise_paused=True)


@lasting
async def test_a_message_beyond_the_count_of_its_run_is_named(url: str) -> None:
    async with App(url) as app:
        async with app.worker(warm=0):
            run = await app.start(victim, 1)
            await until_state(run, "waiting")
        await run.signal(go, "on")
        await execute(url, [f"{INBOX} seq = seq + 100 {OF}".replace("{uid}", run.uid)])
        async with app.worker(warm=0):
            with pytest.raises(
                RunFailed, match=r"message 101 of run .* the run has received only 1 message"
            ):
                await run.result(timeout="60s")


@pytest.mark.parametrize("url", ["file"], indirect=True)
async def test_a_run_waits_on_after_the_database_has_lost_a_message(url: str) -> None:
    holding.clear()

    async def is_executing() -> bool:
        return 1 in holding

    async with App(url) as app, app.worker() as worker:
        run = await app.start(holds_and_listens_twice, 1)
        await until(is_executing)
        await run.signal(go, "a")

        async def has_heard() -> bool:
            return worker.running[run.uid].seen == 1

        await until(has_heard)
        lost = [f"DELETE FROM onward_inbox {OF}", f"{RUN} inbox = 0 WHERE uid = '{{uid}}'"]
        await execute(url, [sql.replace("{uid}", run.uid) for sql in lost])
        holding[1].set()
        await until_state(run, "waiting")
        await run.signal(go, "b")
        assert await run.result(timeout="60s") == "ab"


@lasting
async def test_an_effect_in_flight_that_was_never_sent_is_named(url: str) -> None:
    async with App(url) as app:
        async with app.worker(warm=0):
            run = await app.start(rings, 1)
            await until_state(run, "paused")
        [info] = await app.effects.pending()
        damaged = "UPDATE onward_effect SET state = 'in_flight', attempt = 0"
        await execute(url, [f"{damaged} {OF}".replace("{uid}", run.uid)])
        await app.resume(run.id)
        async with app.worker(warm=0):
            with pytest.raises(
                RunFailed, match=f"effect {info.id} cannot be read: it is in flight"
            ):
                await run.result(timeout="60s")


@lasting
async def test_a_run_that_cannot_be_read_can_be_cancelled(url: str) -> None:
    async with App(url) as app:
        async with app.worker(warm=0):
            run = await app.start(victim, 1)
            await run.signal(go, "first")
            await until_open(run, "go")
            await until_state(run, "waiting")
        await execute(url, [EDITS["record of an unknown kind"].sql.replace("{uid}", run.uid)])
        await run.signal(go, "second")
        async with app.worker():
            await until_state(run, "paused")
            await run.cancel()
            await until_state(run, "cancelled")


@lasting
async def test_an_effect_that_cannot_be_read_is_not_sent_and_hides_no_other(url: str) -> None:
    async with App(url) as app:
        async with app.worker():
            runs = [await app.start(rings, n) for n in (1, 2)]
            for run in runs:
                await until_state(run, "paused")
        bad, good = runs
        await execute(
            url, [f"UPDATE onward_effect SET args = '{{garbage}}' {OF}".replace("{uid}", bad.uid)]
        )

        pending = {info.run_uid: info for info in await app.effects.pending()}
        assert pending[good.uid].arguments == {"x": 2}
        assert "cannot be read" in str(pending[bad.uid].arguments)

        for info in pending.values():
            await app.effects.approve(info.id, reason="fine")
        async with app.worker():
            assert await good.result(timeout="60s") == 2
            await until_state(bad, "paused")
            assert (await bad.info()).reason == "divergence"
            [info] = await app.effects.of(bad.id)
            assert info.state == "planned"


@lasting
async def test_a_retry_policy_that_cannot_be_read_is_named(url: str) -> None:
    async with App(url) as app:
        run = await app.start(fails.options(retry=Retry(attempts=2)), 1)
        await execute(url, [f"{DATA} retry = 'garbage' WHERE uid = '{run.uid}'"])
        async with app.worker():
            with pytest.raises(RunFailed, match=r"the retry policy of run .* cannot be read"):
                await run.result(timeout="60s")


@pytest.mark.parametrize("url", ["file"], indirect=True)
async def test_text_that_is_no_utf_8_is_read_as_far_as_it_can_be(url: str) -> None:
    async with App(url) as app:
        async with app.worker(warm=0):
            run = await app.start(victim, 1)
            await until_state(run, "waiting")
        await run.signal(go, "on")
        await execute(url, [f"{INBOX} kind = CAST(x'ff' AS TEXT) WHERE run = '{run.uid}'"])
        async with app.worker(warm=0):
            assert await app.run(innocent, 1) == 2
            await until_state(run, "paused")

        assert r"its kind is '\\xff'" in str((await run.info()).error)


async def test_what_fails_for_many_runs_is_read_for_each() -> None:
    async def read(uids: list[str]) -> dict[str, Any]:
        if "bad" in uids:
            raise KeyError("bad")
        return dict.fromkeys(uids, 1)

    found, failed = await read_each(read, ["a", "bad", "b"])

    assert found == {"a": 1, "b": 1}
    assert [type(error) for error in failed.values()] == [KeyError]


def test_the_errors_name_the_row_and_the_next_move() -> None:
    assert str(NewerRow("record 1", "its kind is new")).startswith(
        "record 1 cannot be read: its kind is new. Upgrade Onward"
    )
    assert str(UnreadableRow("record 1", "it is torn")).startswith(
        "record 1 cannot be read: it is torn. Restore the row"
    )
