"""A bulk retry whose workers are killed on the way: each run must be retried once."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from onward import App, Retry, effect, step, workflow
from onward.store import open_store
from onward.store.invariants import check
from tests.e2e.engine.outside import VARIABLE

if TYPE_CHECKING:
    from onward import Run
    from onward.sdk.bulk import BulkReport
    from tests.e2e.engine.supervisor import Crew

REFUSED_EVERY = 10
"""One of so many runs has made an effect because of its error."""

END_SECONDS = 1200.0


class BulkTally(NamedTuple):
    """What a bulk retry went through."""

    runs: int
    kills: int
    done: int
    refused: int
    claims: int


def repaired() -> Path:
    """Return the file that repairs what the runs failed at by being there."""
    return Path(f"{os.environ[VARIABLE]}.repaired")


@step(retry=Retry(attempts=1))
async def take_part(n: int) -> int:
    if not repaired().exists():
        raise ValueError(f"part {n} is missing")
    return n


@effect
async def apologise(n: int) -> None: ...


@workflow
async def assemble(n: int) -> int:
    try:
        return await take_part(n)
    except ValueError:
        if n % REFUSED_EVERY == 0:
            await apologise(n)
        raise


async def retry_in_bulk(crew: Crew, runs: int, kills: int) -> BulkTally:
    """Let so many runs fail, retry them in bulk, and kill the worker so often on the way."""
    async with App(crew.url) as app, open_store(crew.url) as store:
        await _fail(app, runs)
        repaired().touch()
        answer = await app.bulk.retry(name="assemble", error="ValueError")
        assert answer.run is not None
        assert answer.count == runs
        uid = (await answer.run.info()).uid
        for nth in range(1, kills + 1):
            claims = (await store.run(uid)).fence
            worker = await crew.worker("--lease", "2", "--slots", "1000")
            await _until_done(answer.run, runs * nth // (kills + 1))
            async with asyncio.timeout(END_SECONDS):
                while (await store.run(uid)).fence == claims:  # noqa: ASYNC110 - the worker claims
                    await asyncio.sleep(0.02)
            assert await answer.run.state() not in ("succeeded", "failed")
            await worker.kill()
        await crew.worker()
        async with asyncio.timeout(END_SECONDS):
            report = await answer.run.result()
        refused = len(range(0, runs, REFUSED_EVERY))
        assert (report.done, report.refused) == (runs - refused, refused), report
        assert report.by_error == {"undone": refused}
        assert {each.option for each in report.refusals} == {"force"}
        await _see_ends(app, runs)
        assert await check(store) == []
        claims = (await store.run(uid)).fence
        return BulkTally(runs, kills, report.done, report.refused, claims)


async def _fail(app: App, runs: int) -> None:
    """Start runs that fail, in this process."""
    async with app.worker(workflows=[assemble], slots=1000):
        for first in range(0, runs, 500):
            started = [
                await app.start(assemble.options(id=f"part-{n}"), n)
                for n in range(first, min(runs, first + 500))
            ]
            await asyncio.gather(*(run.result() for run in started), return_exceptions=True)
    assert await app.dead.count() == runs


async def _until_done(run: Run[BulkReport], count: int) -> None:
    """Wait until a bulk action has dealt with so many runs."""
    async with asyncio.timeout(END_SECONDS):
        while True:
            progress = (await run.info()).progress or {}
            if progress.get("done", 0) + progress.get("refused", 0) >= count:
                return
            await asyncio.sleep(0.02)


async def _see_ends(app: App, runs: int) -> None:
    """Check that each run was retried once, and that the refused ones are dead letters still."""
    attempts: Counter[str] = Counter()
    before = None
    while page := await app.runs(name="assemble", limit=1000, before=before):
        attempts.update(info.id for info in page)
        before = page[-1].uid
    assert len(attempts) == runs
    for n in range(runs):
        refused = n % REFUSED_EVERY == 0
        assert attempts[f"part-{n}"] == (1 if refused else 2), f"part-{n}"
        if not refused:
            assert await (await app.get(f"part-{n}")).result(timeout=60) == n
    assert await app.dead.count() == len(range(0, runs, REFUSED_EVERY))
