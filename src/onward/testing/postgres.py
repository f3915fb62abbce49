"""A real Postgres for tests, with a fresh database for each of them.

`PostgresServer.start()` uses the server that `ONWARD_TEST_POSTGRES_URL` names, or makes a private
one (see `onward.testing.binaries` for where its binaries come from) and removes it at the end, also
if the tests are killed. It raises when there is no Postgres: tests must fail then, not skip.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self
from urllib.parse import quote, unquote, urlsplit

from onward.errors import StoreUnusable
from onward.testing.binaries import find_binaries
from onward.testing.cluster import USER, Cluster, StopMode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path
    from types import TracebackType

VARIABLE = "ONWARD_TEST_POSTGRES_URL"

_FILE_COPY = " STRATEGY FILE_COPY"
_NEW = 15
"""The first version of Postgres that has strategies."""


class PostgresServer:
    """A running Postgres server on which tests may create and drop databases.

    Example:
        with PostgresServer.start() as server:
            url = server.create_database()
    """

    def __init__(self, admin_url: str, cluster: Cluster | None) -> None:
        self._admin_url = admin_url
        self._cluster = cluster
        self._prefix = f"onward_test_{secrets.token_hex(4)}"
        self._made = 0
        self._databases: set[str] = set()
        self._templates: dict[str, str] = {}

    @classmethod
    def start(
        cls,
        environ: Mapping[str, str] = os.environ,
        *,
        settings: Mapping[str, str] | None = None,
        where: Path | None = None,
    ) -> Self:
        """Start or find a server, and return it when it accepts connections.

        Args:
            environ: The environment to read the `ONWARD_TEST_POSTGRES_…` variables and `PATH` from.
            settings: Additional settings for a private server.
            where: The folder for its data; by default a folder in memory, if there is enough
                memory.

        Raises:
            StoreUnusable: no Postgres installation was found, or the server could not be started.
        """
        if url := environ.get(VARIABLE):
            return cls(url, None)
        cluster = Cluster(find_binaries(environ), settings or {}, where)
        return cls(_socket_url(cluster, "postgres"), cluster)

    def stop(self) -> None:
        """Remove the private server, or the databases that were created on an existing server."""
        if self._cluster is not None:
            self._cluster.remove()
        else:
            for database in sorted(self._databases):
                self._drop(database)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    # --- databases --------------------------------------------------------------------------------

    def url(self, database: str, *, tcp: bool = False) -> str:
        """Return the address of a database, on a Unix socket or, with `tcp`, on a loopback port.

        The server that `ONWARD_TEST_POSTGRES_URL` points to has only one address, which is used in
        both cases.
        """
        if self._cluster is None:
            return urlsplit(self._admin_url)._replace(path=f"/{quote(database)}").geturl()
        if tcp:
            place = f"{USER}:{self._cluster.password}@127.0.0.1:{self._cluster.port}"
            return f"postgresql://{place}/{quote(database)}"
        return _socket_url(self._cluster, database)

    def create_database(self, template: str | None = None) -> str:
        """Create a database, empty or a copy of `template`, and return its address."""
        name = self._new_name()
        source = f' TEMPLATE "{template}"' if template else ""
        # Of a private server, whose files are in memory, to copy them takes a third of the time.
        is_copied = self._cluster is not None
        self._execute(f'CREATE DATABASE "{name}"{source}', _FILE_COPY if is_copied else "")
        self._databases.add(name)
        return self.url(name)

    def drop_database(self, url: str) -> None:
        """Drop the database at that address, even if it has open connections."""
        self._drop(unquote(urlsplit(url).path.removeprefix("/")))

    def template(self, name: str, prepare: Callable[[str], None]) -> str:
        """Return the name of a template database; the first call for each `name` creates it.

        The first call passes the address of the new database to `prepare`, which fills the database
        and must close its connections before it returns.
        """
        if name not in self._templates:
            url = self.create_database()
            prepare(url)
            database = unquote(urlsplit(url).path.removeprefix("/"))
            # A copy cannot be made while a client is connected, so none may connect.
            self._execute(f'ALTER DATABASE "{database}" ALLOW_CONNECTIONS false')
            self._templates[name] = database
        return self._templates[name]

    # --- breaking it ------------------------------------------------------------------------------

    def restart(self, mode: StopMode = "immediate") -> None:
        """Stop the server and start it again at the same address."""
        with self.down(mode):
            pass

    @contextmanager
    def down(self, mode: StopMode = "immediate") -> Iterator[None]:
        """Keep the server stopped while the block runs.

        Raises:
            StoreUnusable: the server was not started by this process.
        """
        if self._cluster is None:
            advice = f"Unset {VARIABLE} for tests that stop the server."
            raise StoreUnusable(self._admin_url, "is not a private server", advice)
        self._cluster.halt(mode)
        try:
            yield
        finally:
            self._cluster.start()

    def _new_name(self) -> str:
        self._made += 1
        return f"{self._prefix}_{self._made}"

    def _drop(self, database: str) -> None:
        self._execute(f'DROP DATABASE IF EXISTS "{database}" WITH (FORCE)')
        self._databases.discard(database)

    def _execute(self, statement: str, newer: str = "") -> None:
        # In a thread, because the caller may already be inside a running event loop.
        with ThreadPoolExecutor(max_workers=1) as thread:
            thread.submit(asyncio.run, _execute(self._admin_url, statement, newer)).result()


async def _execute(url: str, statement: str, newer: str) -> None:
    """Execute a statement, with an end that older servers do not know."""
    try:
        import asyncpg
    except ImportError as error:
        advice = 'Install "onward[postgres]".'
        raise StoreUnusable("a Postgres for tests", "needs asyncpg", advice) from error
    connection = await asyncpg.connect(url, statement_cache_size=0)
    try:
        is_new = connection.get_server_version().major >= _NEW
        await connection.execute(statement + newer if is_new else statement)
    finally:
        await connection.close()


def _socket_url(cluster: Cluster, database: str) -> str:
    where = f"host={quote(str(cluster.folder), safe='/')}&port={cluster.port}"
    return f"postgresql://{USER}@/{quote(database)}?{where}"
