"""What a run starts for itself while it is taken from its worker, or ended."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Literal

import pytest

import onward
from onward import App, workflow
from onward.errors import NotFound
from onward.telemetry.failpoints import arm, disarm
from tests.kit.watching import until, working

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# As a forced cancel does it, between two statements of the worker.
END = """UPDATE onward_run SET state = 'cancelled', reason = 'forced', worker = NULL, due = NULL,
         fence = fence + 1, finished_at = updated_at WHERE id = 'parent'"""

bodies: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_ran() -> Iterator[None]:
    bodies.clear()
    yield
    disarm("start.before")


@workflow
async def child() -> None:
    bodies.append("child")


@workflow
async def caller() -> None:
    await child.options(id="child")()


@workflow
async def starter(on_conflict: Literal["return", "replace"]) -> None:
    await onward.start(child.options(id="child", on_conflict=on_conflict))


@workflow
async def later() -> str:
    return "done"


@pytest.mark.parametrize("how", ["call", "return", "replace"])
async def test_a_run_that_is_over_starts_no_child_under_an_id(
    tmp_path: Path, how: Literal["call", "return", "replace"]
) -> None:
    file = str(tmp_path / "app.db")
    ended: list[str] = []

    def end_parent() -> None:
        with closing(sqlite3.connect(file)) as stranger:
            stranger.execute(END)
            stranger.commit()
        ended.append("parent")

    async def is_ended() -> bool:
        return bool(ended)

    app = App(file)
    async with working(app):
        arm("start.before", end_parent, hit=2)  # the first is that of the parent
        if how == "call":
            await app.start(caller.options(id="parent"))
        else:
            await app.start(starter.options(id="parent"), how)

        await until(is_ended)
        assert await app.run(later) == "done"
        with pytest.raises(NotFound):
            await app.get("child")
    assert bodies == []
