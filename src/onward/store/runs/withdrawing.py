"""Withdrawing effects that a run planned and never sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.store.database import Tx


async def withdraw(tx: Tx, run: str) -> None:
    """Withdraw what a run planned and never sent; it is over, or about to be."""
    await tx.fetch("withdraw_planned", run=run)
