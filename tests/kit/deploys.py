"""Deploys in a test: several functions of one name, of which each worker has one."""

from __future__ import annotations

import linecache
import shutil
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from onward import workflow
from tests.kit.watching import until, until_state

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

    from onward import App, Run, Workflow
    from onward.model.messages import InboxRow
    from onward.model.records import RecordRow

R = TypeVar("R")

NAME = "deployed"
SECONDS = 20.0
"""What takes longer hangs."""


def deployed(
    fn: Callable[..., Coroutine[Any, Any, R]], *, name: str = NAME, strict: bool = False
) -> Workflow[..., R]:
    """Return a function as what is deployed under a name."""
    return workflow(name=name, strict=strict)(fn)


def shipped(source: str, *, file: str, **given: Any) -> Workflow[..., Any]:
    """Return the function `flow` of a source that is in no module: its own code is its mark."""
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"__name__": "shipped", **given}
    exec(compile(source, file, "exec"), names)
    return deployed(names["flow"])


def write_module(path: Path, code: str) -> None:
    """Replace a module that other processes have imported.

    Cached bytecode hides a file of the same size that was written within the same second.
    """
    path.write_text(code)
    shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)


async def waits_for(run: Run[Any], name: str) -> None:
    """Wait until a run waits for a signal."""

    async def is_asked() -> bool:
        return any(row.name == name for row in await run.history())

    await until(is_asked)
    await until_state(run, "waiting")


class Seen(NamedTuple):
    """All that a worker could write: records with their notes, runs, messages."""

    runs: list[str]
    records: dict[str, list[RecordRow]]
    inboxes: dict[str, list[InboxRow]]


async def all_of(app: App) -> Seen:
    """Return what is in the store."""
    runs = sorted([info.uid for info in await app.runs()])
    return Seen(runs, await app._store.history(runs), await app._store.look(runs))
