"""A handle on a run."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from onward.codec import StepFailed, decode, decode_error, encode
from onward.core.instant import duration
from onward.core.run import RunState
from onward.engine import sending
from onward.engine.payloads import unpack
from onward.errors import RunCancelled, RunFailed, RunPaused
from onward.sdk.waits import Signal

if TYPE_CHECKING:
    from onward.core.instant import DurationLike, Instant
    from onward.engine.results import Results
    from onward.runtime.definition import WorkflowDefinition
    from onward.store.rows import RecordRow, RunEnd, RunRow
    from onward.store.store import Store

R = TypeVar("R")


class RunInfo(NamedTuple):
    """A run as it stands."""

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


class Run(Generic[R]):
    """A handle on one run. It stays good whatever happens to workers and processes."""

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
        self._store = store
        self._results = results
        self._definition = definition

    async def result(self, *, timeout: DurationLike | None = None, raise_paused: bool = False) -> R:
        """Wait until the run is over and return its result.

        Raises:
            TimeoutError: it was not over in time; the run goes on.
            RunFailed: it raised something, which is the cause; a registered type is raised itself.
            RunCancelled: it was cancelled.
            RunPaused: it is paused, and `raise_paused` was given.
        """
        limit = None if timeout is None else duration(timeout) / 1_000_000
        async with asyncio.timeout(limit):
            end = await self._results.end_of(self.uid, also_paused=raise_paused)
        return self._value(end)

    def _value(self, end: RunEnd) -> R:
        match end.state:
            case RunState.SUCCEEDED:
                assert end.result is not None
                payload = unpack(end.result)
                value: R
                if self._definition is None:
                    value = decode(payload)
                else:
                    value = self._definition.shape.decode_result(payload)
                return value
            case RunState.PAUSED:
                raise RunPaused(self.id, end.reason or "")
            case RunState.FAILED:
                raise self._failure(end)
            case _:
                raise RunCancelled(self.id, end.state, end.reason or "")

    def _failure(self, end: RunEnd) -> BaseException:
        """Return what a failed run raises: its error if that type is registered, or `RunFailed`."""
        error = None if end.error is None else decode_error(unpack(end.error))
        if error is not None and not isinstance(error, StepFailed):
            return error
        failed = RunFailed(self.id, end.reason or "", "" if error is None else str(error))
        failed.__cause__ = error
        return failed

    async def state(self) -> str:
        """Return the state: ready, running, waiting, paused, succeeded, failed and so on."""
        return (await self._store.run(self.uid)).state

    async def info(self) -> RunInfo:
        """Return all that is known of the run, without its data."""
        return info_of(await self._store.run(self.uid))

    async def history(self) -> list[RecordRow]:
        """Return what the run did, in order."""
        return (await self._store.history([self.uid]))[self.uid]

    async def signal(self, signal: Signal[Any] | str, value: Any = None) -> None:
        """Send a signal to the run; it is kept until the run asks for it.

        Raises:
            NotFound: there is no such run.
        """
        wanted = signal if isinstance(signal, Signal) else Signal(signal)
        payload = encode(value, path=f"signal {wanted.name}", annotation=wanted.type)
        await sending.signal(self._store, self.uid, wanted.name, payload)

    async def cancel(self) -> bool:
        """Ask the run to stop, with cleanup; False means that it was over already."""
        return await sending.cancel(self._store, self.uid)

    def __repr__(self) -> str:
        return f"<run {self.id}>"


def info_of(row: RunRow) -> RunInfo:
    """Return what a user sees of a run."""
    return RunInfo(
        row.id,
        row.uid,
        row.name,
        row.state,
        row.reason,
        row.phase,
        1,
        row.queue,
        tuple(row.tags.split()),
        row.parent,
        _time(row.created_at),
        _time_or_none(row.started_at),
        _time_or_none(row.finished_at),
        _time_or_none(row.due),
    )


def _time(instant: Instant) -> datetime:
    return datetime.fromtimestamp(instant / 1_000_000, UTC)


def _time_or_none(instant: Instant | None) -> datetime | None:
    return None if instant is None else _time(instant)
