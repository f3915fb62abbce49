"""Statements on a Postgres connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.store.postgres import batch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onward.core.ports import Clock
    from onward.model.messages import NewMessage, SentMessage
    from onward.store.row_values import RowValues
    from onward.store.statements import Statement


class PostgresTx:
    """A connection, in a transaction or about to run a single statement that is one."""

    def __init__(
        self,
        connection: Any,
        statements: dict[str, Statement],
        namespace: str,
        where: str,
        clock: Clock | None,
    ) -> None:
        self._connection = connection
        self._statements = statements
        self._clock = clock
        self.namespace = namespace
        self.where = where

    @property
    def is_in_transaction(self) -> bool:
        """Whether an error of a statement undoes others too."""
        return bool(self._connection.is_in_transaction())

    async def fetch(self, name: str, /, **given: object) -> Sequence[Sequence[Any]]:
        statement = self._statements[name]
        given["namespace"] = self.namespace
        if self._clock is not None:
            given["now"] = self._clock.wall()
        rows: Sequence[Sequence[Any]] = await self._connection.fetch(
            statement.sql, *statement.arrange(given)
        )
        return rows

    async def fetch_rows(self, name: str, rows: Sequence[RowValues]) -> Sequence[Sequence[Any]]:
        if not rows:
            return []
        columns = zip(*rows, strict=True)
        return await self.fetch(name, **dict(zip(rows[0]._fields, columns, strict=True)))

    def array(self, values: Iterable[str] | Iterable[int]) -> object:
        return list(values)

    async def lock(self, uids: Iterable[str]) -> None:
        await self.fetch("lock_runs", uids=sorted(set(uids)))

    async def leased(self, worker: str) -> bool:
        return bool(await self.fetch("lease_here", worker=worker))

    async def send(self, messages: Sequence[NewMessage]) -> list[SentMessage]:
        return await batch.send(self, messages) if messages else []
