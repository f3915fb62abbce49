"""A hostile worker with a valid key: what it can do to others, in figures.

    python -m tools.hostile_worker                                  # 100,000 frames on SQLite
    python -m tools.hostile_worker --frames 20000 --store postgres --seed 7

A server process serves victims, an honest worker and the hostile one. The hostile worker is a
process of its own, and sends frames that are made from the protobuf descriptors. The command prints
the p99 of the honest worker's commits alone and beside the attack, and the memory of the server. It
fails if a row of others has changed, if an invariant is broken for others, or if the server failed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import grpc

from onward.store import open_store
from onward.store.invariants import check
from onward.testing.postgres import PostgresServer
from tests.server.hostile.attack import HostileWorker
from tests.server.hostile.ground import (
    Ground,
    contents,
    create_keys,
    foreign_violations,
    foreign_writes,
)
from tests.server.hostile.honest import HonestWorker, percentile
from tests.server.hostile.values import Pool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.server.hostile.ground import Keys

ALONE_SECONDS = 15.0
ATTACKED_RUNS = 2_000
OPTIONS = (("grpc.max_send_message_length", 64 * 1024 * 1024),)


def main() -> int:
    """Run the attack that the arguments describe."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--frames", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after so long")
    parser.add_argument("--seed", type=int, default=14)
    parser.add_argument("--store", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--max-bytes", type=int, default=9_000_000)
    parser.add_argument("--attack", metavar="ADDRESS", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.attack:
        return asyncio.run(attack(given, json.load(sys.stdin)))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = str(folder / "onward.db")
        if given.store == "postgres":
            url = stack.enter_context(PostgresServer.start()).create_database()
        return asyncio.run(stand(given, url, folder))


async def attack(given: argparse.Namespace, known: Any) -> int:
    """Be the hostile worker."""
    pool = Pool(**known["pool"])
    async with grpc.aio.insecure_channel(given.attack, options=OPTIONS) as channel:
        rng = Random(given.seed)
        hostile = HostileWorker(channel, known["key"], pool, rng, given.max_bytes)
        tally = await hostile.attack(given.frames, given.seconds)
    print(tally, flush=True)
    for each in tally.broken[:10]:
        print(f"the server failed: {each}")
    return bool(tally.broken)


@contextmanager
def a_server(url: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Enter with the address and the process id of a server."""
    words = ("--db", url, "--grpc", "127.0.0.1:0", "--json", "--log-level", "warning")
    with (
        (folder / "log").open("w") as log,
        subprocess.Popen(
            [sys.executable, "-m", "onward", "server", *words],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        ) as process,
    ):
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())["address"], process.pid
        finally:
            process.terminate()


async def stand(given: argparse.Namespace, url: str, folder: Path) -> int:
    """Measure the honest worker alone and beside the attack, and compare all rows of others."""
    keys = await create_keys(url)
    with a_server(url, folder) as (address, pid):
        async with grpc.aio.insecure_channel(address) as channel:
            ground = Ground(channel, keys)
            pool = await ground.prepare(min(ATTACKED_RUNS, given.frames // 20))
            before = await contents(url)
            honest = HonestWorker(channel, keys.honest, ground.client)
            await honest.join()
            alone = await honest.measure(asyncio.Event(), ALONE_SECONDS)
            resident = memory(pid)
            status, beside = await beside_attack(given, address, keys, pool, honest)
            print(f"server memory: {resident[0]} before, {memory(pid)[0]} after, {memory(pid)[1]}")
            after = await contents(url)
            await honest.close()
            await ground.close()
    report("alone ", alone)
    report("beside", beside)
    ratio = percentile(beside, 0.99) / percentile(alone, 0.99)
    print(f"p99 of the honest worker beside the attack: {ratio:.2f} times that alone")
    wrong = foreign_writes(before, after, keys.hostile_id) + honest.wrong
    for namespace in ("default", "bank"):
        async with open_store(url, namespace=namespace) as store:
            wrong += foreign_violations(await check(store), after)
    failed = (folder / "log").read_text().splitlines()
    wrong += [line[:500] for line in failed if "server.failed" in line]
    print(f"{len(wrong)} rows of others changed, invariants broken, or failures of the server")
    for each in wrong[:20]:
        print(each)
    return int(bool(wrong) or status != 0)


async def beside_attack(
    given: argparse.Namespace, address: str, keys: Keys, pool: Pool, honest: HonestWorker
) -> tuple[int, list[float]]:
    """Run the hostile worker, and measure the honest one until it ends."""
    words = [f"--{name}={getattr(given, name.replace('-', '_'))}" for name in PASSED]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tools.hostile_worker",
        *words,
        f"--attack={address}",
        stdin=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps({"key": keys.hostile, "pool": vars(pool)}).encode())
    process.stdin.close()
    ended = asyncio.Event()
    measuring = asyncio.create_task(honest.measure(ended, 3600.0))
    status = await process.wait()
    ended.set()
    return status, await measuring


PASSED = ("frames", "seconds", "seed", "max-bytes")


def memory(pid: int) -> tuple[str, str]:
    """Return the resident memory of a process, and its peak."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    found = dict(line.split(":", 1) for line in lines)
    now, peak = (int(found[name].split()[0]) // 1024 for name in ("VmRSS", "VmHWM"))
    return f"{now} MiB", f"{peak} MiB at the peak"


def report(name: str, took: list[float]) -> None:
    """Print how long commits took."""
    parts = ", ".join(f"p{part:.0%} {percentile(took, part):.2f}" for part in (0.5, 0.9, 0.99))
    print(f"honest commits {name}: {len(took):,}, ms: {parts.replace('%', '')}")


if __name__ == "__main__":
    sys.exit(main())
