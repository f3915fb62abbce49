"""Effects: calls of a body that change the outside world, and their state in the ledger."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from onward.codec import decode, encode
from onward.core.effect import START_WITHIN, EffectState, LedgerEntry, Terms, planned, widened
from onward.core.effect import effect_key as key_of
from onward.core.instant import SECOND
from onward.core.replay import RecordKind, RecordState, put_off_after
from onward.core.retry import STEPS, check_retry
from onward.core.run import Reason
from onward.core.value import changed
from onward.engine.payloads import pack, unpack
from onward.errors import TooLate, UnreadableRow
from onward.model.effects import EffectWrite, attempts_bytes, read_attempts
from onward.runtime.body.calls import Awaited

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.codec import CallShape
    from onward.core.effect import Attempts
    from onward.core.instant import Duration, Instant
    from onward.core.ports import Clock
    from onward.core.replay import Record
    from onward.core.retry import Retry
    from onward.engine.notes import Noted
    from onward.model.effects import EffectRow
    from onward.model.runs import ClaimedRun
    from onward.runtime.body.calls import Stoppable

T = TypeVar("T")

TIMEOUT: Duration = 30 * SECOND
SETTLE: Duration = 10 * SECOND
APPROVED = "approve"
"""The verdict of an operator who has approved an effect."""
MAX_NAME = 200
"""How much of the name of a reconciler the ledger keeps."""


_NOT_HAPPENED = (EffectState.FAILED, EffectState.WITHDRAWN)


@dataclass(frozen=True, slots=True)
class Applied(Generic[T]):
    """A reconciler's answer: the effect happened, and this is its result.

    Example:
        >>> from onward import Applied
        >>> Applied("receipt 7").result
        'receipt 7'
    """

    result: T


class Unknown:
    """A reconciler's answer: the outcome is not known yet.

    Example:
        >>> from onward import Applied, Unknown
        >>> async def look_up(cents: int, key: str) -> Applied[str] | Unknown:
        ...     return Unknown()  # the bank does not answer
    """

    def __repr__(self) -> str:
        return "Unknown()"


@dataclass(frozen=True, slots=True)
class EffectDefinition:
    """A function that changes the outside world."""

    name: str
    fn: Callable[..., Any]
    shape: CallShape
    is_async: bool
    reconcile: Callable[..., Any] | None = None
    retry: Retry | None = None
    timeout: Duration = TIMEOUT
    settle: Duration = SETTLE
    approve: bool = False
    interval: Duration | None = None
    start_within: Duration = START_WITHIN
    idempotency_window: Duration | None = None

    def __post_init__(self) -> None:
        check_retry(self.retry)

    @property
    def reconciler(self) -> str:
        """The name of its reconciler, for operators; empty if it has none."""
        if self.reconcile is None:
            return ""
        named = getattr(self.reconcile, "__qualname__", type(self.reconcile).__qualname__)
        return str(named)[:MAX_NAME]

    @property
    def terms(self) -> Terms:
        """What its author stated about it."""
        return Terms(
            self.timeout,
            self.settle,
            self.reconcile is not None,
            self.retry or STEPS,
            self.start_within,
            self.idempotency_window,
        )


class Sending(NamedTuple):
    """A send that is under way: its key, and its time limit on this machine's clock."""

    effect: str
    key: str
    send_by: int
    clock: Clock


sending_now: ContextVar[Sending | None] = ContextVar("onward_sending", default=None)
"""The send that the current handler makes."""


def check_key(sending: Sending) -> str:
    """Return the key under which an effect is sent.

    Raises:
        TooLate: the time in which it may go out has passed.
    """
    if sending.clock.monotonic() > sending.send_by:
        raise TooLate(sending.effect)
    return sending.key


class Drop(StrEnum):
    """The state of an effect that a cancelled run no longer awaits."""

    WITHDRAWN = "withdrawn"
    UNCERTAIN = "uncertain"

    def kept(self) -> bytes:
        """Return it as the record of the call keeps it."""
        return pack(encode(str(self)))


