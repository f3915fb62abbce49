"""The engine of an app that reaches its runs through a server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from onward.codec import encode
from onward.engine.client_engine import ClientEngine
from onward.engine.pipeline_engine import PipelineEngine
from onward.engine.schedule_engine import ScheduleEngine
from onward.engine.schedules.cron import zone_of
from onward.engine.schedules.views import ScheduleInfo, Slot
from onward.engine.server_address import parse_server
from onward.errors import BadInput, Forbidden, NotOpen, PayloadTooLarge, StoreUnusable, Unavailable
from onward.store.writing.lane import Lane
from onward.system.clock import SystemClock, SystemRandomness, Uids
from onward.wire.connection import Connection
from onward.wire.messages import messages
from onward.wire.operations import BATCHES, OPERATIONS, to_json
from onward.wire.problems import to_error
from onward.wire.proxies import sends
from onward.wire.remote_worker import RemoteWorker
from onward.wire.rpc import CALL, MAX_FRAME_BYTES, MAX_MESSAGE_BYTES
from onward.wire.watches import Watches

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import tzinfo
    from types import TracebackType

    from onward.codec import Payload
    from onward.core.ports import Clock, Randomness
    from onward.engine.search import RunPage
    from onward.engine.views import RunInfo
    from onward.engine.within import CallerTransaction
    from onward.engine.worker_engine import WorkerEngine, WorkerHooks
    from onward.model.run_filter import RunQuery
    from onward.model.runs import NewRun, RunEnd, Started

ANY_NAMESPACE = "default"
"""An app of this namespace takes whatever namespace its key has."""

CALL_SECONDS = 60.0
"""How long a server that is alive may take for an operation; one that is not is found sooner."""
CLOSE_SECONDS = 5.0
"""How long closing waits for starts and signals that are under way."""
_READING = ("run:read", "payload:read")

_BATCH_ITEMS = 500
MAX_ITEM_BYTES = MAX_MESSAGE_BYTES - 1024
"""The size of an item of a batch; the rest of the message is around it."""


def _create(kind: Any, *args: Any) -> Any:
    """Create an engine; the type checker does not see the methods that `sends` adds."""
    return kind(*args)


def _names(group: str) -> list[str]:
    return [each.method for each in OPERATIONS.values() if each.group == group]


class OperationCaller:
    """Calls operations of a server."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._namespace = namespace

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        """Call an operation and return its result.

        Raises:
            Unavailable: no server answered.
            PayloadTooLarge: the arguments do not fit into one message.
        """
        operation = OPERATIONS[name]
        repeats = operation.scope in _READING
        return operation.read_result(await self.send(name, to_json(arguments), repeats=repeats))

    async def call_many(self, name: str, items: list[Mapping[str, Any]]) -> list[Any]:
        """Call an operation for many items at once.

        Returns:
            Their results or errors (True for an empty result), and None for those that did not
            fit into this call.
        """
        parts: dict[int, bytes] = {}
        answers: list[Any] = [None] * len(items)
        size = 0
        for place, item in enumerate(items):
            try:
                part = _item(name, item)
            except Exception as error:  # noqa: BLE001 - it concerns this item only
                answers[place] = error
                continue
            size += len(part)
            if parts and size > MAX_FRAME_BYTES:
                break
            parts[place] = part
        if parts:
            data = b'{"items":[' + b",".join(parts.values()) + b"]}"
            # Each item has an id of its own: one that is sent twice is done once.
            reply = await self._send_batch(name, data)
            for place, answer in zip(parts, BATCHES[name].read_answers(reply), strict=True):
                answers[place] = True if answer is None else answer
        return answers

    async def _send_batch(self, name: str, data: bytes) -> bytes:
        try:
            return await self.send(name, data, repeats=True)
        except NotOpen as closed:
            raise Unavailable(closed.where, "had not answered when the app was closed") from None

    async def send(self, name: str, data: bytes, *, repeats: bool) -> bytes:
        """Send a call and return the JSON of its result."""
        request = messages.CallRequest(operation=name, arguments=data, namespace=self._namespace)
        reply = await self._connection.call(CALL, request, timeout=CALL_SECONDS, repeats=repeats)
        if reply.HasField("problem"):
            raise to_error(reply.problem)
        result: bytes = reply.result
        return result


