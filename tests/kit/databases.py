"""A migrated Postgres database that tests copy, which is much faster than to migrate each time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward.store import open_store

if TYPE_CHECKING:
    from onward.testing.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    """A migrated database; import this fixture in a conftest to use it for `postgres_url`."""

    async def migrate(url: str) -> None:
        async with open_store(url):
            pass

    return postgres_server.template("migrated", lambda url: asyncio.run(migrate(url)))
