"""Rows of namespaces and API keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from onward.core.instant import Duration, Instant


class NamespaceRow(NamedTuple):
    """A namespace that an administrator has made."""

    name: str
    title: str
    enabled: int
    created_at: Instant


class NewApiKey(NamedTuple):
    """A key to be stored; `scopes` has one a line."""

    id: str
    namespace: str
    name: str
    scopes: str
    secret_hash: str
    created_by: str
    expires_in: Duration | None = None


class ApiKeyRow(NamedTuple):
    """A key as it stands, without anything of its secret."""

    id: str
    namespace: str
    name: str
    scopes: str
    created_at: Instant
    created_by: str
    expires_at: Instant | None
    last_used_at: Instant | None
    revoked_at: Instant | None

    def is_valid(self, now: Instant) -> bool:
        """Return whether the key can be used at an instant of the database."""
        has_expired = self.expires_at is not None and self.expires_at <= now
        return self.revoked_at is None and not has_expired


class StoredKey(NamedTuple):
    """A key with what decides whether a request may use it."""

    row: ApiKeyRow
    secret_hash: str
    is_enabled: bool
    """Whether its namespace is enabled."""
    read_at: Instant

    @property
    def is_valid(self) -> bool:
        """Return whether the key could be used when it was read."""
        return self.row.is_valid(self.read_at)
