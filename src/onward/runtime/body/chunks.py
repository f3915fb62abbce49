"""Chunks of a map: runs that work through up to a few hundred items each.

The parent keeps one record per chunk, and each chunk has a history of its own. A chunk does not
fail with its items: it returns the outcome of each, and the parent decides. A chunk whose results
become large begins no more calls, and the parent starts another one for the rest. What was under
way then may be too large for one result: the chunk returns a few megabytes, and for the others
where they are in its history; the parent reads them there (`held_results`). Results pass through a
chunk as they are stored.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import msgspec

from onward.codec import Payload, decode_error, encode_error
from onward.core.digest import digest
from onward.core.replay import escaped, keyed
from onward.core.run import RunKind
from onward.engine.payloads import pack
from onward.engine.policies import read_limits, write_limits, write_policy
from onward.engine.starting import StartOptions, new_run
from onward.errors import BadInput, Undecodable
from onward.model.runs import NewRun
from onward.runtime.body.children import ChildCall
from onward.runtime.body.chunk_data import (
    JSON,
    MAX_RETURNED,
    CallOptions,
    ChunkInput,
    Item,
    Outcome,
    ResultPlace,
    StoredOutcome,
    fitting,
    shortened,
)
from onward.runtime.body.routing import step_call
from onward.runtime.context import body_of_run
from onward.runtime.definition import Route, StepDefinition, run_name
from onward.runtime.flows import flow_of_start

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from onward.codec import CallShape
    from onward.core.retry import Retry
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.body import Body
    from onward.runtime.definition import WorkflowDefinition

Caller: TypeAlias = "Callable[[Body, tuple[Any, ...], dict[str, Any], str], asyncio.Future[Any]]"
"""Calls the mapped function for one item, in the body of a chunk, under a key."""

MAX_ITEMS = 500
"""How many items one chunk may have."""

MAX_OPEN = 4
"""How many chunks of a map are worked on at a time; they share its limit."""

MAX_KEY_BYTES = 300
"""How long the key of an item may be before a digest stands for it."""

MAX_BYTES = 4 * 1024 * 1024
"""How large the items of one chunk may be together, and its results before it begins no more."""

BYTES_AHEAD = 3 * 1024 * 1024
"""How many bytes the calls may return that are under way when a chunk begins no more.

