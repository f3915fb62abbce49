"""Commits a second of many remote workers with one run each, on Postgres.

Each worker has a stream of its own, and its run commits one step after the other: the next one when
the server has answered the last. So each commit is a frame of its own in both directions. The
workers send bare messages from one process; the server is another one. Beside it stands what the
server's group commit does for as many workers without a network: `group_commit.py --workers 100`.

    python benchmarks/busy_workers.py --workers 100 --seconds 10
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc

from onward import App, workflow
from onward.core.instant import SECOND
from onward.wire.messages import messages

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.group_commit import ARGUMENTS, PAYLOAD, durable_postgres
from benchmarks.idle_workers import SERVE, cpu

LEASE = 600 * SECOND


@workflow(name="bench", queue="bench")
async def bench() -> None:
    raise NotImplementedError  # the workers of this benchmark only commit steps of it


class BusyWorker:
    """A worker whose only run commits one step after the other."""

    def __init__(self, channel: Any, number: int) -> None:
        self._id = f"busy-{number}"
        self._stream = channel.stream_stream("/onward.v1.Workers/Work")()
        self._commit = messages.Commit()
        self._sent_at = 0.0
        self.has_run = asyncio.Event()
        self.took: list[float] = []

    async def join(self) -> None:
        """Join, and claim a run."""
        registration = messages.Registration(
            worker=self._id, host="bench", pid=1, queues=["bench"], names=["bench"], slots=1
        )
        hello = messages.Hello(protocol=1, registration=registration, lease=LEASE)
        await self._send(messages.Request(id=1, hello=hello))
        await self._reply("hello")
        claim = messages.ClaimRequest(limit=1, wait=20 * SECOND)
        await self._send(messages.Request(id=2, claim=claim))
        [run] = (await self._reply("claim")).claim.runs
        self._commit.run, self._commit.fence = run.uid, run.fence

    async def commit(self, until: float) -> None:
        """Commit steps until a time of the performance counter."""
        number = 0
        while (began := time.perf_counter()) < until:
            number += 1
            await self._send(self._request(number))
            reply = await self._reply("commits")
            assert list(reply.commits.done) == [number], reply
            self.took.append(time.perf_counter() - began)

    def _request(self, number: int) -> Any:
        commit = self._commit
        commit.no = number
        del commit.records[:]
        commit.records.add(
            identity=f":charge#{number}",
            attempt=1,
            seq=number,
            kind="step",
            name="charge",
            state="succeeded",
            args_hash="9f86d081884c7d65",
            payload=PAYLOAD,
            args=ARGUMENTS,
        )
        return messages.Request(id=number + 2, commits=messages.CommitsRequest(commits=[commit]))

    async def _send(self, request: Any) -> None:
        await self._stream.write(request.SerializeToString())

    async def _reply(self, wanted: str) -> Any:
        while True:
            reply = messages.Response.FromString(await self._stream.read())
            kind = reply.WhichOneof("response")
            if kind == wanted:
                return reply
            assert kind in ("ping", "news"), reply


async def drive(address: str, count: int, seconds: float, pid: int) -> None:
    """Let so many workers commit, and print how many commits a second that makes."""
    async with App(f"onward://{address}") as app:
        await asyncio.gather(*(app.start(bench) for _ in range(count)))
    async with AsyncExitStack() as opened:
        workers = []
        for number in range(count):
            own = [("grpc.use_local_subchannel_pool", 1)]
            channel = grpc.aio.insecure_channel(address, options=own)
            workers.append(BusyWorker(await opened.enter_async_context(channel), number))
        await asyncio.gather(*(worker.join() for worker in workers))
        used, mine, began = cpu(pid), time.process_time(), time.perf_counter()
        until = began + seconds
        await asyncio.gather(*(worker.commit(until) for worker in workers))
        length = time.perf_counter() - began
        took = [each * 1000 for worker in workers for each in worker.took]
        rate = len(took) / length
        shares = (cpu(pid) - used) / length, (time.process_time() - mine) / length
        p50 = statistics.median(took)
        print(
            f"{count} workers: {rate:,.0f} commits/s, p50 {p50:.1f} ms; "
            f"server {shares[0]:.0%}, workers {shares[1]:.0%} of a core"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    pipe = subprocess.PIPE
    with (
        tempfile.TemporaryDirectory() as folder,
        durable_postgres(Path(folder)) as server,
        asyncio.Runner() as runner,  # one for all: gRPC keeps using its first loop
    ):
        for _ in range(given.rounds):
            command = [sys.executable, str(SERVE), "--serve", server.create_database()]
            with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as process:
                assert process.stdin is not None
                assert process.stdout is not None
                address = process.stdout.readline().strip()
                runner.run(drive(address, given.workers, given.seconds, process.pid))
                process.stdin.close()
                process.stdout.read()


if __name__ == "__main__":
    main()
