"""What every gRPC call passes through: authentication, limits, its namespace, and its errors."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc

from onward.server.faults import problem_of
from onward.server.statuses import status_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from onward.core.access import Principal
    from onward.engine.access.limits import RequestLimits
    from onward.server.gate import Gate
    from onward.server.hub import Hub

PROBLEM = "onward-problem-bin"
"""The trailing metadata of a call that failed: a `Problem`."""


class Doors:
    """Lets calls in.

    Args:
        gate: Knows who calls.
        limits: How much a key and a namespace may ask.
        hub: Returns the open hub of a namespace.
        name: The name of this server, for its log.
    """

    def __init__(
        self,
        gate: Gate,
        limits: RequestLimits,
        hub: Callable[[str], Awaitable[Hub]],
        name: str,
    ) -> None:
        self._limits = limits
        self._gate = gate
        self._hub = hub
        self._name = name

    @asynccontextmanager
    async def call(self, context: Any, where: str) -> AsyncIterator[tuple[Principal, Hub]]:
        """Enter with the caller and its namespace; an error ends the call with its problem."""
        try:
            principal = await self._gate.principal(context)
            self.admit(principal)
            yield principal, await self._hub(principal.namespace)
        except grpc.aio.AbortError:
            raise
        except Exception as error:  # noqa: BLE001 - the client gets it
            problem = problem_of(error, self._name, where)
            await context.abort(
                status_of(error), problem.message, ((PROBLEM, problem.SerializeToString()),)
            )

    @asynccontextmanager
    async def stream(self, context: Any, where: str) -> AsyncIterator[tuple[Principal, Hub]]:
        """Enter as for a call, and count the stream for as long as it is open."""
        async with self.call(context, where) as (principal, hub):
            with self._limits.stream(principal):
                yield principal, hub

    @property
    def payload_bytes(self) -> int:
        """The size of one payload that a client may send."""
        return self._limits.limits.payload_bytes

    def admit(self, principal: Principal, count: int = 1) -> None:
        """Count calls of a client.

        Raises:
            RateLimited: there were too many.
        """
        self._limits.admit(principal, count)
