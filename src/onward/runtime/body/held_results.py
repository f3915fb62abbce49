"""Results of a map that a chunk did not return, because they were too large together.

They are in the history of the chunk, which has ended and does not change. The parent reads them by
a step, so that its own history has what it was given.
"""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, cast

import msgspec

from onward.codec import Payload
from onward.core.digest import digest
from onward.core.replay import RecordState
from onward.engine.payloads import unpack
from onward.errors import UnreadableRow
from onward.runtime.body.calls import StepCall
from onward.runtime.body.chunk_data import JSON, MAX_RETURNED
from onward.runtime.definition import StepDefinition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.codec import CallShape
    from onward.model.records import RecordRow
    from onward.runtime.body.body import Body
    from onward.runtime.body.call_sink import ReadHistory
    from onward.runtime.body.chunk_data import ResultPlace

NAME = "read map"


class LastHistory:
    """Reads the histories of chunks, and keeps the last one: most reads are of the same chunk."""

    def __init__(self, read: ReadHistory) -> None:
        self._read = read
        self._run = ""
        self._rows: Sequence[RecordRow] = ()

    async def __call__(self, run: str) -> Sequence[RecordRow]:
        if self._run != run:
            self._rows = await self._read(run)
            self._run = run
        return self._rows


def reading_call(
    body: Body, shape: CallShape, histories: LastHistory, places: Sequence[ResultPlace]
) -> StepCall:
    """Return a call for the results at the first of these places: one at least."""
    body.names.check("step", NAME, read_results)
    read = partial(read_results, histories)
    definition = StepDefinition(NAME, read, cast("CallShape", _Results(shape)), is_async=True)
    named = (" ".join(place) for place in places)
    return StepCall(definition, digest(*named), ((places,), {}))


async def read_results(
    read_history: ReadHistory, places: Sequence[ResultPlace]
) -> list[msgspec.Raw]:
    """Return the results at the first of some places, as many as may be returned at once."""
    found: list[msgspec.Raw] = []
    size = 0
    for run, inside in groupby(places, lambda place: place.run):
        wanted = [place.identity for place in inside]
        kept = {
            row.identity: row.payload
            for row in await read_history(run)
            if row.state == RecordState.SUCCEEDED
        }
        for identity in wanted:
            if kept.get(identity) is None:
                raise UnreadableRow(f"the result of {identity} in run {run}", "its row is missing")
            data = unpack(kept[identity]).data
            size += len(data)
            if found and size > MAX_RETURNED:
                return found
            found.append(msgspec.Raw(data))
    return found


class _Results:
    """The shape of several results of a mapped function."""

    def __init__(self, shape: CallShape) -> None:
        self._shape = shape

    def encode_result(self, value: object) -> Payload:
        return Payload(JSON, msgspec.json.encode(value))

    def decode_result(self, payload: Payload) -> list[Any]:
        results = msgspec.json.decode(payload.data, type=list[msgspec.Raw])
        return [self._shape.decode_result(Payload(JSON, bytes(each))) for each in results]
