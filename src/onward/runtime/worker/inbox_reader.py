"""Reads the inboxes of a worker's runs and delivers their messages."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from onward.errors import LeaseLost, NotFound, UnreadableRow
from onward.errors.root import count_text
from onward.runtime.worker.outage import AWAY

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping, Sequence

    from onward.engine.worker_engine import WorkerEngine
    from onward.model.messages import InboxRow
    from onward.model.workers import News
    from onward.runtime.execution.execution import Execution
    from onward.runtime.worker.outage import Outage


class InboxReader:
    """Reads inboxes, in the background."""

    def __init__(self, engine: WorkerEngine, outage: Outage) -> None:
        self._engine = engine
        self._outage = outage
        self._reads: set[asyncio.Task[None]] = set()
        self._context = copy_context()  # not that of the run that is read for

    def read_all(self, running: Mapping[str, Execution], news: News) -> None:
        """Read the inboxes of the runs that may have changed."""
        if news.everything:
            self._read(running.values())
        else:
            self._read(running[uid] for uid in news.runs if uid in running)

    def read_again(self, execution: Execution) -> None:
        """Read the inbox of a run that could not park: it has a number that it has not seen."""
        self._keep(self._recount(execution))

    def stop(self) -> None:
        """Stop reading."""
        for task in list(self._reads):
            task.cancel()

    def _read(self, executions: Iterable[Execution]) -> None:
        wanted = list(executions)
        if wanted:
            self._keep(self._deliver(wanted))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, context=self._context)
        self._reads.add(task)
        task.add_done_callback(self._reads.discard)

    async def _deliver(self, executions: list[Execution]) -> None:
        held = {each: each.fence for each in executions if not each.is_stopped}
        try:
            inboxes = await self._look(executions)
            silent = [each for each in held if not each.receive(inboxes.get(each.uid, ()))]
            owned = await self._engine.owned() if silent else {}
        except (*AWAY, LeaseLost):
            return  # they are read again at the next poll, or the worker has lost them all
        for execution in silent:
            # It has changed, and nothing was sent to it: it may have been ended by force.
            is_ours = owned.get(execution.uid) == held[execution]
            if not (is_ours or execution.is_stopped) and execution.fence == held[execution]:
                execution.drop()

    async def _look(self, executions: list[Execution]) -> dict[str, Sequence[InboxRow]]:
        """Read what is new in the inboxes of runs.

        A run whose inbox cannot be read is released: its next claim parks it or ends it.
        """
        seen = {execution.uid: execution.seen for execution in executions}
        loaded = await self._engine.load((), seen)
        for execution in executions:
            if loaded[execution.uid].failure is not None and not execution.is_gone:
                execution.release()
        return {uid: each.inbox for uid, each in loaded.items() if each.failure is None}

    async def _recount(self, execution: Execution) -> None:
        # The count is read before the messages, so whatever it counts is among them. A number may
        # have no message: two senders of one message at the same time take two numbers.
        seen = execution.seen
        try:
            counted = await self._outage.through(lambda: self._engine.count_messages(execution.uid))
            beyond = await self._outage.through(lambda: self._beyond(execution, seen, counted))
            found = await self._outage.through(lambda: self._look([execution]))
        except (*AWAY, LeaseLost, NotFound):
            execution.drop()
            return
        if beyond is not None:
            execution.break_off(beyond)
        elif seen > counted:
            execution.release()  # the database has lost messages: another claim reads what is left
        elif execution.uid in found:
            execution.receive(found[execution.uid], counted)

    async def _beyond(self, execution: Execution, seen: int, counted: int) -> UnreadableRow | None:
        """Return the error if the last message has a number that its run has not counted up to."""
        if seen <= counted or not await self._engine.messages(execution.uid, [seen]):
            return None
        row = f"message {seen} of run {execution.uid}"
        received = count_text(counted, "message")
        return UnreadableRow(row, f"its number is too high: the run has received only {received}")
