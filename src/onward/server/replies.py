"""Replies that can be large: in parts that fit into a frame each, and never beyond the limit."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.errors import PayloadTooLarge
from onward.model.claims import ROW_BYTES, size_of_run
from onward.server.limits import ENVELOPE_BYTES, MAX_LOADS
from onward.wire.messages import messages
from onward.wire.methods import METHODS
from onward.wire.problems import to_problem
from onward.wire.work import claim_reply, load_arguments, load_replies

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from onward.core.instant import Instant
    from onward.engine.worker_engine import WorkerEngine
    from onward.model.runs import ClaimedRun
    from onward.model.workers import ClaimAnswer
    from onward.server.limits import StreamLimits
    from onward.server.outbox import Outbox

LISTS = frozenset({"messages", "peek", "peek_ids"})
"""The calls whose results are lists of rows with payloads."""


class Replies:
    """Sends the replies to the requests of one stream.

    Args:
        engine: The engine of its worker.
        outbox: Where responses go.
        limits: How large they may be.
    """

    def __init__(self, engine: WorkerEngine, outbox: Outbox, limits: StreamLimits) -> None:
        self._engine = engine
        self._outbox = outbox
        self._limits = limits
        self._loads = asyncio.Semaphore(MAX_LOADS)

    def put(
        self, request_id: int, name: str, reply: Any, at: Instant = 0, *, more: bool = False
    ) -> None:
        """Send a reply.

        Raises:
            PayloadTooLarge: no frame can hold it.
        """
        response = messages.Response(id=request_id, at=at, more=more)
        getattr(response, name).CopyFrom(reply)
        self._outbox.put(response, f"the response to {name!r}")

    async def load(self, request_id: int, request: Any) -> None:
        """Send histories and inboxes; a row that no frame can hold is a failure of its run."""
        async with self._loads:
            loaded = await self._engine.load(*load_arguments(request))
            at = max((each.read_at for each in loaded.values()), default=0)
            parts = load_replies(loaded, self._limits.frame_bytes)
            for number, part in enumerate(parts, 1):
                await self._outbox.has_room()
                more = number < len(parts)
                try:
                    self.put(request_id, "load", part, at, more=more)
                except PayloadTooLarge as error:
                    self.put(request_id, "load", _failed(part, error), at, more=more)

    async def send_list(self, request_id: int, name: str, arguments: Mapping[str, Any]) -> None:
        """Send a list of rows, which is read only as fast as the client takes it."""
        method = METHODS[name]
        part: list[Any] = []
        size = 0
        async with self._loads:
            async for row in self._rows(name, arguments):
                own = _size_of_row(row)
                if part and size + own > self._limits.frame_bytes:
                    await self._outbox.has_room()
                    self.put(request_id, name, method.encode_result(part), more=True)
                    part, size = [], 0
                part.append(row)
                size += own
            await self._outbox.has_room()
            self.put(request_id, name, method.encode_result(part))

    async def _rows(self, name: str, arguments: Mapping[str, Any]) -> AsyncIterator[Any]:
        if name != "messages":
            for row in await getattr(self._engine, name)(**arguments):
                yield row
            return
        for seq in dict.fromkeys(arguments["seqs"]):  # one at a time: together they may be large
            for row in await self._engine.messages(arguments["run"], [seq]):
                yield row

    def claimed(
        self, request_id: int, answer: ClaimAnswer
    ) -> list[tuple[ClaimedRun, PayloadTooLarge]]:
        """Queue all parts of the answer to a claim at once, so that news of the runs come after.

        Returns:
            The runs that no frame can hold; they are not sent.
        """
        parts: list[Any] = []
        unsent = []
        for runs in _in_parts(answer.runs, self._limits.frame_bytes):
            part = claim_reply(answer._replace(runs=runs))
            if self._fits(part):
                parts.append(part)
                continue
            for run in runs:
                part = claim_reply(answer._replace(runs=(run,)))
                if self._fits(part):
                    parts.append(part)
                else:
                    what = f"run {run.id} with its input and attributes"
                    error = PayloadTooLarge(what, part.ByteSize(), self._limits.reply_bytes)
                    unsent.append((run, error))
        parts = parts or [claim_reply(answer._replace(runs=()))]
        at = answer.runs[0].claimed_at if answer.runs else 0
        for number, part in enumerate(parts, 1):
            self.put(request_id, "claim", part, at, more=number < len(parts))
        return unsent

    def _fits(self, reply: Any) -> bool:
        size: int = reply.ByteSize()
        return size + ENVELOPE_BYTES <= self._limits.reply_bytes


def _failed(part: Any, error: PayloadTooLarge) -> Any:
    """Return what stands for a part of a load that no frame can hold: it has rows of one run."""
    failed = messages.LoadReply()
    for run in part.runs:
        if run.history or run.inbox:
            failed.runs.add(run=run.run, failure=to_problem(error))
        else:
            failed.runs.append(run)
    return failed


def _size_of_row(row: Sequence[Any]) -> int:
    return ROW_BYTES + sum(len(value) for value in row if isinstance(value, bytes))


def _in_parts(runs: Sequence[ClaimedRun], max_bytes: int) -> Iterator[Sequence[ClaimedRun]]:
    """Yield runs in parts that fit into a frame each."""
    part: list[ClaimedRun] = []
    size = 0
    for run in runs:
        own = size_of_run(run)
        if part and size + own > max_bytes:
            yield part
            part, size = [], 0
        part.append(run)
        size += own
    yield part
