"""A key, a namespace or a limit of a server does not allow a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from onward.errors.root import UserError, closed
from onward.errors.stores import Unavailable

_PROTOCOL = "Check that the worker follows the worker protocol."
_REFUSED = {
    "queue": "Use a key that has this scope, or serve other queues.",
    "replace": "Use a key that has this scope, or do not pass on_conflict='replace'.",
}
"""What to do about a write that was refused, for rules that a key can break."""


@dataclass(eq=False, repr=False)
class Unauthenticated(UserError):
    """A server does not accept the API key, or the call had no API key."""

    code: ClassVar[str] = "unauthenticated"
    fact: str
    advice: str

    def __str__(self) -> str:
        return f"access denied: {closed(self.fact)} {closed(self.advice)}"


@dataclass(eq=False, repr=False)
class Forbidden(UserError):
    """The API key is valid, but does not have the scope that the call needs."""

    code: ClassVar[str] = "forbidden"
    key: str
    scope: str

    def __str__(self) -> str:
        role = "--role worker, or " if self.scope.startswith("worker:poll:") else ""
        return (
            f"access denied: key {self.key!r} does not have the scope {self.scope}. "
            f"Use a key that has it (onward keys create {role}--scope {self.scope})."
        )


@dataclass(eq=False, repr=False)
class NamespaceDisabled(UserError):
    """The namespace accepts no new runs or events; its open runs continue."""

    code: ClassVar[str] = "namespace_disabled"
    namespace: str

    def __str__(self) -> str:
        return (
            f"namespace {self.namespace!r} is disabled: nothing was started or published. "
            "Use another namespace, or enable this one "
            f"(onward namespaces enable {self.namespace})."
        )


@dataclass(eq=False, repr=False)
class RateLimited(Unavailable):
    """An API key, a namespace or a client address has exceeded its limit; nothing was done."""

    code: ClassVar[str] = "rate_limited"
    wait_seconds: int = 1

    def __str__(self) -> str:
        return (
            f"{closed(f'{self.where} {self.fact}')} {closed(self.advice)} "
            f"Try again in {self.wait_seconds} s."
        )


@dataclass(eq=False, repr=False)
class WriteRefused(UserError):
    """The server refused a worker's write; nothing was written."""

    code: ClassVar[str] = "write_refused"
    rule: str
    fact: str

    @property
    def is_lost(self) -> bool:
        """Whether it was refused because the worker no longer has the run."""
        return self.rule in ("run", "fence")

    def __str__(self) -> str:
        return (
            f"the server refused a write (rule {self.rule}): {closed(self.fact)} "
            f"{_REFUSED.get(self.rule, _PROTOCOL)}"
        )
