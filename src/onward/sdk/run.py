"""A handle on a run."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from onward.codec import check_id, decode, decode_error, encode
from onward.core.hold import read_sources
from onward.core.instant import duration
from onward.core.run import RunKind, RunState
from onward.engine import sending
from onward.engine.ends import failure_of
from onward.engine.payloads import unpack
from onward.errors import NotFound, RunCancelled, RunPaused, Undecodable
from onward.runtime.reading import reading
from onward.sdk.display import (
    shown_error,
    shown_notes,
    shown_time,
    shown_time_or_none,
    shown_value,
)
from onward.sdk.inside import refuse_in_body
from onward.sdk.waits import Signal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from onward.core.instant import DurationLike
    from onward.engine.results import Results
    from onward.engine.sending import Cancelling
    from onward.model.records import RecordRow
    from onward.model.runs import RunEnd, RunRow
    from onward.runtime.definition import WorkflowDefinition
    from onward.store.store import Store

R = TypeVar("R")

UNCHANGED: Any = object()
"""Stands for a result that is not edited."""


class RunInfo(NamedTuple):
    """A run as it stands. What a list of runs does not look up is empty in it.

    `held_by` has the ids of the paused runs that hold it back: itself, or runs that it works for.

    Example:
        >>> import asyncio
        >>> from onward import App, workflow
        >>> @workflow
        ... async def wave() -> None: ...
        >>> async def main() -> list[str]:
        ...     async with App(":memory:") as app:
        ...         await app.start(wave.options(id="wave-1", tags=["sea"]))
        ...         return [f"{info.id} {info.state} {info.tags}" for info in await app.runs()]
        >>> asyncio.run(main())
        ["wave-1 ready ('sea',)"]
    """

    id: str
    uid: str
    name: str
    state: str
    reason: str | None
    phase: str | None
    attempt: int
    queue: str
    tags: tuple[str, ...]
    parent: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    due: datetime | None
    progress: Any = None
    attributes: Mapping[str, Any] = {}
    error: str | None = None
    counters: Mapping[str, int | float] = {}
    kind: str = "workflow"
    priority: int = 0
    version: str | None = None
    root: str | None = None
    follows: str | None = None
    link: str | None = None
    scheduled_at: datetime | None = None
    deadline: datetime | None = None
    held_by: tuple[str, ...] = ()


class Run(Generic[R]):
    """A handle on a run. It stays good whatever happens to workers and processes.

    It is a handle on the id: when the run is retried, continued or replaced, it speaks of the run
    that has the id now.

    Attributes:
        id: Your name for it, or its uid.
        uid: The key of the run that was started or found.

    Example:
        >>> import asyncio
        >>> from onward import App, workflow
        >>> @workflow
        ... async def square(n: int) -> int:
        ...     return n * n
        >>> async def main() -> str:
        ...     app = App(":memory:")
        ...     async with app, app.worker(workflows=[square]):
        ...         run = await app.start(square.options(id="square-7"), 7)
        ...         return f"{run.id}: {await run.result(timeout='10s')}, {await run.state()}"
        >>> asyncio.run(main())
        'square-7: 49, succeeded'
    """

    def __init__(
        self,
        uid: str,
        run_id: str,
        store: Store,
        results: Results,
        definition: WorkflowDefinition | None,
    ) -> None:
        self.uid = uid
        self.id = run_id
        self._opened = store
        self._results = results
        self._definition = definition

    @property
    def _store(self) -> Store:
        refuse_in_body("a call of a Run")
        return self._opened

    async def result(self, *, timeout: DurationLike | None = None, raise_paused: bool = False) -> R:
        """Wait until the run is over and return its result.

        Args:
            timeout: How long to wait; 0 looks once.
            raise_paused: Whether to stop waiting when it is paused.

        Raises:
            TimeoutError: it was not over in time; the run goes on.
            RunFailed: it raised something, which is the cause; a registered type is raised itself.
            RunCancelled: it was cancelled, or did not make its deadline.
            RunPaused: it is paused, and `raise_paused` was given.
        """
        refuse_in_body("waiting for a Run")
        limit = None if timeout is None else duration(timeout) / 1_000_000
        ask = self._results.end_now if limit == 0 else self._results.end_of
        async with asyncio.timeout(limit or None):
            end = await ask(self.uid, also_paused=raise_paused)
            while end.follower is not None:
                end = await ask(end.follower, also_paused=raise_paused)
        return self._value(end)

    def _value(self, end: RunEnd) -> R:
        match end.state:
            case RunState.SUCCEEDED:
                value: R
                with reading(f"the result of run {self.id}"):
                    payload = unpack(end.result)
                    if self._definition is None:
                        value = decode(payload)
                    else:
                        value = self._definition.shape.decode_result(payload)
                return value
            case RunState.PAUSED:
                raise RunPaused(self.id, end.reason or "", shown_error(end.error) or "")
            case RunState.FAILED:
                error: BaseException | None = None
                try:
                    error = None if end.error is None else decode_error(unpack(end.error))
                except (Undecodable, ValueError) as unread:
                    error = unread
                raise failure_of(self.id, error, end.reason or "")
            case _:
                raise RunCancelled(self.id, end.state, end.reason or "")

    async def state(self) -> str:
        """Return the state: ready, running, waiting, paused, succeeded, failed and so on."""
        return (await self._store.newest(self.id)).state

    async def info(self) -> RunInfo:
        """Return all that is known of the run, without its arguments and result."""
        return await whole_info(self._store, await self._store.newest(self.id))

    async def history(self) -> list[RecordRow]:
        """Return what the run did, in order."""
        uid = (await self._store.newest(self.id)).uid
        return (await self._store.history([uid]))[uid]

    async def signal(
        self,
        signal: Signal[Any] | str,
        value: Any = None,
        *,
        message_id: str | None = None,
    ) -> None:
        """Send a signal to the run; it is kept until the run asks for it.

        Args:
            signal: The signal, or its name.
            value: What it carries.
            message_id: Identifies this message: sent again under it, it is delivered once.

        Raises:
            NotFound: there is no such run.
            RunOver: it has ended.
        """
        await send_signal(self._store, self.id, signal, value, message_id)

    async def cancel(self, *, force: bool = False, grace: DurationLike | None = None) -> Cancelling:
        """Ask the run to stop. The answer is true if it was still open.

        Its code gets a `CancelledError` at every await and may clean up, with durable calls too.

        Args:
            force: End it at once, without cleanup.
            grace: How long the cleanup may take; by default a minute.
        """
        allowed = None if grace is None else duration(grace)
        return await sending.cancel(self._store, self.id, force=force, grace=allowed)

    def __repr__(self) -> str:
        return f"<run {self.id}>"


async def send_signal(
    store: Store, target: str, signal: Signal[Any] | str, value: Any, message: str | None
) -> None:
    """Send a signal, by object or name, to a run."""
    wanted = signal if isinstance(signal, Signal) else Signal(signal)
    payload = encode(value, path=f"signal {wanted.name}", annotation=wanted.type)
    # Our own messages to runs have ids too; a user's must not be taken for one of those.
    own = None if message is None else f"signal {check_id(message, 'the id of a message')}"
    await sending.signal(store, target, wanted.name, payload, message=own)


async def infos_of(store: Store, rows: Sequence[RunRow]) -> list[RunInfo]:
    """Return what a user sees of runs, with the ids of those that hold them."""
    ids = {row.uid: row.id for row in rows}
    for source in {source for row in rows for source in read_sources(row.held_by)}:
        if source not in ids:
            try:
                ids[source] = (await store.run(source)).id
            except NotFound:
                ids[source] = source
    return [info_of(row, ids) for row in rows]


def info_of(row: RunRow, ids: Mapping[str, str]) -> RunInfo:
    """Return what a user sees of a run; `ids` has those of the runs that hold it."""
    return RunInfo(
        row.id,
        row.uid,
        row.name if row.kind == RunKind.WORKFLOW else row.name.removeprefix(f"{row.kind} "),
        row.state,
        row.reason,
        row.phase,
        row.attempt,
        row.queue,
        tuple(row.tags.split()),
        row.parent,
        shown_time(row.created_at),
        shown_time_or_none(row.started_at),
        shown_time_or_none(row.finished_at),
        shown_time_or_none(row.due),
        kind=row.kind,
        priority=row.priority,
        version=row.version,
        root=row.root,
        follows=row.follows,
        link=row.link,
        scheduled_at=shown_time(row.scheduled_at),
        deadline=shown_time_or_none(row.deadline),
        held_by=tuple(ids[source] for source in read_sources(row.held_by)),
    )


async def whole_info(store: Store, row: RunRow) -> RunInfo:
    """Return what a user sees of a run, with all that has to be looked up for it."""
    end = await store.end(row.uid)
    noted = shown_notes(await store.notes(row.uid), end.attributes)
    [info] = await infos_of(store, [row])
    return info._replace(
        progress=shown_value(end.progress),
        attributes=noted.attributes,
        counters=noted.counters,
        error=shown_error(end.error),
    )