def _item(name: str, item: Mapping[str, Any]) -> bytes:
    """Return an item of a batch as JSON.

    Raises:
        PayloadTooLarge: no message can carry it.
    """
    data = to_json(item)
    if len(data) > MAX_ITEM_BYTES:
        raise PayloadTooLarge(f"an item of {name}", len(data), MAX_ITEM_BYTES)
    return data


@sends(ScheduleEngine, _names("schedules"), "_call")
class RemoteSchedules(ScheduleEngine):
    """A `ScheduleEngine` behind a server."""

    def __init__(self, caller: OperationCaller) -> None:
        self._caller = caller

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        # First, because a call that has done something must not fail afterwards.
        zone = await self._zone_of(arguments["name"]) if name in _WITHOUT_ZONE else None
        if "spec" in arguments:
            zone = _zone(arguments["spec"].zone)
        return _in_zone(await self._caller.call(f"schedules.{name}", arguments), zone)

    async def _zone_of(self, name: str) -> tzinfo | None:
        """Return the zone of a schedule; None: the key may not read it."""
        try:
            return _zone((await self.get(name)).zone)
        except Forbidden:
            return None


_WITHOUT_ZONE = ("backfill", "preview", "slots")
"""The operations whose results have times of a schedule, and not its zone."""


def _zone(name: str) -> tzinfo | None:
    """Return a time zone; None: this machine does not know it."""
    try:
        return zone_of(name)
    except BadInput:
        return None


def _in_zone(result: Any, zone: tzinfo | None) -> Any:
    """Return times of a schedule in its zone: JSON has their offset, and not the zone's name."""
    if isinstance(result, list):
        return [_in_zone(each, zone) for each in result]
    if isinstance(result, datetime):
        return result.astimezone(zone) if zone else result
    if isinstance(result, Slot):
        return replace(result, at=_in_zone(result.at, zone))
    if isinstance(result, ScheduleInfo):
        own = _zone(result.zone)
        next_at, held_at = _in_zone(result.next_at, own), _in_zone(result.held_at, own)
        return replace(result, next_at=next_at, held_at=held_at)
    return result


@sends(PipelineEngine, _names("pipelines"), "_call")
class RemotePipelines(PipelineEngine):
    """A `PipelineEngine` behind a server."""

    def __init__(self, caller: OperationCaller) -> None:
        self._caller = caller

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return await self._caller.call(f"pipelines.{name}", arguments)


