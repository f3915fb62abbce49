"""One attempt of a step, as its own code sees it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from onward.runtime.body.notes import Noted

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.model.runs import ClaimedRun
    from onward.runtime.running import Running
    from onward.telemetry.scope import StepScope


class Attempt:
    """One attempt of a step: who it is, what it notes, and whether it should stop."""

    __slots__ = (
        "_tell",
        "identity",
        "is_begun",
        "is_left",
        "is_stopped",
        "name",
        "noted",
        "number",
        "run",
        "running",
        "scope",
    )

    running: Running

    def __init__(
        self,
        run: ClaimedRun,
        name: str,
        identity: str,
        number: int,
        tell: Callable[[Any], None],
        scope: StepScope,
    ) -> None:
        self.run = run
        self.name = name
        self.identity = identity
        self.number = number
        self.noted = Noted()
        self.is_begun = self.is_stopped = False
        self.is_left = False
        """Whether it was left behind: whatever comes of it, nobody is told."""
        self._tell = tell
        self.scope = scope

    def heartbeat(self) -> None:
        """Raise if nobody waits for this attempt any more: the only way to stop a thread."""
        if self.is_stopped:
            raise asyncio.CancelledError(f"step {self.name!r} was stopped")

    def progress(self, value: Any) -> None:
        """Let others see how far it is, unless another attempt may have taken its place."""
        if not self.is_stopped:
            self._tell(value)
