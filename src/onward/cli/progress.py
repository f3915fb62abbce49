"""A progress bar on a terminal; elsewhere nothing is printed."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from onward.cli.output import Output


@contextmanager
def progress(out: Output, what: str, total: int | None) -> Iterator[Callable[[], None]]:
    """Show how much of some work is done; the body calls what it is given after each part."""
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ModuleNotFoundError:
        Progress = None  # type: ignore[assignment,misc] # noqa: N806 - it stands for the class
    if out.as_json or not sys.stderr.isatty() or Progress is None:
        yield lambda: None
        return
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
