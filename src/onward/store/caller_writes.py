"""Starts, messages and events in a caller's own transaction: they happen if and when it commits.

Such writes only insert. They lock no row of the engine, so a caller may keep its transaction open
for as long as it likes, and they raise nothing that would abort it. On Postgres a hint goes with
the commit, as no other process would notice it. (SQLite has one lock for a whole file: there, all
writers wait for a caller that has written and not committed.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.errors import Unavailable
from onward.model.runs import Started, found_run
from onward.store.writing.text_limits import check_message, check_published, check_run, is_storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from onward.core.ports import Clock
    from onward.model.messages import NewMessage
    from onward.model.pipelines import NewEvent
    from onward.model.runs import NewRun
    from onward.store.callers.admission import Admission
    from onward.store.callers.caller import Caller
    from onward.store.statements import Statement


class CallerWrites:
    """Starts, messages and events within a caller's transaction.

    Args:
        admit: Looks at the caller's connection before each use, and refuses it or not.
        statements: The store's statements, for this database.
        namespace: The tenant.
        clock: Where time is read, unless the database has its own.
    """

    def __init__(
        self,
        admit: Admission,
        statements: dict[str, Statement],
        namespace: str,
        clock: Clock | None,
    ) -> None:
        self._admit = admit
        self._statements = statements
        self._namespace = namespace
        self._clock = clock

    async def start(self, run: NewRun) -> Started:
        """Start a run with the caller's commit, unless one of that id exists.

        Raises:
            StoreUnusable: the connection cannot write to this store.
            Unavailable: the run of that id was removed just now; try again.
        """
        check_run(run)
        caller = await self._admit()
        made = await self._fetch(caller, "insert_run", run._asdict())
        if made:
            await self._fetch(caller, "insert_run_data", run._asdict())
            await self._hint(caller, "hint_start", queue=run.queue)
            return Started(run.uid, True, run.name, run.args_hash, made[0][0])  # noqa: FBT003
        there = await self._fetch(caller, "started_run", {"uid": run.uid, "id": run.id})
        if not there:
            raise Unavailable(f"run {run.id!r}", "was removed during this call")
        return found_run(run.uid, *there[0])

    async def prepare_to_write(self) -> None:
        """Ensure that the caller's transaction can write after it has read.

        Raises:
            StoreUnusable: the connection cannot write to this store, or has read too early.
            Unavailable: another connection has the SQLite file locked.
        """
        caller = await self._admit(writes=False)
        await caller.prepare_to_write()

    async def find(self, target: str) -> tuple[str, str] | None:
        """Return id and state of the run of this id or else uid, if the transaction sees one.

        Raises:
            StoreUnusable: the connection cannot write to this store.
        """
        if not is_storable(target):
            return None
        caller = await self._admit(writes=False)
        found = await self._fetch(caller, "target_state", {"target": target})
        return (found[0][0], found[0][1]) if found else None

    async def send(self, message: NewMessage) -> None:
        """Send a message, whose target is the id of a run, with the caller's commit.

        It is delivered after that by a worker, or together with the next message to that run.

        Raises:
            StoreUnusable: the connection cannot write to this store.
        """
        check_message(message)
        caller = await self._admit()
        await self._fetch(caller, "insert_outbox", message._asdict())
        await self._hint(caller, "hint_send", target=message.target)

    async def publish(self, events: Sequence[NewEvent]) -> str | None:
        """Publish events with the caller's commit; workers move them into their topics after that.

        Returns:
            The name of a topic that the transaction does not see: then nothing was written.

        Raises:
            StoreUnusable: the connection cannot write to this store.
        """
        check_published(events, ())
        caller = await self._admit()
        for topic in sorted({event.topic for event in events}):
            if not await self._fetch(caller, "topic_seen", {"topic": topic}):
                return topic
        for event in events:
            await self._fetch(caller, "insert_unpublished", event._asdict())
        await self._hint(caller, "hint_publish")
        return None

    async def _hint(self, caller: Caller, name: str, **given: object) -> None:
        """Send a hint with the caller's commit, if the database can carry one."""
        if self._admit.channel is not None:
            await self._fetch(caller, name, {"channel": self._admit.channel, **given})

    async def _fetch(
        self, caller: Caller, name: str, given: dict[str, object]
    ) -> Sequence[Sequence[Any]]:
        statement = self._statements[name]
        given["namespace"] = self._namespace
        if self._clock is not None:
            given["now"] = self._clock.wall()
        return await caller.fetch(statement.sql, statement.arrange(given))
