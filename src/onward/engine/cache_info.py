"""Rows of the result cache as users see them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.engine.display import shown_time
from onward.engine.views import CacheEntry

if TYPE_CHECKING:
    from onward.model.cache import CacheRow


def cache_entry(row: CacheRow) -> CacheEntry:
    """Return an entry; its value is not shown."""
    return CacheEntry(
        row.key,
        row.step,
        row.version or None,
        row.run,
        row.size,
        shown_time(row.created_at),
        shown_time(row.expires_at),
    )
