"""The suite in the hands of a user: a database of their own, pytest, and nothing else of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

THEIRS = """
import sqlite3
from contextlib import asynccontextmanager

import pytest

from onward.store import open_store
from onward.testing.conformance import SUITE, World, live


class MyWorld(World):
    def __init__(self, path):
        super().__init__()
        self.path = path

    async def open(self, namespace):
        return await open_store(self.path, namespace=namespace, clock=self.clock).__aenter__()

    async def close(self, store):
        await store.__aexit__(None, None, None)

    async def sql(self, statement):
        connection = sqlite3.connect(self.path, isolation_level=None)
        rows = connection.execute(statement).fetchall()
        connection.close()
        return rows

    @asynccontextmanager
    async def caller(self, *, commit):
        connection = sqlite3.connect(self.path)
        yield connection
        (connection.commit if commit else connection.rollback)()
        connection.close()


@pytest.mark.parametrize("name", [name for name in SUITE if "caller" in name])
def test_the_store_conforms(name, tmp_path):
    live(MyWorld(str(tmp_path / "mine.db")), SUITE[name])
"""

BROKEN = """
from onward.testing.conformance import SUITE, live
from onward.testing.conformance.samples import a_run
from test_theirs import MyWorld


class Miscounting(MyWorld):
    async def open(self, namespace):
        store = await super().open(namespace)
        await store.start(a_run("one too many")._replace(queue="other"))
        return store


def test_a_store_that_is_wrong_is_told_so(tmp_path):
    live(Miscounting(str(tmp_path / "mine.db")), SUITE["test_runs_are_counted_by_state"])
"""


def test_a_user_runs_the_suite_on_a_database_of_their_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_theirs=THEIRS)

    answer = pytester.runpytest_inprocess("-q", "-p", "no:cacheprovider")

    outcomes = answer.parseoutcomes()
    assert set(outcomes) == {"passed"}
    assert outcomes["passed"] >= 5


def test_a_failure_shows_what_was_compared(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_theirs=THEIRS, test_broken=BROKEN)

    answer = pytester.runpytest_inprocess("-q", "-k", "wrong", "-p", "no:cacheprovider")

    answer.assert_outcomes(failed=1, deselected=answer.parseoutcomes()["deselected"])
    answer.stdout.fnmatch_lines(["*{'ready': 2} != {'ready': 1}*"])