@sends(ClientEngine, _names(""), "_call")
class RemoteClient(ClientEngine):
    """A `ClientEngine` behind a server. Starts and signals of many callers share calls.

    Args:
        connection: To the servers.
        namespace: The namespace of the app.
        clock: A steady clock.
        randomness: Where ids come from.
    """

    def __init__(
        self, connection: Connection, namespace: str, clock: Clock, randomness: Randomness
    ) -> None:
        self.namespace = namespace
        self._connection = connection
        self._clock = clock
        self._uids = Uids(clock, randomness)
        self._asked = "" if namespace == ANY_NAMESPACE else namespace
        self._caller = caller = OperationCaller(connection, self._asked)
        self.schedules: ScheduleEngine = _create(RemoteSchedules, caller)
        self.pipelines: PipelineEngine = _create(RemotePipelines, caller)
        self._watches = Watches(connection, self._asked)
        self._starts = self._start_lanes()
        self._signals = self._lane("signal_many")

    def _start_lanes(self) -> tuple[Lane[Mapping[str, Any], Any], ...]:
        # Two: the server checks the runs of one call while those of the other are written.
        return self._lane("start_many"), self._lane("start_many")

    def _lane(self, name: str) -> Lane[Mapping[str, Any], Any]:
        return Lane(
            partial(self._caller.call_many, name),
            name=f"onward {name}",
            key=lambda item: item.get("run") if name == "signal_many" else id(item),
            max_items=_BATCH_ITEMS,
        )

    @property
    def is_private(self) -> bool:
        return False

    @property
    def where(self) -> str:
        return self._connection.where

    async def __aenter__(self) -> Self:
        await self._connection.open()
        self._watches = Watches(self._connection, self._asked)
        self._starts = self._start_lanes()
        self._signals = self._lane("signal_many")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watches.close()
        lanes = (*self._starts, self._signals)
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                for lane in lanes:
                    await lane.close()
        except TimeoutError:
            pass  # what is left fails, because its calls end
        finally:
            await self._connection.close()
            for lane in lanes:
                await lane.close()

    async def _call(self, name: str, arguments: Mapping[str, Any]) -> Any:
        return await self._caller.call(name, arguments)

    def worker(self, worker: str, hooks: WorkerHooks) -> WorkerEngine:
        made: WorkerEngine = _create(RemoteWorker, self._connection, self._clock, worker, hooks)
        return made

    def new_uid(self) -> str:
        return self._uids.new()

    async def start(self, run: NewRun, on_conflict: str) -> Started:
        arguments = {"run": run, "on_conflict": on_conflict}
        self._connection.check_open()
        if on_conflict == "replace":  # it may wait for a while, and the others need not
            return cast("Started", await self._call("start", arguments))
        lane = self._starts[ord(run.uid[-1]) % len(self._starts)]
        return cast("Started", await lane.submit(arguments))

    async def signal(
        self, run: str, name: str, payload: Payload, *, message: str | None = None
    ) -> None:
        self._connection.check_open()
        await self._signals.submit(
            {"run": run, "name": name, "payload": payload, "message": message or self.new_uid()}
        )

    async def list_runs(
        self,
        query: RunQuery,
        page: RunPage,
        attributes: Mapping[str, Sequence[Any]],
        *,
        parent: str | None = None,
        root: str | None = None,
    ) -> list[RunInfo]:
        as_json = {
            name: [msgspec.Raw(encode(each, path=f"attribute {name}").data) for each in values]
            for name, values in attributes.items()
        }
        arguments = {
            "query": query,
            "page": page,
            "attributes": as_json,
            "parent": parent,
            "root": root,
        }
        return cast("list[RunInfo]", await self._call("list_runs", arguments))

    async def end_of(self, uid: str, *, also_paused: bool = False) -> RunEnd:
        return await self._watches.end_of(uid, also_paused=also_paused)

    def within(self, connection: object, *, waits: bool = True) -> CallerTransaction:  # noqa: ARG002
        raise self._no_transaction()

    async def locate(self) -> None:
        raise self._no_transaction()

    def _no_transaction(self) -> StoreUnusable:
        return StoreUnusable(
            self.where,
            "is a server, which cannot take part in a transaction of your database",
            "Start the run after you commit, with an id that makes the start safe to repeat; or "
            "open an App with the address of the database, and use its `within`",
        )


def connect(
    url: str,
    namespace: str = ANY_NAMESPACE,
    *,
    key: str | None = None,
    clock: Clock | None = None,
    randomness: Randomness | None = None,
) -> ClientEngine:
    """Return the engine behind the server at an address; enter it to connect.

    Args:
        url: `onward://host:7170`, or several hosts with commas between them.
        namespace: The tenant; it must be the one of the key.
        key: The API key.
        clock: A steady clock.
        randomness: Where ids come from.

    Raises:
        BadStoreUrl: the address cannot be understood.
    """
    randomness = randomness or SystemRandomness()
    asked = "" if namespace == ANY_NAMESPACE else namespace
    connection = Connection(parse_server(url), key, asked, randomness)
    made: ClientEngine = _create(
        RemoteClient, connection, namespace, clock or SystemClock(), randomness
    )
    return made
