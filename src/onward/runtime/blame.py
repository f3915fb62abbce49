"""Whose error it is that ended a body: the call that raised it, or that it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.replay import RecordState
from onward.runtime.calls import Awaited

if TYPE_CHECKING:
    from onward.core.replay import Record
    from onward.runtime.calls import Call


class Blame:
    """The errors that a body was handed, and by which records."""

    def __init__(self) -> None:
        # By id, as errors need not be hashable; the error is kept, so that no other has its id.
        self._records: dict[int, tuple[BaseException, Record]] = {}

    def note(self, call: Call, record: Record) -> None:
        """Take note of the error of a call that the body was just handed, if it was one."""
        if record.state is RecordState.SUCCEEDED or not isinstance(call, Awaited):
            return
        future = call.future
        error = future.exception() if future.done() and not future.cancelled() else None
        if error is not None:
            self._records[id(error)] = error, record

    def forget(self) -> None:
        """Keep none: errors know the frames that they went through, and those their body."""
        self._records.clear()

    def culprit(self, error: BaseException | None) -> str | None:
        """Return the identity of the call whose error this is, or came from; the first if many."""
        blamed = sorted(self._blamed(error, set()), key=lambda record: record.seq or 0)
        return blamed[0].identity if blamed else None

    def _blamed(self, error: BaseException | None, seen: set[int]) -> list[Record]:
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            if id(error) in self._records:
                return [self._records[id(error)][1]]
            if isinstance(error, BaseExceptionGroup):
                found = [self._blamed(each, seen) for each in error.exceptions]
                if any(found):
                    return [record for some in found for record in some]
            error = error.__cause__ or error.__context__
        return []
