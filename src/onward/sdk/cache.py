"""`app.cache`: results of steps that runs share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.engine.views import CacheEntry
from onward.errors import BadInput
from onward.sdk.given import check_texts, given_id, read_pages
from onward.sdk.inside import refuse_in_body

if TYPE_CHECKING:
    from onward.engine.client_engine import ClientEngine

    Entries = list[CacheEntry]  # in the class, `list` is its method

__all__ = ["Cache", "CacheEntry"]


class Cache:
    """The result cache of an app (`app.cache`). Steps with a `cache` option fill it.

    Example:
        >>> import asyncio
        >>> from onward import App, step, workflow
        >>> calls = []
        >>> @step(cache="1h")
        ... async def rate(currency: str) -> float:
        ...     calls.append(currency)
        ...     return 1.08
        >>> @workflow
        ... async def convert(euros: float) -> float:
        ...     return euros * await rate("USD")
        >>> async def main() -> tuple[int, int]:
        ...     app = App(":memory:")
        ...     async with app, app.worker(workflows=[convert]):
        ...         await app.run(convert, 100)
        ...         await app.run(convert, 200)
        ...         return len(calls), await app.cache.purge(step="rate")
        >>> asyncio.run(main())
        (1, 1)
    """

    def __init__(self, engine: ClientEngine) -> None:
        self._opened = engine

    @property
    def _engine(self) -> ClientEngine:
        refuse_in_body("a call to app.cache")
        return self._opened

    async def list(
        self,
        *,
        step: str | None = None,
        version: str | None = None,
        limit: int = 100,
        after: str = "",
    ) -> Entries:
        """Return results that have not expired, sorted by key, without their values.

        Args:
            step: Only results of this step.
            version: Only results of this version.
            limit: The maximum number of entries.
            after: The key of the last entry on the previous page.
        """
        check_texts(step=step, version=version)
        engine = self._engine
        return await read_pages(
            limit,
            lambda size, last: engine.list_cache(
                step=step, version=version, limit=size, after=last
            ),
            given_id(after, "after"),
            lambda entry: entry.key,
        )

    async def purge(
        self,
        *,
        key: str | None = None,
        step: str | None = None,
        version: str | None = None,
        all: bool = False,  # noqa: A002 - it is the user's word
    ) -> int:
        """Delete results, and return how many were deleted.

        The next call executes the step again. Runs that have already read a result keep it. Workers
        delete expired results automatically.

        Args:
            key: Only the result with this key.
            step: Only results of this step.
            version: Only results of this version.
            all: Whether to delete all results of the namespace.

        Raises:
            BadInput: neither a filter nor `all` is given.
        """
        if not all and key is None and step is None and version is None:
            raise BadInput("purge()", "was called without a filter", "Pass step=, or all=True")
        return await self._engine.purge_cache(key=key, step=step, version=version)
