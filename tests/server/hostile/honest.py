"""An honest worker that measures how long a server takes to answer its commits."""

from __future__ import annotations

import asyncio
import itertools
import time
from typing import TYPE_CHECKING, Any

from onward.core.instant import SECOND
from tests.server.hostile.ground import HONEST, metadata_of
from tests.server.raw import RawStream, stepped, succeeded

if TYPE_CHECKING:
    from tests.server.raw import RawClient

STEPS = 4
PAUSE_SECONDS = 0.02
"""Between runs: it measures how long answers take, and not how many there can be."""


class HonestWorker:
    """Starts runs, claims them, and commits a few steps of each, one after the other."""

    def __init__(self, channel: Any, key: str, client: RawClient) -> None:
        self._metadata = metadata_of(key)
        self._channel = channel
        self._client = client
        self._runs = itertools.count(1)
        self._numbers = itertools.count(1)
        self._stream = RawStream(
            channel, f"{HONEST}-1", metadata=self._metadata, queues=[HONEST], names=["greet"]
        )
        self.wrong: list[str] = []
        """Commits that were not written."""

    async def join(self) -> None:
        """Join with a lease that outlasts the measurement."""
        await self._stream.join(lease=3600 * SECOND)

    async def close(self) -> None:
        """Disconnect."""
        await self._stream.__aexit__()

    async def measure(self, until: asyncio.Event, seconds: float) -> list[float]:
        """Return how long commits took, in milliseconds, for so long or until something ends."""
        took: list[float] = []
        end = time.monotonic() + seconds
        while time.monotonic() < end and not until.is_set():
            await self._client.start(f"{HONEST}-{next(self._runs)}", queue=HONEST)
            runs: list[Any] = []
            while not runs:
                runs = await self._stream.claim(limit=1)
            steps = range(1, STEPS + 1)
            took += [await self._commit(stepped, runs[0], f"a#{step}", step) for step in steps]
            took.append(await self._commit(succeeded, runs[0]))
            await asyncio.sleep(PAUSE_SECONDS)
        return took

    async def _commit(self, made: Any, *given: Any) -> float:
        number = next(self._numbers)
        begun = time.perf_counter()
        fates = await self._stream.commit(made(number, *given))
        took = (time.perf_counter() - begun) * 1000
        if fates != {number: "done"}:
            self.wrong.append(str(fates))
        return took


def percentile(values: list[float], part: float) -> float:
    """Return the value below which a part of all values is."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]
