"""The databases of a crash campaign, and what it prints when it fails."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.e2e.engine.outside import VARIABLE
from tests.e2e.engine.supervisor import Crew

if TYPE_CHECKING:
    from collections.abc import Iterator

    from onward.testing.postgres import PostgresServer


class Ground:
    """Fresh databases of one kind, each with a log of its own."""

    def __init__(self, name: str, server: PostgresServer | None) -> None:
        self.name = name
        self._server = server

    @contextmanager
    def crew(self) -> Iterator[Crew]:
        """Return processes on a database that nobody has used yet."""
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "outside.log")
            os.environ[VARIABLE] = str(log)
            url = str(Path(folder, "onward.db"))
            if self._server is not None:
                url = self._server.create_database()
            with Crew(url, log) as crew:
                yield crew
            if self._server is not None:
                self._server.drop_database(url)


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Say what was being tried, if it fails."""
    try:
        yield
    except BaseException:
        print(f"FAILED: {what}", flush=True)
        raise
