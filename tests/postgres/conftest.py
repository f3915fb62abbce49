"""Stores on a real Postgres whose schema is made once and copied for every test."""

import asyncio
from collections.abc import Iterator

import pytest

from onward.store import open_store
from onward.testing.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    return postgres_server.template("migrated", lambda url: asyncio.run(_migrate(url)))


async def _migrate(url: str) -> None:
    async with open_store(url):
        pass


@pytest.fixture
def empty_url(postgres_server: PostgresServer) -> Iterator[str]:
    """The address of a database in which nothing has been made yet."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture(scope="module")
def own_server() -> Iterator[PostgresServer]:
    """A server that the tests of a module may stop."""
    with PostgresServer.start({}) as server:
        yield server


@pytest.fixture
def own_url(own_server: PostgresServer) -> Iterator[str]:
    """The address of an empty database of a server that tests may stop."""
    url = own_server.create_database()
    yield url
    own_server.drop_database(url)
