"""Results of steps in the cache: under which key, and whether they can still be read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.digest import digest
from onward.engine.payloads import unpack
from onward.errors import BadInput, Undecodable
from onward.model.cache import CacheWrite
from onward.runtime.reading import STORE_ERRORS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from onward.runtime.body.calls import StepCall
    from onward.runtime.definition import CachePolicy

    Recall = Callable[[str], Awaitable[bytes | None]]


class CachedCall:
    """A call of a step whose result is cached."""

    def __init__(self, call: StepCall, policy: CachePolicy) -> None:
        self._call = call
        self._policy = policy
        self._key = _key(call, policy)

    async def result(self, recall: Recall) -> bytes | None:
        """Return the cached result; None: do the work.

        A result that does not fit the annotation of the step any more is replaced, and while the
        store is away nothing is found.
        """
        try:
            kept = await recall(self._key)
            if kept is not None:
                self._call.definition.shape.decode_result(unpack(kept))
        except (*STORE_ERRORS, Undecodable):
            return None
        return kept

    def write(self, payload: bytes) -> CacheWrite:
        """Return the row that caches a result."""
        policy = self._policy
        return CacheWrite(self._key, self._call.name, policy.version, payload, policy.length)


def _key(call: StepCall, policy: CachePolicy) -> str:
    """Return the key of a call.

    Raises:
        BadInput: the user's function returns no text.
    """
    if policy.key is None:
        return digest("arguments", call.name, policy.version, call.args_hash or "")
    args, kwargs = call.arguments
    given = policy.key(*args, **kwargs)
    if not isinstance(given, str):
        raise BadInput(
            f"cache_key of step {call.name!r}",
            f"returned {given!r}, which is not a string",
            "Return a str",
        )
    return digest("key", call.name, policy.version, given)
