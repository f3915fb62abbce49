"""pytest fixtures: a Postgres for the session and a fresh database for each test.

    pytest_plugins = ["onward.testing.fixtures"]

With pytest-xdist every worker process has a server of its own: it costs half a second and saves
all coordination.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.testing.postgres import PostgresServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A Postgres server that runs for the whole test session."""
    with PostgresServer.start() as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template() -> str | None:
    """The name of the database that `postgres_url` copies, or None for an empty database.

    Override this fixture to start tests with a migrated database. Your override must return the
    result of `postgres_server.template(name, prepare)`.
    """
    return None


@pytest.fixture
def postgres_url(postgres_server: PostgresServer, postgres_template: str | None) -> Iterator[str]:
    """The address of a database that only this test uses."""
    url = postgres_server.create_database(postgres_template)
    yield url
    postgres_server.drop_database(url)