_DROPPED = {
    Drop.WITHDRAWN: "it was withdrawn before it was sent",
    Drop.UNCERTAIN: "it may have happened, and is waiting for a verdict",
}


def read_drop(record: Record) -> Drop:
    """Return the state of a dropped effect from its record."""
    return Drop(decode(unpack(record.payload.payload)))


class EffectCall(Awaited):
    """A call of an effect."""

    kind = RecordKind.EFFECT

    def __init__(
        self,
        definition: EffectDefinition,
        args: bytes,
        args_hash: str,
    ) -> None:
        super().__init__(definition.name, args_hash)
        self.definition = definition
        self.args = args
        self.terms = definition.terms
        """What its author stated, with longer windows if its writes are slow."""
        self.effect: LedgerEntry = planned(approve=definition.approve)
        self.doubt: bytes | None = None
        """Why it is uncertain, if it is."""
        self.must_be_read = False
        """Whether its row may have changed since it was last read."""
        self.slot_at: Instant | None = None
        """The time of its reserved slot, if the rate of sends is limited."""
        self.noted: Noted | None = None
        """What its handler has noted."""
        self.since: Instant | None = None
        """When the run first sent it."""
        self.attempts: Attempts = ()
        """Its sends and the answers of its reconciler, by whichever run, as the row has them."""
        self.running: Stoppable | None = None
        self.root: str | None = None
        """What its key is made of, if that is not the run."""
        self.title = definition.name
        """What it means to a person."""
        self.may_have_row = False
        """Whether another run may have a row under its key."""
        self._put_off: Duration = 0

    def clock_stepped(self, step: Duration) -> None:
        """Leave a send as long to take effect as before, and wait as long for the next one."""
        super().clock_stepped(step)
        before, self._put_off = self._put_off, put_off_after(self._put_off, step)
        later = self._put_off - before
        effect = self.effect
        if effect.settle_until is not None:
            self.effect = changed(effect, settle_until=effect.settle_until + later)
        if effect.due is not None:
            self.effect = changed(self.effect, due=effect.due + later)
        if self.slot_at is not None:
            self.slot_at += later

    def key(self, run: ClaimedRun) -> str:
        """Return the key under which it is sent: the same in every attempt and retry."""
        return key_of(self.root or run.origin or run.uid, self.identity)

    def elapsed(self, now: Instant) -> Duration:
        """Return how long ago the run first sent it."""
        return 0 if self.since is None else max(0, now - self.since)

    @property
    def needs_plan(self) -> bool:
        """Whether the ledger must have it before an operator can approve it."""
        return self.needs_operator and self.effect.version == 0

    @property
    def operator_reason(self) -> Reason | None:  # type: ignore[override]  # it follows from others
        """Why its run is paused, if nothing else can move."""
        if not self.needs_operator:
            return None
        is_unsure = self.effect.state is EffectState.INDETERMINATE
        return Reason.RECONCILIATION if is_unsure else Reason.APPROVAL

    @property
    def needs_operator(self) -> bool:
        """Whether nothing can be done about it before an operator decides."""
        return self.effect.state is EffectState.INDETERMINATE or (
            self.effect.state is EffectState.PLANNED and not self.effect.approved
        )

    def is_reconciled_in(self, effect: LedgerEntry) -> bool:
        """Return whether its reconciler is asked next; without one it is sent again at most."""
        needs_reconcile = effect.state is EffectState.NEEDS_RECONCILE
        return needs_reconcile and self.definition.reconcile is not None

    @property
    def may_be_planned(self) -> bool:
        """Whether it was not sent and may be in the ledger; a replayed call has not looked yet."""
        return self.effect.state is EffectState.PLANNED

    def take_up(self, record: Record) -> None:
        """Go on where an open record left off: it keeps the reserved slot."""
        super().take_up(record)
        self.slot_at = record.due

    def reserve(self, now: Instant, wait: Duration) -> None:
        """Set the slot in which it may be sent."""
        self.slot_at = now + wait
        if wait > 0:
            self.is_kept = False  # if the run parks, the open record keeps the slot

    def note_written(self, effect: LedgerEntry, attempts: Attempts) -> None:
        """Set its state to what the ledger has now."""
        self.effect, self.attempts = effect, attempts
        self.is_kept = True

    @property
    def next_at(self) -> Instant:
        """From when it can be sent, or reconciled."""
        return max(self.effect.due or 0, self.slot_at or 0)

    def may_replace(self, row: EffectRow) -> bool:
        """Return whether it may have other arguments than its row: that has certainly not happened.

        Only a consumer may: it prepares anew, and has the same key for the same events.
        """
        return self.root is not None and row.state in _NOT_HAPPENED and row.due is None

    def needs_approval_anew(self, row: EffectRow) -> bool:
        """Return whether an operator has approved, or is to approve, other arguments than these."""
        is_asked = self.definition.approve or row.verdict == APPROVED
        return is_asked and row.args_hash != self.args_hash

    def widen(self, wrote_for: Duration) -> None:
        """Let the next send begin later: this one never began, and its write took so long."""
        self.terms = widened(self.definition.terms, 2 * wrote_for)

    def take_up_row(self, row: EffectRow, effect: LedgerEntry, run: ClaimedRun) -> None:
        """Go on from the row of the ledger; the arguments are sent as it has them, byte for byte.

        Raises:
            UnreadableRow: the row is damaged.
        """
        if effect.state is EffectState.IN_FLIGHT and effect.attempt < 1:
            fact = f"it is in flight, but its attempt is {effect.attempt}"
            raise UnreadableRow(f"effect {row.key}", fact)
        self.effect = effect
        stated = self.definition.terms
        self.terms = widened(stated, row.reach - stated.reach)
        if self.since is None and row.run == run.uid and effect.attempt > 0:
            # The row was made at the first send, unless it was approved, or another run made it.
            approved = row.decided_at if row.verdict == "approve" else None
            self.since = max(row.created_at, approved or 0, run.started_at or 0)
        sent_at = (row.start_by or 0) - self.definition.start_within
        if self.slot_at is not None and self.slot_at <= sent_at:
            self.slot_at = None  # a slot is for one send
        if row.args_hash == self.args_hash:
            self.args, self.title = row.args, row.title
        self.doubt = row.error
        self.attempts = read_attempts(row.attempts)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what the handler is called with."""
        return self.definition.shape.decode(unpack(self.args))

    def to_row(
        self,
        run: ClaimedRun,
        effect: LedgerEntry,
        attempts: Attempts,
        now: Instant,
        *,
        result: bytes | None = None,
        error: bytes | None = None,
    ) -> EffectWrite:
        """Return the row of the ledger to write."""
        is_sent = effect.attempt != self.effect.attempt and effect.attempt > 0
        start, settle = effect.start_by, effect.settle_until
        known = effect.known_until if self.effect.known_until is None else None
        terms = self.terms
        return EffectWrite(
            self.key(run),
            run.uid,
            self.identity,
            self.name,
            self.title,
            self.args,
            self.args_hash or "",
            effect.state,
            effect.version,
            effect.attempt,
            effect.asks,
            int(effect.approved),
            self.definition.reconciler,
            terms.retry.attempts,
            terms.reach,
            start - now if is_sent and start is not None else None,
            settle - now if is_sent and settle is not None else None,
            None if known is None else known - now,
            None if effect.due is None else max(0, effect.due - now),
            result,
            error,
            self.asked,
            self.definition.shape.returns,
            attempts_bytes(attempts),
        )

    def raised(self, record: Record) -> BaseException:
        """Return the error that the body gets for an effect without a result."""
        if record.state is not RecordState.CANCELLED:
            return super().raised(record)
        return asyncio.CancelledError(f"effect {self.name!r}: {_DROPPED[read_drop(record)]}")

    def value(self, record: Record) -> Any:
        """Return the effect's result, decoded against its annotation."""
        return self.definition.shape.decode_result(unpack(record.payload.payload))
