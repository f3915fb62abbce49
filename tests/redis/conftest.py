"""A real Redis, and a Postgres on which nothing but it can carry a hint."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward.engine import results
from onward.runtime.worker import claiming
from tests.redis.server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def deaf_url(postgres_url: str) -> str:
    """A Postgres behind a pooler, so without LISTEN."""
    mark = "&" if "?" in postgres_url else "?"
    return f"{postgres_url}{mark}pgbouncer=true"


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nobody find out by looking again, so that a test fails if a hint is lost."""
    for module in (claiming, results):
        monkeypatch.setattr(module, "POLL_SECONDS", 3600.0)
