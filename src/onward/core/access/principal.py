"""Who calls: a key, its namespace, and what it may do there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from onward.core.access.scopes import POLL, POLL_ALL, ROOT, SCOPES, poll_scope
from onward.core.value import Value
from onward.errors import Forbidden, NamespaceDisabled

if TYPE_CHECKING:
    from collections.abc import Collection

STARTING: Final = frozenset({"run:start", "event:publish"})
"""The scopes whose calls a disabled namespace refuses; see also `check_rights`."""


class Principal(Value):
    """The holder of a key. Its namespace is that of the key, whatever a request says.

    Attributes:
        key_id: The id of the key; empty for a server without keys.
        name: The name of the key, for people.
        namespace: The namespace that it sees and changes.
        scopes: What it may do there.
        is_enabled: Whether the namespace is enabled.
    """

    key_id: str
    name: str
    namespace: str
    scopes: frozenset[str]
    is_enabled: bool = True

    def allows(self, scope: str) -> bool:
        """Return whether the key has a scope; one that does not exist is never allowed."""
        if scope.startswith(POLL) and scope != POLL_ALL:
            return self.polls(scope.removeprefix(POLL))
        return scope in self.scopes

    def polls(self, queue: str) -> bool:
        """Return whether the key may run a worker for a queue."""
        return bool(queue) and not self.scopes.isdisjoint((POLL_ALL, poll_scope(queue)))

    def check(self, scope: str) -> None:
        """Refuse what the key, or the state of its namespace, does not allow.

        Raises:
            Forbidden: the key does not have the scope.
            NamespaceDisabled: it has, but the namespace takes no new runs and events.
        """
        if not self.allows(scope):
            raise Forbidden(self.name or self.key_id, scope)
        if scope in STARTING:
            self.check_enabled()

    def check_enabled(self) -> None:
        """Refuse what makes new runs or events if the namespace takes none.

        Raises:
            NamespaceDisabled: it is disabled.
        """
        if not self.is_enabled:
            raise NamespaceDisabled(self.namespace)

    def check_worker(self) -> None:
        """Refuse a key that may not run workers for any queue.

        Raises:
            Forbidden: it has no such scope.
        """
        if not any(scope.startswith(POLL) for scope in self.scopes):
            raise Forbidden(self.name or self.key_id, POLL_ALL)

    def may_grant(self, namespace: str, scopes: Collection[str]) -> bool:
        """Return whether the key may create a key with these scopes in a namespace.

        With `root`, any. With `ns:admin`, a key of the same namespace that can do no more than this
        one can.
        """
        if ROOT in self.scopes:
            return True
        if "ns:admin" not in self.scopes or namespace != self.namespace:
            return False
        return all(self.allows(scope) for scope in scopes)


def open_principal(namespace: str) -> Principal:
    """Return who calls a server that has no keys: it may do everything in the namespace it names.

    Such a server listens on the loopback interface only.
    """
    return Principal("", "open", namespace, frozenset(SCOPES))


OPEN: Final = open_principal("default")
