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
