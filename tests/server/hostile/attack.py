"""A hostile worker at work: joins, floods its stream, calls what is not its own, joins again."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import grpc

from onward.core.instant import SECOND
from onward.wire.messages import messages
from onward.wire.operations import OPERATIONS
from tests.server.hostile.frames import FrameMaker
from tests.server.hostile.ground import HOSTILE, metadata_of
from tests.server.hostile.values import Forger
from tests.server.raw import RawClient, RawStream

if TYPE_CHECKING:
    from collections.abc import Mapping
    from random import Random

    from tests.server.hostile.values import Pool

FRAMES_A_STREAM = 2_000
FIRST_FRAMES = 100
"""How many frames the first stream has; the server reads all of them before the next one."""
MAX_RUNS = 15
_UNARY = ("Renew", "ReleaseOthers", "NoteBlocked")
_GONE = (grpc.aio.AioRpcError, asyncio.InvalidStateError, TimeoutError)


@dataclass
class Tally:
    """What came of an attack."""

    frames: int = 0
    streams: int = 0
    claimed: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """How many answers of each kind; problems by their code, commits by their fate."""
    broken: list[str] = field(default_factory=list)
    """Answers that no request may have: the server failed."""

    def __str__(self) -> str:
        common = ", ".join(f"{name} {count:,}" for name, count in self.answers.most_common(12))
        return (
            f"{self.frames:,} frames on {self.streams:,} streams, {self.claimed:,} runs claimed; "
            f"answers: {common}"
        )


class HostileWorker:
    """A worker that has a valid key for one queue, and wants more.

    Args:
        channel: The connection.
        key: Its key.
        pool: What it knows.
        rng: Decides on everything.
        max_bytes: How large its largest values are.
    """

    def __init__(
        self, channel: Any, key: str, pool: Pool, rng: Random, max_bytes: int = 9_000_000
    ) -> None:
        self._channel = channel
        self._metadata = metadata_of(key)
        self._client = RawClient(channel)
        self._client.metadata = self._metadata
        self._pool = pool
        self._rng = rng
        self._forger = Forger(rng, pool, max_bytes)
        self._maker = FrameMaker(self._forger, HOSTILE)
        self._number = 0
        self.tally = Tally()

    async def attack(self, frames: int, seconds: float = 3600.0) -> Tally:
        """Send so many frames, on as many streams as that takes, for at most so long."""
        end = time.monotonic() + seconds
        await self._claim()
        held = dict(self._pool.runs)
        await self._stream(FIRST_FRAMES, held)
        while self.tally.frames < frames and time.monotonic() < end:
            count = min(FRAMES_A_STREAM, frames - self.tally.frames)
            await self._stream(self._rng.randrange(1, count + 1))
        return self.tally

    async def _claim(self) -> None:
        """Join and claim as one should: whether a forged claim succeeds depends on its timing.

        The first stream of the attack is the next one of this worker, and has its runs.
        """
        self._pool.worker = f"{HOSTILE}-0"
        async with RawStream(
            self._channel,
            self._pool.worker,
            self._metadata,
            queues=[HOSTILE],
            names=["attack"],
            slots=9,
        ) as stream:
            await stream.join()
            for run in await stream.claim(limit=2):
                self._keep(run)
        self.tally.frames += 2
        self.tally.streams += 1

    async def _stream(self, count: int, held: Mapping[str, Any] | None = None) -> None:
        stream: Any = self._channel.stream_stream("/onward.v1.Workers/Work")(
            metadata=self._metadata
        )
        self.tally.streams += 1
        self._maker.has_left = False
        reader = asyncio.create_task(self._read(stream))
        try:
            hello = self._hello() if held is None else self._reconnect(held)
            await stream.write(messages.Request(id=1, hello=hello).SerializeToString())
            self.tally.frames += 1
            for _ in range(count):
                if reader.done() or (self._maker.has_left and self._rng.random() < 0.2):
                    break
                await stream.write(self._maker.frame())
                self.tally.frames += 1
                if self._rng.random() < 0.02:
                    await self._call()
            if held is not None or self._rng.random() < 0.5:
                await stream.done_writing()
                await asyncio.wait([reader], timeout=5)
        except _GONE:
            pass
        finally:
            stream.cancel()
            await asyncio.wait([reader])

    def _hello(self) -> Any:
        """Join, mostly as one should: without runs, there is little to try."""
        if self._rng.random() < 0.7:
            self._number += 1
            self._pool.worker = f"{HOSTILE}-{self._number}"
        hello = self._join()
        if self._rng.random() < 0.3:
            hello.is_reconnect = True
            for uid, run in self._pool.runs.items():
                hello.held[uid] = run.fence
            for uid, fence in self._pool.others:
                hello.held[uid] = fence
        for _ in range(self._rng.choice((0, 0, 0, 1, 2))):
            self._forger.mutate(hello)
        return hello

    def _join(self) -> Any:
        registration = messages.Registration(
            worker=self._pool.worker, host="h", pid=1, queues=[HOSTILE], names=["attack"], slots=9
        )
        return messages.Hello(protocol=1, registration=registration, lease=15 * SECOND)

    def _reconnect(self, held: Mapping[str, Any]) -> Any:
        hello = self._join()
        hello.is_reconnect = True
        for uid, run in held.items():
            hello.held[uid] = run.fence
        return hello

    async def _read(self, stream: Any) -> None:
        try:
            async for data in stream:
                self._hear(messages.Response.FromString(data))
        except _GONE as error:
            code = getattr(error, "code", lambda: "broken")()
            self.tally.answers[f"stream {code}"] += 1

    def _hear(self, response: Any) -> None:
        kind = response.WhichOneof("response") or "empty"
        answers = self.tally.answers
        if kind == "problem":
            answers[response.problem.code] += 1
            self._suspect(response.problem)
        elif kind == "commits":
            answers["done"] += len(response.commits.done)
            for other in response.commits.others:
                answers[other.fate or other.problem.code] += 1
                self._suspect(other.problem)
        else:
            answers[kind] += 1
        for run in response.claim.runs:
            self._keep(run)

    def _keep(self, run: Any) -> None:
        self.tally.claimed += 1
        self._pool.runs.pop(run.uid, None)
        self._pool.runs[run.uid] = run
        while len(self._pool.runs) > MAX_RUNS:
            del self._pool.runs[next(iter(self._pool.runs))]

    def _suspect(self, problem: Any) -> None:
        if problem.code == "internal":
            self.tally.broken.append(str(problem).strip())

    # --- unary calls -----------------------------------------------------------------------------

    async def _call(self) -> None:
        if self._rng.random() < 0.5:
            name = self._rng.choice(list(OPERATIONS))
            reply = await self._client.reply(name, {})
            self.tally.answers[f"operation {reply.problem.code or 'answered'}"] += 1
            if reply.problem.code != "forbidden":
                self.tally.broken.append(f"{name} was answered: {reply}")
            return
        name = self._rng.choice(_UNARY)
        request = self._forger.forge(getattr(messages, f"{name}Request")(), 0.9)
        made = self._channel.unary_unary(f"/onward.v1.Workers/{name}")
        try:
            await made(request.SerializeToString(), metadata=self._metadata, timeout=20)
            self.tally.answers[f"{name} answered"] += 1
        except grpc.aio.AioRpcError as error:
            self.tally.answers[f"{name} {error.code().name}"] += 1
            if error.code() in (grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN):
                self.tally.broken.append(f"{name}: {error.details()}")
