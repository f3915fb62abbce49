"""What a server needs for remote workers that have nothing to do, on each database.

Each worker has a connection and a stream of its own, on which a claim waits and pings are answered,
and renews its lease three times within its length. They send bare messages, because a thousand
complete workers in one process would need more than they are to measure.

    python benchmarks/idle_workers.py --workers 1000 --seconds 30
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc

from onward.core.instant import SECOND
from onward.wire.messages import messages

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.group_commit import durable_postgres

LEASE_SECONDS = 15
SERVE = Path(__file__).with_name("workloads.py")


class IdleWorker:
    """A worker that waits for runs."""

    def __init__(self, channel: Any, number: int) -> None:
        self._id = f"idle-{number}"
        self._renew = channel.unary_unary("/onward.v1.Workers/Renew")
        self._stream = channel.stream_stream("/onward.v1.Workers/Work")()
        self._requests = 0
        self.has_joined = asyncio.Event()
        self.renewals = 0

    async def live(self) -> None:
        """Work until cancelled; an error means that the server dropped this worker."""
        registration = messages.Registration(
            worker=self._id, host="bench", pid=1, queues=["default"], names=["none"], slots=10
        )
        lease = LEASE_SECONDS * SECOND
        await self._send(hello=messages.Hello(protocol=1, registration=registration, lease=lease))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._read())
            tasks.create_task(self._keep_lease(lease))

    async def _send(self, **request: Any) -> None:
        self._requests += 1
        message = messages.Request(id=self._requests, **request)
        await self._stream.write(message.SerializeToString())

    async def _read(self) -> None:
        async for data in self._stream:
            kind = messages.Response.FromString(data).WhichOneof("response")
            if kind == "hello":
                self.has_joined.set()
            if kind in ("hello", "claim"):
                await self._send(claim=messages.ClaimRequest(limit=10, wait=20 * SECOND))
            elif kind == "ping":
                await self._send(ping=messages.Ping())
        raise ConnectionError("the server ended the stream")

    async def _keep_lease(self, lease: int) -> None:
        await self.has_joined.wait()
        while True:
            await asyncio.sleep(LEASE_SECONDS / 3)
            request = messages.RenewRequest(worker=self._id, length=lease)
            reply = messages.RenewReply.FromString(await self._renew(request.SerializeToString()))
            assert reply.is_kept, "the lease was lost"
            self.renewals += 1


async def watch(address: str, count: int, seconds: float, pid: int) -> float:
    """Return the share of a core that a server uses while so many workers are idle."""
    async with AsyncExitStack() as opened:
        workers: list[IdleWorker] = []
        tasks = await opened.enter_async_context(asyncio.TaskGroup())
        for number in range(count):
            own = [("grpc.use_local_subchannel_pool", 1)]
            channel = grpc.aio.insecure_channel(address, options=own)
            workers.append(IdleWorker(await opened.enter_async_context(channel), number))
        living = [tasks.create_task(worker.live()) for worker in workers]
        for worker in workers:
            await worker.has_joined.wait()
        await asyncio.sleep(LEASE_SECONDS)  # until the renewals have spread
        renewed, used, began = sum(each.renewals for each in workers), cpu(pid), time.monotonic()
        await asyncio.sleep(seconds)
        took = time.monotonic() - began
        share = (cpu(pid) - used) / took
        assert not any(task.done() for task in living), "a worker was dropped"
        renewals = (sum(each.renewals for each in workers) - renewed) / took
        print(f"  {renewals:,.0f} renewals a second (expected {count * 3 / LEASE_SECONDS:,.0f})")
        for task in living:
            task.cancel()
        await asyncio.wait(living)  # before their channels are closed
    return share


def cpu(pid: int) -> float:
    """Return the seconds of CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def measure(runner: asyncio.Runner, url: str, count: int, seconds: float) -> float:
    pipe = subprocess.PIPE
    command = [sys.executable, str(SERVE), "--serve", url]
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        share = runner.run(watch(address, count, seconds, server.pid))
        server.stdin.close()
        server.stdout.read()
        return share


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=30.0)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as files,
        tempfile.TemporaryDirectory() as folder,
        durable_postgres(Path(folder)) as server,
        asyncio.Runner() as runner,  # one for all: gRPC keeps using its first loop
    ):
        urls = {"SQLite": str(Path(files, "idle.db")), "Postgres": server.create_database()}
        for database, url in urls.items():
            share = measure(runner, url, given.workers, given.seconds)
            print(f"{database:9} {given.workers:,} idle workers: {share:.1%} of a core")


if __name__ == "__main__":
    main()
