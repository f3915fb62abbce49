"""The limit of a history's length: a warning first, then an error."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.replay import MAX_RECORDS, RECORDS_WARN
from onward.errors import BadInput
from onward.telemetry.events import emit

if TYPE_CHECKING:
    from onward.core.replay import Replay
    from onward.telemetry.scope import RunScope


class HistoryLimit:
    """Checks the length of one run's history."""

    def __init__(self, scope: RunScope) -> None:
        self._scope = scope
        self._has_warned = False

    def check(self, replay: Replay, under_way: int) -> None:
        """Warn once of a long history; one that is read again was warned of before.

        Raises:
            BadInput: one more call would make it too long.
        """
        length = replay.length + under_way
        if length < RECORDS_WARN or not replay.live:
            return
        if length >= MAX_RECORDS:
            raise BadInput(
                f"run {self._scope.run}",
                f"has {MAX_RECORDS:,} records, which is the limit for one history",
                "Use map for many items, or return onward.continue_as_new(...)",
            )
        if not self._has_warned:
            self._has_warned = True
            emit("run.long", self._scope, records=RECORDS_WARN)
