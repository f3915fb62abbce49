"""What the crash tests of the engine have, and a sink."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.effects.sink import Sink
from tests.e2e.engine.conftest import crew, log, url
from tests.kit.databases import postgres_template

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["crew", "log", "postgres_template", "sink", "url"]


@pytest.fixture
def sink(tmp_path: Path) -> Iterator[Sink]:
    """The outside, which keeps a ledger of its own."""
    with Sink(tmp_path / "sink.ledger") as sink:
        yield sink
