"""Scopes: what a key may do. Roles are named sets of them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping

POLL: Final = "worker:poll:"
"""Begins the scopes of workers; the name of a queue follows."""

POLL_ALL: Final = "worker:poll:*"
ROOT: Final = "root"

SCOPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "run:read": "list and show runs, schedules, queues, workers and pipelines",
        "payload:read": "see arguments, results, errors, attributes, signals and events",
        "run:start": "start runs",
        "signal:send": "send signals to runs",
        "event:publish": "publish events to topics",
        "run:control": "cancel, pause, resume, retry, fork and discard runs",
        "effect:resolve": "decide on effects: approve, reject, resolve",
        "schedule:write": "create, change, pause and trigger schedules",
        "queue:write": "limit and pause queues",
        "pipeline:write": "pause and resume pipelines, replay and skip events and inputs",
        "worker:admin": "drain workers",
        POLL_ALL: "run a worker for any queue (for one queue: `worker:poll:NAME`)",
        "ns:admin": "examine and prune the store, and set its clock: `onward doctor`, "
        "`onward prune`, `onward clock`",
        ROOT: "manage keys and namespaces; reserved, because a server has no calls for this",
    }
)
"""Every scope, and what it allows."""

_APP = frozenset(
    {"run:read", "payload:read", "run:start", "signal:send", "event:publish", "run:control"}
)

ROLES: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "viewer": frozenset({"run:read"}),
        "operator": _APP
        | {"effect:resolve", "schedule:write", "queue:write", "pipeline:write", "worker:admin"},
        "app": _APP,
        "worker": frozenset({POLL_ALL}),
        "admin": frozenset(SCOPES) - {ROOT},
    }
)


def poll_scope(queue: str) -> str:
    """Return the scope that lets a worker serve a queue."""
    return POLL + queue


def scope_problem(scope: str) -> str | None:
    """Return why a text is no scope; None if it is one."""
    if scope in SCOPES:
        return None
    if not scope.startswith(POLL):
        return "is not a scope"
    queue = scope.removeprefix(POLL)
    # Scopes are stored one a line.
    return None if queue and queue.isprintable() else "does not name a queue"


def check_scope(scope: str) -> str:
    """Return a scope if it is one.

    Raises:
        BadInput: it is none.
    """
    problem = scope_problem(scope)
    if problem is not None:
        known = ", ".join(sorted(SCOPES))
        raise BadInput(f"scope {scope!r}", problem, f"Use one of these: {known}")
    return scope


def role_scopes(role: str) -> frozenset[str]:
    """Return the scopes of a role.

    Raises:
        BadInput: there is no such role.
    """
    if role not in ROLES:
        known = ", ".join(sorted(ROLES))
        raise BadInput(f"role {role!r}", "does not exist", f"Use one of these: {known}")
    return ROLES[role]
