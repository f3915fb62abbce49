"""Checks of ids that users give, and lists that are read page by page.

An engine in this process and a server refuse the same arguments with the same error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from onward.engine.page_sizes import MAX_PAGE
from onward.engine.search import RunPage
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from onward.engine.client_engine import ClientEngine
    from onward.engine.views import RunInfo
    from onward.model.run_filter import RunQuery

T = TypeVar("T")
C = TypeVar("C")


def given_id(given: object, what: str = "the run id") -> str:
    """Return an id or a name by which something is looked up.

    Raises:
        BadInput: it is not text.
    """
    if not isinstance(given, str):
        raise BadInput(what, f"is of type {type(given).__name__}, not str", "Pass a str")
    return given


def check_texts(**given: object) -> None:
    """Refuse a filter that is given, and is not text.

    Raises:
        BadInput: there is one.
    """
    for name, value in given.items():
        if value is not None:
            given_id(value, name)


def check_limit(limit: object) -> int:
    """Return how many rows a user wants at most.

    Raises:
        BadInput: it is not a whole number, or is negative.
    """
    if type(limit) is not int:
        raise BadInput(f"limit={limit!r}", "is not a whole number", "Pass a limit of 0 or more")
    if limit < 0:
        raise BadInput(f"limit={limit}", "is negative", "Pass a limit of 0 or more")
    return limit


async def read_pages(
    limit: int,
    read: Callable[[int, C], Awaitable[list[T]]],
    after: C,
    cursor: Callable[[T], C],
) -> list[T]:
    """Return up to `limit` rows, read in pages that are as large as a server allows.

    Args:
        limit: How many rows.
        read: Returns so many rows after a cursor.
        after: The cursor of the first page.
        cursor: Returns the cursor of a row.

    Raises:
        BadInput: the limit is not a whole number, or is negative.
    """
    wanted = check_limit(limit)
    found: list[T] = []
    while True:
        size = min(MAX_PAGE, wanted - len(found))
        page = await read(size, after)
        found += page
        if len(page) < size or len(found) == wanted:
            return found
        after = cursor(page[-1])


async def list_runs(
    engine: ClientEngine,
    query: RunQuery,
    page: RunPage,
    attributes: Mapping[str, Sequence[Any]],
    **family: str | None,
) -> list[RunInfo]:
    """Return runs, newest first; the page may be larger than one that a server returns."""

    async def read(size: int, before: str | None) -> list[RunInfo]:
        return await engine.list_runs(query, RunPage(size, before), attributes, **family)

    return await read_pages(page.limit, read, page.before, lambda info: info.uid)
