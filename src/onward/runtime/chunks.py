"""Parts of a map: runs that work through up to some hundred items each.

The parent keeps one record per chunk, and each chunk has a history of its own. A chunk never fails
for an item: it returns what came of each, and the parent decides.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from onward.codec import Payload, decode_error, encode_error
from onward.core.digest import digest
from onward.core.run import RunKind
from onward.engine.payloads import pack
from onward.engine.starting import StartOptions, new_run
from onward.runtime.context import body_of_run
from onward.runtime.definition import StepDefinition, run_name
from onward.store.rows import NewRun

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.codec import Arguments
    from onward.runtime.body import Body
    from onward.runtime.definition import WorkflowDefinition
    from onward.store.rows import Claimed

ITEMS_MOST = 500
"""How many items one chunk may have."""

OPEN_MOST = 4
"""How many chunks of a map are worked on at a time; they share its limit."""

JSON = "json"


class _Input(msgspec.Struct):
    """What a chunk is given: the arguments of each call, and how many may be under way."""

    limit: int
    items: list[msgspec.Raw]
    keys: list[str] | None = None


class _Outcome(msgspec.Struct, array_like=True):
    """What came of one item: whether it succeeded, its result or error, and its key."""

    is_good: bool
    data: msgspec.Raw
    key: str | None = None


class Outcome:
    """What came of one item, decoded."""

    __slots__ = ("error", "key", "value")

    def __init__(
        self, value: Any = None, error: BaseException | None = None, key: str | None = None
    ) -> None:
        self.value = value
        self.error = error
        self.key = key


class ChunkShape:
    """How the input and the result of a chunk are stored."""

    def __init__(self, mapped: StepDefinition | WorkflowDefinition) -> None:
        self._mapped = mapped

    def encode(self, calls: Sequence[Arguments], keys: Sequence[str] | None, limit: int) -> Payload:
        """Return what a chunk is given."""
        items = [msgspec.Raw(call.payload().data) for call in calls]
        given = _Input(limit, items, None if keys is None else list(keys))
        return Payload(JSON, msgspec.json.encode(given))

    def decode(self, payload: Payload) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of `work_through`."""
        given = msgspec.json.decode(payload.data, type=_Input)
        shape = self._mapped.shape
        calls = [shape.decode(Payload(JSON, bytes(item))) for item in given.items]
        return (self._mapped, calls, given.keys, given.limit), {}

    def encode_result(self, value: object) -> Payload:
        """Return what came of all items; each was checked against the limits by itself."""
        assert isinstance(value, list)
        return Payload(JSON, msgspec.json.encode([self._kept(outcome) for outcome in value]))

    def _kept(self, outcome: Outcome) -> _Outcome:
        if outcome.error is None:
            payload = self._mapped.shape.encode_result(outcome.value)
        else:
            payload = encode_error(outcome.error)
        return _Outcome(outcome.error is None, msgspec.Raw(payload.data), outcome.key)

    def decode_result(self, payload: Payload) -> list[Outcome]:
        """Return what came of all items."""
        kept = msgspec.json.decode(payload.data, type=list[_Outcome])
        return [self._outcome(each) for each in kept]

    def _outcome(self, kept: _Outcome) -> Outcome:
        payload = Payload(JSON, bytes(kept.data))
        if kept.is_good:
            return Outcome(self._mapped.shape.decode_result(payload), key=kept.key)
        return Outcome(error=decode_error(payload), key=kept.key)


async def work_through(
    mapped: StepDefinition | WorkflowDefinition,
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]],
    keys: list[str] | None,
    limit: int,
) -> list[Outcome]:
    """Work through the items of a chunk: the body of its run."""
    body = body_of_run()
    outcomes = [Outcome(key=None if keys is None else keys[index]) for index in range(len(calls))]
    left = iter(range(len(calls)))

    async def one_after_another() -> None:
        for index in left:
            args, kwargs = calls[index]
            key = str(index) if keys is None else keys[index]
            try:
                outcomes[index].value = await _call(body, mapped, args, kwargs, key)
            except Exception as error:  # noqa: BLE001 - the parent decides what it means
                outcomes[index].error = error

    async with asyncio.TaskGroup() as group:
        for _ in range(min(limit, len(calls))):
            group.create_task(one_after_another())
    return outcomes


def _call(
    body: Body,
    mapped: StepDefinition | WorkflowDefinition,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    key: str,
) -> asyncio.Future[Any]:
    """Call what is mapped: every item has an identity of its own, whoever takes it up."""
    if isinstance(mapped, StepDefinition):
        return body.step(mapped, args, kwargs, key)
    arguments = mapped.shape.bind(args, kwargs)
    start = new_run("", mapped.name, arguments, StartOptions(queue=mapped.queue))._replace(tied=1)
    return body.child(mapped.name, start, mapped.shape.decode_result, key=key)


def chunk_run(
    mapped: StepDefinition | WorkflowDefinition,
    calls: Sequence[Arguments],
    keys: Sequence[str] | None,
    limit: int,
    parent: Claimed,
) -> NewRun:
    """Return the run that works through these items; it ends with the run that needs it."""
    input = pack(ChunkShape(mapped).encode(calls, keys, limit))  # noqa: A001 - the run's word
    args_hash = digest(*(call.fingerprint() for call in calls))
    queue = parent.queue if isinstance(mapped, StepDefinition) else mapped.queue
    name = run_name(RunKind.MAP, mapped.name)
    return NewRun("", "", name, input, args_hash, RunKind.MAP, queue=queue, tied=1)
