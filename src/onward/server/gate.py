"""Who calls: from the metadata of a gRPC call to a principal. Every call goes through here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote

from onward.codec import check_id
from onward.core.access import open_principal
from onward.core.instant import SECOND
from onward.errors import BadInput

if TYPE_CHECKING:
    from onward.core.access import Principal
    from onward.core.ports import Clock
    from onward.engine.access.administration import Administration
    from onward.engine.access.authenticator import Authenticator

KEYS_LOOKED_AT: Final = 4 * SECOND
"""How long a server without keys goes on without looking whether there are any by now."""

DEFAULT_NAMESPACE: Final = "default"


class Gate(Protocol):
    """Finds out who calls."""

    async def principal(self, context: Any) -> Principal:
        """Return who makes a gRPC call.

        Raises:
            Unauthenticated: there is no key, or it cannot be used.
            BadInput: the call names another namespace than that of the key.
        """
        ...


class OpenGate:
    """The gate of a server without keys, which listens on loopback only: all is allowed."""

    async def principal(self, context: Any) -> Principal:
        return open_principal(namespace_in(context) or DEFAULT_NAMESPACE)


class KeyGate:
    """The gate of a server whose database may have keys: as soon as there is one, all need one.

    Args:
        authenticator: Knows the keys.
        administration: Knows whether there are any.
        clock: A steady clock.
        is_open: Whether calls without a key are accepted while there are no keys.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        administration: Administration,
        clock: Clock,
        *,
        is_open: bool,
    ) -> None:
        self._authenticator = authenticator
        self._administration = administration
        self._clock = clock
        self._is_open = is_open
        self._looked_at: int | None = None

    async def principal(self, context: Any) -> Principal:
        header = _value(context, "authorization")
        named = namespace_in(context)
        if header is None and self._is_open and not await self._has_keys():
            return open_principal(named or DEFAULT_NAMESPACE)
        principal = await self._authenticator.authenticate(header, _address(context))
        check_namespace(named, principal)
        return principal

    async def still_valid(self, key_id: str) -> bool:
        """Return whether a stream of a key, or of none, may stay open."""
        if key_id:
            return await self._authenticator.still_valid(key_id)
        return self._is_open and not await self._has_keys()

    async def _has_keys(self) -> bool:
        now = self._clock.monotonic()
        if self._looked_at is None or now - self._looked_at > KEYS_LOOKED_AT:
            if await self._administration.has_keys():
                self._is_open = False
                return True
            self._looked_at = now
        return False


def check_namespace(named: str, principal: Principal) -> None:
    """Refuse a request that names another namespace than that of its key.

    Raises:
        BadInput: it does.
    """
    if named and named != principal.namespace:
        raise BadInput(
            f"namespace {named!r}",
            f"does not match the key, which belongs to {principal.namespace!r}",
            f"Leave out namespace=, or use a key for namespace {named!r}",
        )


def namespace_in(context: Any) -> str:
    """Return the namespace that a call names; it is empty if there is none.

    Raises:
        BadInput: it cannot be one.
    """
    named = _value(context, "onward-namespace")
    return _checked(named) if named else ""


def _checked(namespace: str) -> str:
    if ":" in check_id(namespace, "the namespace"):
        raise BadInput(f"namespace {namespace!r}", "contains a colon", "Use another character")
    return namespace


def _value(context: Any, name: str) -> str | None:
    for key, value in context.invocation_metadata() or ():
        if key == name:
            return str(value)
    return None


def _address(context: Any) -> str:
    """Return the address of the caller, without its port."""
    kind, _, rest = context.peer().partition(":")
    if kind not in ("ipv4", "ipv6"):
        return str(kind)
    return unquote(rest.rpartition(":")[0]).strip("[]")