Together with `MAX_BYTES`, this is what a chunk may return.
"""


MAX_ERRORS = 3 * 1024 * 1024
"""How large the errors that a chunk returns may be together before the others are shortened."""

MAX_SMALL = 4096
"""From what size on a result has a place, where it can be read if it is not returned."""


class Work(NamedTuple):
    """What a chunk does."""

    call: Caller
    name: str
    """The name of the mapped function."""
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]]
    keys: list[str] | None
    limit: int
    known: dict[int, StoredOutcome | None]
    """The outcomes of the items that are done; None if the parent has them."""
    holds_back: bool


class ChunkShape:
    """Encodes the input and the result of a chunk.

    Args:
        mapped: The step or workflow that is called for each item.
        namesake: A step, if `mapped` is a workflow of the same name: the input says which it is.
    """

    def __init__(
        self, mapped: StepDefinition | WorkflowDefinition, namesake: StepDefinition | None = None
    ) -> None:
        self._mapped = mapped
        self._namesake = namesake
        self.average = 0
        """The average size of a result in the last chunk that was read."""

    def encode(self, items: Sequence[Item], limit: int, options: CallOptions) -> Payload:
        """Return the input of a chunk."""
        keys = [item.key for item in items if item.key is not None] or None
        raw = [msgspec.Raw(item.data) for item in items]
        is_step = isinstance(self._mapped, StepDefinition)
        given = ChunkInput(limit, raw, keys, is_step, options, holds_back=True)
        return Payload(JSON, msgspec.json.encode(given))

    def decode(self, payload: Payload) -> tuple[tuple[Work], dict[str, Any]]:
        """Return the arguments of `work_through`."""
        given = msgspec.json.decode(payload.data, type=ChunkInput)
        if given.is_step and self._namesake is not None:
            self._mapped = self._namesake
        mapped = self._mapped
        calls = [mapped.shape.decode(Payload(JSON, bytes(item))) for item in given.items]
        work = Work(
            _caller(mapped, given.options),
            mapped.name,
            calls,
            given.keys,
            given.limit,
            dict(self._known(given.known or ())),
            given.holds_back,
        )
        return (work,), {}

    def _known(
        self, kept: Iterable[StoredOutcome | None]
    ) -> Iterator[tuple[int, StoredOutcome | None]]:
        """Yield the items that are done, by number."""
        for index, outcome in enumerate(kept):
            if outcome is None or outcome.is_good is None:
                yield index, outcome
            elif outcome.is_good:
                with suppress(Undecodable):  # the current code cannot read it
                    self._outcome(outcome)
                    yield index, outcome

    def encode_result(self, value: object) -> Payload:
        """Return the outcomes of all items; each was checked against the limits by itself."""
        assert isinstance(value, list)
        kept = [None if each is None else each.stored() for each in value]
        return Payload(JSON, msgspec.json.encode(kept))

    def decode_result(self, payload: Payload) -> list[Outcome | None]:
        """Return the outcomes of all items; None for those that the chunk has not done."""
        kept = msgspec.json.decode(payload.data, type=list[StoredOutcome | None])
        returned = sum(each is not None and each.is_good is not None for each in kept)
        self.average = len(payload.data) // max(1, returned)
        return [None if each is None else self._outcome(each) for each in kept]

    def _outcome(self, kept: StoredOutcome) -> Outcome:
        if kept.is_good is None:
            return Outcome(key=kept.key, place=kept.place)
        payload = Payload(JSON, bytes(kept.data))
        if kept.is_good:
            return Outcome(self._mapped.shape.decode_result(payload), key=kept.key)
        return Outcome(error=decode_error(payload), key=kept.key)


async def work_through(work: Work) -> list[StoredOutcome | None]:
    """Work through the items of a chunk: the body of its run."""
    body = body_of_run()
    known, calls, keys = work.known, work.calls, work.keys
    outcomes: list[StoredOutcome | None] = [known.get(index) for index in range(len(calls))]
    left = iter([index for index in range(len(calls)) if index not in known])
    size = of_errors = 0

    async def one_after_another() -> None:
        nonlocal size, of_errors
        while size < MAX_BYTES and (index := next(left, None)) is not None:
            args, kwargs = calls[index]
            named = None if keys is None else keys[index]
            key = str(index) if named is None else _fitting(named)
            try:
                value: Payload = await work.call(body, args, kwargs, key)
            except Exception as error:  # noqa: BLE001 - the parent decides what it means
                value = encode_error(error)
                if work.holds_back:
                    value = shortened(value) if of_errors > MAX_ERRORS else value
                    size += len(value.data)
                    of_errors += len(value.data)
                outcomes[index] = StoredOutcome(False, msgspec.Raw(value.data), named)  # noqa: FBT003
            else:
                place = ResultPlace(body.run.uid, keyed(work.name, key))
                is_small = not work.holds_back or len(value.data) <= MAX_SMALL
                raw = msgspec.Raw(value.data)
                outcomes[index] = StoredOutcome(True, raw, named, None if is_small else place)  # noqa: FBT003
                size += len(value.data)

    async with asyncio.TaskGroup() as group:
        for _ in range(min(work.limit, len(calls) - len(known))):
            group.create_task(one_after_another())
    return fitting(outcomes, MAX_RETURNED) if work.holds_back else outcomes


def _fitting(key: str) -> str:
    """Return a key short enough for an identity, whose length databases limit."""
    return key if len(escaped(key).encode()) <= MAX_KEY_BYTES else f"long {digest(key)}"


def _caller(mapped: StepDefinition | WorkflowDefinition, options: CallOptions) -> Caller:
    """Return what calls the mapped function: every item has an identity of its own."""
    if isinstance(mapped, StepDefinition):
        shape = cast("CallShape", _AsStored(mapped.shape))
        definition = replace(_as_called(mapped, options), shape=shape)
        return lambda body, args, kwargs, key: body.ask(
            step_call(body, definition, args, kwargs), key
        )
    return partial(_start, mapped, options)


def _as_called(step: StepDefinition, options: CallOptions) -> StepDefinition:
    retry, timeout = (None, None) if options.limits is None else read_limits(options.limits)
    route = Route(options.queue, options.tags, options.limit) if options.is_sent else None
    return replace(step, retry=retry, timeout=timeout, route=route)


def _start(
    mapped: WorkflowDefinition,
    options: CallOptions,
    body: Body,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    key: str,
) -> asyncio.Future[Any]:
    start_options = StartOptions(
        queue=options.queue or mapped.queue,
        priority=options.priority,
        tags=options.tags,
        delay=options.delay,
        deadline=options.deadline,
        key=options.key,
        limits=options.declares,
    )
    start = new_run("", mapped.name, mapped.shape.bind(args, kwargs), start_options)
    flow = flow_of_start(mapped, start_options, args, kwargs)
    start = start._replace(cancel_with_parent=1, retry=options.retry, flow_key=flow.key)
    call = ChildCall(mapped.name, _as_stored, start=start, asked_at=body.now)
    call.declares = flow.declares
    return body.ask(call, key)


def _as_stored(payload: Payload) -> Payload:
    return payload


class _AsStored:
    """The shape of a step whose results are passed on without being decoded."""

    def __init__(self, shape: CallShape) -> None:
        self._shape = shape

    def decode_result(self, payload: Payload) -> Payload:
        return payload

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shape, name)


def step_options(step: StepDefinition, retry: Retry | None) -> CallOptions:
    """Return the options of the calls of a step; `retry` is the default of the workflow."""
    route, limits = step.route, write_limits(step.retry or retry, step.timeout)
    if route is None:
        return CallOptions(limits)
    return CallOptions(limits, route.queue, route.tags, route.limit, is_sent=True)


def workflow_options(options: StartOptions) -> CallOptions:
    """Return the options of the runs of a workflow.

    Raises:
        BadInput: they have an id or a start time, and a map starts many runs.
    """
    if options.id is not None:
        raise BadInput(
            f"id={options.id!r}", "cannot be the id of all runs of a map", "Leave out the id"
        )
    if options.at is not None:
        raise BadInput("at", "is not supported in a map", "Sleep before the map, or use delay")
    return CallOptions(
        queue=options.queue,
        tags=options.tags,
        priority=options.priority,
        delay=options.delay,
        deadline=options.deadline,
        retry=None if options.retry is None else write_policy(options.retry),
        key=options.key,
        declares=options.limits,
    )


def chunk_run(
    mapped: StepDefinition | WorkflowDefinition,
    items: Sequence[Item],
    limit: int,
    options: CallOptions,
    parent: ClaimedRun,
) -> NewRun:
    """Return the run that works through these items; it ends with the run that needs it."""
    input = pack(ChunkShape(mapped).encode(items, limit, options))  # noqa: A001 - the name in the row
    is_step = isinstance(mapped, StepDefinition)
    return NewRun(
        "",
        "",
        run_name(RunKind.MAP, mapped.name),
        input,
        digest(*(item.args_hash for item in items)),
        RunKind.MAP,
        queue=parent.queue if is_step else options.queue or parent.queue,
        tags=parent.tags if is_step else "",
        priority=parent.priority,
        cancel_with_parent=1,
    )
