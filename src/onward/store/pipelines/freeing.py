"""Handlers that a failed run blocks, freed when other code is there that may do better."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.chain import Link
from onward.core.handler import may_try_code
from onward.model.following import Following

if TYPE_CHECKING:
    from collections.abc import Mapping

    from onward.store.database import Tx
    from onward.store.store import Store

MAX_FREED = 100
"""How many handlers, or keys of handlers, are freed in one turn."""


async def retry_blocked(store: Store, codes: Mapping[str, str]) -> int:
    """Retry the runs that block handlers whose code has changed; return how many.

    `codes` has the mark of the code of each name that a worker brings.
    """
    names = {name.partition(" ")[2]: name for name in codes if " " in name}
    if not names:
        return 0

    async def blocked(tx: Tx) -> list[tuple[str, str, str]]:
        given = {"handlers": tx.array(sorted(names)), "limit": MAX_FREED}
        return [
            (handler, key, run)
            for handler, key, kind, run, code, failures in await tx.fetch(
                "blocked_handlers", **given
            )
            if codes.get(f"{kind} {handler}") not in (None, code) and may_try_code(failures)
        ]

    freed = 0
    for handler, key, run in await store.read(blocked):
        followed = await store.follow(Following(run, store.new_uid(), Link.RETRY))
        if followed.fate == "absent":  # retention has deleted it
            await free(store, handler, key, run)
        freed += followed.fate in ("made", "absent")
    return freed


async def free(store: Store, handler: str, key: str, run: str) -> None:
    """Free a handler from a run that blocks it, without a retry of that run."""
    given = {"handler": handler, "key": key, "run": run}
    await store.write(lambda tx: tx.fetch("free_handler", **given))
