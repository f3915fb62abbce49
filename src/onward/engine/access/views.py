"""Namespaces and API keys as users see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from onward.engine.display import shown_time, shown_time_or_none

if TYPE_CHECKING:
    from datetime import datetime

    from onward.core.access import ApiKey
    from onward.core.instant import Instant
    from onward.model.access import ApiKeyRow, NamespaceRow


@dataclass(frozen=True, slots=True)
class NamespaceInfo:
    """A namespace of a server.

    Attributes:
        name: Its name.
        title: What it is for, for people.
        enabled: Whether clients of the server may start runs and publish events in it.
        created_at: When it was made.
    """

    name: str
    title: str
    enabled: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ApiKeyInfo:
    """An API key, without its secret.

    Attributes:
        id: Its id, which is also the second part of its text.
        namespace: The namespace that its holder sees and changes.
        name: Its name, for people.
        scopes: What its holder may do.
        state: active, expired or revoked.
        created_at: When it was made.
        created_by: Who made it.
        expires_at: Until when it can be used; None: it does not expire.
        last_used_at: About when it was used last, within an hour.
        revoked_at: When it was revoked.
    """

    id: str
    namespace: str
    name: str
    scopes: tuple[str, ...]
    state: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None


class CreatedKey(NamedTuple):
    """A key that was made just now: the only time that its text is known."""

    info: ApiKeyInfo
    key: ApiKey


def namespace_info(row: NamespaceRow) -> NamespaceInfo:
    return NamespaceInfo(row.name, row.title, bool(row.enabled), shown_time(row.created_at))


def key_info(row: ApiKeyRow, now: Instant) -> ApiKeyInfo:
    state = "active" if row.is_valid(now) else "expired"
    return ApiKeyInfo(
        row.id,
        row.namespace,
        row.name,
        scopes_of(row),
        state if row.revoked_at is None else "revoked",
        shown_time(row.created_at),
        row.created_by,
        shown_time_or_none(row.expires_at),
        shown_time_or_none(row.last_used_at),
        shown_time_or_none(row.revoked_at),
    )


def scopes_of(row: ApiKeyRow) -> tuple[str, ...]:
    """Return the scopes of a key, which are stored one a line."""
    return tuple(row.scopes.splitlines())
