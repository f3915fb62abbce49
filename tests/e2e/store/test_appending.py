"""Several processes write to one SQLite file, and one of them keeps dying."""

import sqlite3
from contextlib import closing
from pathlib import Path

from onward.store import open_store
from onward.store.invariants import check
from tests.e2e.store.appender import RUNS_EACH
from tests.e2e.store.conftest import Spawn
from tests.e2e.store.notes import read
from tests.postgres.builders import a_run
from tests.postgres.hand import until

KILLS = 5
RECORDS_BETWEEN = 40


def stop(file: Path) -> None:
    file.with_name(f"{file.name}.stop").touch()


async def grows(file: Path) -> None:
    """Wait until some more records were noted."""
    goal = len(list(read(file))) + RECORDS_BETWEEN

    async def is_there() -> bool:
        return len(list(read(file))) >= goal

    await until(is_there, 30)


async def test_four_processes_append_to_one_file_while_one_of_them_is_killed_again_and_again(
    spawn: Spawn, tmp_path: Path
) -> None:
    url = str(tmp_path / "onward.db")
    queues = [f"q{number}" for number in range(4)]
    files = [tmp_path / f"notes-{queue}" for queue in queues]
    async with open_store(url) as store:
        for queue in queues:
            for number in range(RUNS_EACH):
                await store.start(a_run(f"{queue}-{number}", queue=queue))
    module = "tests.e2e.store.appender"
    appenders = [spawn(module, url, file, queue) for file, queue in zip(files, queues, strict=True)]
    for _ in range(KILLS):
        for file in files:
            await grows(file)
        appenders[0].kill()
        assert appenders[0].wait() == -9
        appenders[0] = spawn(module, url, files[0], queues[0])
    for file in files:
        await grows(file)
        stop(file)
    assert [appender.wait(30) for appender in appenders] == [0, 0, 0, 0]
    await everything_noted_is_there(url, files)


async def everything_noted_is_there(url: str, files: list[Path]) -> None:
    async with open_store(url) as store:
        noted = {(uid, int(seq)) for file in files for uid, seq in read(file)}
        runs = {uid for uid, _ in noted}
        assert len(runs) == 4 * RUNS_EACH
        histories = await store.history(runs)
        there = {(uid, record.seq) for uid in runs for record in histories[uid]}
        assert noted - there == set()
        assert len(there - noted) <= KILLS * RUNS_EACH  # written, and killed before it was noted
        assert await check(store) == []
    with closing(sqlite3.connect(url)) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
