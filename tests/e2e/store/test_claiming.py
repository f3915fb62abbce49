"""Several processes share the runs of one database without ever sharing a run."""

import asyncio
from collections import Counter
from pathlib import Path

from onward.store import open_store
from onward.store.invariants import check
from tests.e2e.store.conftest import Spawn
from tests.e2e.store.notes import read
from tests.postgres.builders import a_run
from tests.postgres.hand import until

RUNS = 2000


async def test_four_processes_with_two_claimers_each_never_have_one_run_at_a_time(
    url: str, spawn: Spawn, tmp_path: Path
) -> None:
    async with open_store(url) as store:
        files = [tmp_path / f"notes-{number}" for number in range(4)]
        claimers = [
            spawn("tests.e2e.store.claimer", url, file, f"p{number}-", RUNS)
            for number, file in enumerate(files)
        ]
        await until(lambda: all_have_lines(files), 30)
        await asyncio.gather(*(store.start(a_run(f"r{number}")) for number in range(RUNS)))
        assert [await asyncio.to_thread(claimer.wait, 60) for claimer in claimers] == [0, 0, 0, 0]
        assert await store.counts() == {"succeeded": RUNS}
        assert await check(store) == []
        notes = {file: [line for line in read(file) if line != ["here"]] for file in files}
        assert all(notes.values())  # each process had its share
        lines = [line for found in notes.values() for line in found]
        claims = Counter((uid, int(fence)) for word, uid, fence, _ in lines if word == "claim")
        assert set(claims.values()) == {1}
        for number in range(RUNS):
            fence = (await store.run(f"r{number}")).fence
            assert all((f"r{number}", each) in claims for each in range(1, fence + 1))
        assert overlaps(lines) == []


async def all_have_lines(files: list[Path]) -> bool:
    return all(any(read(file)) for file in files)


def overlaps(lines: list[list[str]]) -> list[str]:
    """Return the runs that somebody claimed before the one who had them let go."""
    claimed: dict[str, list[tuple[int, int]]] = {}
    ended: dict[tuple[str, int], int] = {}
    for word, uid, fence, at in lines:
        if word == "claim":
            claimed.setdefault(uid, []).append((int(fence), int(at)))
        else:
            ended[uid, int(fence)] = int(at)
    return [
        uid
        for uid, claims in claimed.items()
        for fence, at in claims
        if fence > 1 and ended[uid, fence - 1] > at
    ]
