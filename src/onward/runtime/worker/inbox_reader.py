"""Brings the runs of a worker what has arrived in their inboxes."""

from __future__ import annotations

import asyncio
from contextvars import copy_context
from functools import partial
from typing import TYPE_CHECKING, Any

from onward.errors import NotFound, UnreadableRow
from onward.runtime.reading import read_each
from onward.runtime.worker.outage import AWAY
from onward.store.hints import ANYTHING

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Mapping

    from onward.model.messages import InboxRow
    from onward.runtime.execution.execution import Execution
    from onward.runtime.worker.outage import Outage
    from onward.store.store import Store


INBOX_BYTES = 4 * 1024 * 1024
"""How many bytes of signals and of ends of children are read at a time."""


class InboxReader:
    """Reads inboxes, in the background."""

    def __init__(self, store: Store, worker: str, outage: Outage) -> None:
        self._store = store
        self._worker = worker
        self._outage = outage
        self._rounds: set[asyncio.Task[None]] = set()
        self._context = copy_context()  # not that of the run which is visited

    def go_round(self, running: Mapping[str, Execution], heard: set[str]) -> None:
        """Visit the runs that something was sent to or, if nobody knows which, all of them."""
        if ANYTHING in heard or not heard:
            self._set_out(running.values())
        else:
            ours = [running.get(subject.removeprefix("run:")) for subject in sorted(heard)]
            self._set_out(execution for execution in ours if execution is not None)

    def go_again(self, execution: Execution) -> None:
        """Visit a run that could not park: its inbox has a number that it has not seen."""
        self._keep(self._recount(execution))

    def stop(self) -> None:
        """Go nowhere any more."""
        for task in list(self._rounds):
            task.cancel()

    def _set_out(self, executions: Iterable[Execution]) -> None:
        wanted = list(executions)
        if wanted:
            self._keep(self._visit(wanted))

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work, context=self._context)
        self._rounds.add(task)
        task.add_done_callback(self._rounds.discard)

    async def _visit(self, executions: list[Execution]) -> None:
        held = {each: each.fence for each in executions if not each.is_stopped}
        try:
            inboxes = await self._look(executions)
            silent = [each for each in held if not each.receive(inboxes.get(each.uid, ()))]
            owned = await self._store.owned(self._worker) if silent else {}
        except AWAY:
            return  # another round follows
        for execution in silent:
            # Nothing was sent, and yet something has happened: somebody may have ended it by force.
            is_ours = owned.get(execution.uid) == held[execution]
            if not (is_ours or execution.is_stopped) and execution.fence == held[execution]:
                execution.drop()

    async def _look(self, executions: list[Execution]) -> dict[str, list[InboxRow]]:
        """Read what is new in the inboxes of runs.

        A run whose inbox cannot be read is released: its next claim parks it or ends it.
        """
        after = {execution.uid: execution.seen for execution in executions}
        look = partial(self._store.look, after=after, budget=INBOX_BYTES)
        found, failed = await read_each(look, list(after))
        for execution in executions:
            if execution.uid in failed and not execution.is_gone:
                execution.release()
        return found

    async def _recount(self, execution: Execution) -> None:
        # The count is read before the messages, so whatever it counts is among them. A number may
        # have no message: two senders of one message at the same time take two numbers.
        seen = execution.seen
        try:
            counted = (await self._outage.through(lambda: self._store.run(execution.uid))).inbox
            beyond = await self._outage.through(lambda: self._beyond(execution, seen, counted))
            found = await self._outage.through(lambda: self._look([execution]))
        except (*AWAY, NotFound):
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
        if seen <= counted or not await self._store.messages(execution.uid, [seen]):
            return None
        row, fact = f"message {seen} of run {execution.uid}", f"its run has counted to {counted}"
        return UnreadableRow(row, f"its number is too high: {fact}")
