"""The operator of a simulated world: says of effects what the outside says."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.codec import encode
from onward.core.effect import Verdict
from onward.core.run import TERMINAL
from onward.engine import effects
from onward.engine.payloads import pack
from onward.errors import StoreUnusable, Unavailable, VerdictRefused
from onward.store.runs.ledger import effects_of
from tests.simulation.simulator.purchases import shop

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.model.effects import EffectRow
    from onward.store.store import Store
    from tests.simulation.simulator.draw import Draw
    from tests.simulation.simulator.witness import Witness

LOOK_SECONDS = 5.0


class Operator:
    """Looks after the effects of runs."""

    def __init__(
        self, store: Store, witness: Witness, draw: Draw, tell: Callable[..., None]
    ) -> None:
        self._store = store
        self._witness = witness
        self._draw = draw
        self._tell = tell

    async def look_after(self, uid: str) -> None:
        """Say what must be said until a run is over."""
        while True:
            await asyncio.sleep(self._draw.upto(LOOK_SECONDS))
            try:
                if (await self._store.run(uid)).state in TERMINAL:
                    return
                for row in await effects_of(self._store, uid):
                    await self.consider(row)
            except (Unavailable, StoreUnusable):
                continue

    async def consider(self, row: EffectRow, *, always: bool = False) -> None:
        """Say what must be said of an effect; sometimes also what need not be, or always."""
        if row.state == "planned" and not row.approved:
            yes = self._draw.happens(0.8)
            said: dict[str, Any] = {"reason": "so I say", "by": "operator", "version": row.version}
            await self._said(effects.approve(self._store, row.key, yes=yes, **said), row, yes)
        elif row.state == "indeterminate" or (
            row.state in ("in_flight", "needs_reconcile") and (always or self._draw.happens(0.1))
        ):
            await self._judge(row)

    async def _judge(self, row: EffectRow) -> None:
        """Give a verdict; that something did not happen is known only after its window."""
        verdict, result = Verdict.APPLIED, None
        if row.key in shop().answers:
            result = pack(encode(shop().answers[row.key]))
        elif self._draw.happens(0.1):
            verdict = Verdict.SKIP
        elif (row.reconciler or row.known_until is not None) and self._draw.happens(0.3):
            verdict = Verdict.ASK_AGAIN
        elif row.settle_until is not None and self._witness.now >= row.settle_until:
            verdict = Verdict.NOT_APPLIED
        else:
            return
        version = row.version if self._draw.happens(0.5) else None
        ruling = effects.resolve(
            self._store,
            row.key,
            verdict,
            result=result,
            reason="the shop says so",
            by="operator",
            version=version,
        )
        await self._said(ruling, row, verdict)

    async def _said(self, ruling: Any, row: EffectRow, what: object) -> None:
        try:
            await ruling
        except VerdictRefused:
            return
        self._tell("verdict", row.name, row.state, str(what))
