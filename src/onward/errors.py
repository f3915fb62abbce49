"""Every error that Onward raises on purpose, grouped by who must act.

    OnwardError
    ├── UserError              you: the call, the value or the set-up is wrong
    │   ├── BadInput           an id, a duration or an option that cannot be taken
    │   ├── Unencodable        a value that would not come back as it went in
    │   ├── Undecodable        stored bytes that do not fit the annotation
    │   ├── PayloadTooLarge    a value beyond the size limit
    │   ├── Conflict           the id is taken by a run with other arguments
    │   ├── NotFound           nothing has that id here
    │   ├── BadStoreUrl        the address of the store cannot be understood
    │   ├── StoreUnusable      the store is there, but cannot be used as it is
    │   ├── SchemaTooNew       the database was migrated by a newer Onward
    │   ├── NotInBody          a call where it cannot be: in a workflow body, or outside of one
    │   ├── WouldBlock         a call that waits was made where an event loop runs
    │   ├── NoWorker           nobody serves the queue of a run
    │   ├── TimedOut           a step, or what a run waited for, took too long
    │   ├── RunOver            the run is over, and takes nothing any more
    │   ├── VerdictRefused     an effect cannot be judged like this, or not yet
    │   ├── EffectSkipped      an operator decided that an effect is not to be
    │   ├── TooLate            an effect may not be sent any more
    │   ├── RunFailed          the run whose result is wanted raised something
    │   ├── RunCancelled       the run whose result is wanted was stopped
    │   └── RunPaused          the run whose result is wanted waits for somebody
    ├── Unavailable            nobody: the store is away or busy, try again
    ├── LeaseLost              nobody: another worker has the run, drop it
    └── InvariantBroken        us: a bug in Onward, please report it
        └── Rejected           the database refuses a write that we let through

Each error has a stable `code`, and a message that names the thing, the fact and the next move.

`Retryable`, `Fatal` and `NotApplied` are raised by user code, to tell the engine what to do about a
failure.
"""

from __future__ import annotations

from dataclasses import dataclass
from shlex import quote
from typing import Any, ClassVar


class OnwardError(Exception):
    """The base of everything that Onward raises on purpose."""

    code: ClassVar[str] = "error"

    def __reduce__(self) -> tuple[Any, ...]:
        # A dataclass does not call Exception.__init__, so the default would lose the fields when
        # an error crosses a process border (multiprocessing, pytest-xdist).
        return _rebuild, (type(self), vars(self).copy(), self.args)


def _rebuild(kind: type[OnwardError], state: dict[str, Any], args: tuple[Any, ...]) -> OnwardError:
    error = kind.__new__(kind)
    error.args = args
    vars(error).update(state)
    return error


def _closed(text: str) -> str:
    """Return a sentence with its full stop; what others wrote may have one already."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


class _Told(OnwardError):
    """An error made of fields, whose message is built from them."""

    def __repr__(self) -> str:
        told = vars(self) or {"message": str(self)}
        return f"{type(self).__name__}({', '.join(f'{n}={v!r}' for n, v in told.items())})"


# --- you ------------------------------------------------------------------------------------------


class UserError(_Told):
    """The call, the value or the set-up is wrong; trying again will not help."""

    code: ClassVar[str] = "user_error"


@dataclass(eq=False, repr=False)
class BadInput(UserError, ValueError):
    """An argument that cannot be taken: an id, a name, a duration, an option."""

    code: ClassVar[str] = "bad_input"
    what: str
    fact: str
    advice: str

    def __str__(self) -> str:
        return f"{_closed(f'{self.what} {self.fact}')} {self.advice}"


@dataclass(eq=False, repr=False)
class Unencodable(UserError, TypeError):
    """A value that would be lost or changed on its way through the store."""

    code: ClassVar[str] = "unencodable"
    path: str
    fact: str
    advice: str

    def __str__(self) -> str:
        return f"{_closed(f'{self.path} {self.fact}')} {self.advice}"


@dataclass(eq=False, repr=False)
class Undecodable(UserError, ValueError):
    """Stored bytes that do not fit the annotation they are read back with."""

    code: ClassVar[str] = "undecodable"
    annotation: str
    fact: str

    def __str__(self) -> str:
        return (
            f"{_closed(f'a stored value does not fit {self.annotation}: {self.fact}')} "
            "Widen the annotation so that it takes what older code wrote."
        )


@dataclass(eq=False, repr=False)
class PayloadTooLarge(UserError):
    """A value whose encoded form is beyond the limit; nothing was stored."""

    code: ClassVar[str] = "payload_too_large"
    what: str
    size_bytes: int
    most_bytes: int

    def __str__(self) -> str:
        return (
            f"{self.what} is {self.size_bytes:,} bytes encoded, the limit is {self.most_bytes:,}. "
            "Keep the data elsewhere and pass a reference to it."
        )


@dataclass(eq=False, repr=False)
class Conflict(UserError):
    """The id belongs to a run that was started with something else."""

    code: ClassVar[str] = "conflict"
    id: str
    fact: str

    def __str__(self) -> str:
        return (
            f"run id {self.id!r} is taken: {_closed(self.fact)} "
            'Choose another id, or start it with on_conflict="replace".'
        )


@dataclass(eq=False, repr=False)
class NotFound(UserError, LookupError):
    """Nothing in this namespace has that id."""

    code: ClassVar[str] = "not_found"
    kind: str
    id: str
    namespace: str

    def __str__(self) -> str:
        return (
            f"there is no {self.kind} {self.id!r} in namespace {self.namespace!r}. "
            "Check the id and the namespace."
        )


@dataclass(eq=False, repr=False)
class BadStoreUrl(UserError, ValueError):
    """The address of the store cannot be understood."""

    code: ClassVar[str] = "bad_store_url"
    url: str
    fact: str

    def __str__(self) -> str:
        return (
            f"store address {self.url!r} {_closed(self.fact)} "
            'Use a file name ("onward.db"), ":memory:" or "postgresql://user@host/database".'
        )


@dataclass(eq=False, repr=False)
class StoreUnusable(UserError):
    """The store was found, but cannot be used as it is."""

    code: ClassVar[str] = "store_unusable"
    where: str
    fact: str
    advice: str

    def __str__(self) -> str:
        return f"{_closed(f'{self.where} {self.fact}')} {self.advice}"


@dataclass(eq=False, repr=False)
class SchemaTooNew(UserError):
    """The database was migrated by a newer Onward than this one."""

    code: ClassVar[str] = "schema_too_new"
    where: str
    found: int
    known: int

    def __str__(self) -> str:
        return (
            f"{self.where} has schema {self.found}, this Onward knows up to {self.known}. "
            "Upgrade Onward here; schemas are never migrated backwards."
        )


@dataclass(eq=False, repr=False)
class NotInBody(UserError, RuntimeError):
    """A call in a workflow body that a replay would not repeat, or one that belongs only there."""

    code: ClassVar[str] = "not_in_body"
    what: str
    fact: str
    advice: str

    def __str__(self) -> str:
        return f"{_closed(f'{self.what} {self.fact}')} {_closed(self.advice)}"


@dataclass(eq=False, repr=False)
class WouldBlock(UserError, RuntimeError):
    """A call that waits was made in a thread whose event loop would stand still meanwhile."""

    code: ClassVar[str] = "would_block"
    what: str

    def __str__(self) -> str:
        return (
            f"{self.what} was called where an event loop runs, and would stop it. "
            "Await the async App there, or make the call in a thread: asyncio.to_thread(...)."
        )


@dataclass(eq=False, repr=False)
class NoWorker(UserError):
    """A run was started, but nobody serves its queue."""

    code: ClassVar[str] = "no_worker"
    run: str
    queue: str

    def __str__(self) -> str:
        return (
            f"run {self.run} is started and waits, but no worker serves queue {self.queue!r}. "
            "Start one: async with app.worker(): ..."
        )


@dataclass(eq=False, repr=False)
class TimedOut(UserError, TimeoutError):
    """An attempt of a step took too long, or what a run waited for did not come in time."""

    code: ClassVar[str] = "timed_out"
    what: str
    limit: str

    def __str__(self) -> str:
        return f"{self.what} took longer than {self.limit}. Catch it, or allow more time."


@dataclass(eq=False, repr=False)
class RunOver(UserError):
    """The run has ended, so what was sent to it, or wanted of it, came too late."""

    code: ClassVar[str] = "run_over"
    run: str
    fact: str
    advice: str = "Start another, or fork it"

    def __str__(self) -> str:
        return f"{_closed(f'run {self.run} cannot take it: {self.fact}')} {_closed(self.advice)}"


@dataclass(eq=False, repr=False)
class Undone(UserError):
    """A run made effects because of the error that ended it; a retry might build on sand."""

    code: ClassVar[str] = "undone"
    run: str
    effects: str

    def __str__(self) -> str:
        return (
            f"run {self.run} made effects because of what ended it: {self.effects}. They may have "
            "undone what a retry takes for done. Start it anew, fork it from its first step with "
            "resend, or say anyway if they have undone nothing."
        )


@dataclass(eq=False, repr=False)
class WouldResend(UserError):
    """A fork would send effects again that have happened, or may have."""

    code: ClassVar[str] = "would_resend"
    run: str
    effects: str

    def __str__(self) -> str:
        return (
            f"a fork of run {self.run} would send effects again that happened, or may have: "
            f"{self.effects}. Fork from a later step, retry the run, or say resend if they shall "
            "be sent once more, under new keys."
        )


@dataclass(eq=False, repr=False)
class VerdictRefused(UserError):
    """A verdict on an effect that does not count: it is settled, has changed, or it is early."""

    code: ClassVar[str] = "verdict_refused"
    effect: str
    fact: str

    def __str__(self) -> str:
        what = f"the verdict on effect {self.effect} does not count: {self.fact}"
        return f"{_closed(what)} See what can be said: onward effects show {self.effect}"


@dataclass(eq=False, repr=False)
class EffectSkipped(UserError):
    """An operator decided that the run goes on without this effect, which may have happened."""

    code: ClassVar[str] = "effect_skipped"
    effect: str

    def __str__(self) -> str:
        return (
            f"effect {self.effect!r} was skipped by an operator, and may have happened. "
            "Catch EffectSkipped to go on without it."
        )


@dataclass(eq=False, repr=False)
class TooLate(UserError):
    """The time in which an effect may be sent has passed: somebody may have judged it by now."""

    code: ClassVar[str] = "too_late"
    effect: str

    def __str__(self) -> str:
        return f"effect {self.effect!r} may not be sent any more. Drop it: let this error out."


@dataclass(eq=False, repr=False)
class RunFailed(UserError):
    """The run has no result: it failed. `__cause__` is what it raised, if that is known."""

    code: ClassVar[str] = "run_failed"
    run: str
    reason: str
    error: str

    @property
    def happened(self) -> str:
        """What happened, without the next move."""
        return f"run {self.run} failed ({self.reason})" + (f": {self.error}" if self.error else "")

    def __str__(self) -> str:
        return f"{_closed(self.happened)} See its history: onward runs show {quote(self.run)}"


@dataclass(eq=False, repr=False)
class RunCancelled(UserError):
    """The run has no result: it was stopped."""

    code: ClassVar[str] = "run_cancelled"
    run: str
    state: str
    reason: str

    @property
    def happened(self) -> str:
        """What happened, without the next move."""
        why = f" ({self.reason})" if self.reason else ""
        return f"run {self.run} has no result: it is {self.state}{why}"

    def __str__(self) -> str:
        return f"{self.happened}. Start another if need be."


@dataclass(eq=False, repr=False)
class RunPaused(UserError):
    """The run has no result yet: it waits for somebody."""

    code: ClassVar[str] = "run_paused"
    run: str
    reason: str
    error: str = ""

    def __str__(self) -> str:
        why = f": {self.error}" if self.error else ""
        return f"{_closed(f'run {self.run} is paused ({self.reason}){why}')} {self._next_move()}"

    def _next_move(self) -> str:
        run = quote(self.run)
        match self.reason:
            case "reconciliation" | "approval":
                return f"See what waits for a word of yours: onward effects list --run {run}"
            case "divergence":
                return f"See it: onward runs show {run}"
        return f"Resume it: onward runs resume {run} (or cancel it)."


# --- nobody ---------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class Unavailable(_Told):
    """The store is away, full or too busy. Nothing was lost; the same call may be made again."""

    code: ClassVar[str] = "unavailable"
    where: str
    fact: str
    advice: str = "Try again; nothing was lost"

    def __str__(self) -> str:
        return f"{_closed(f'{self.where} {self.fact}')} {_closed(self.advice)}"


@dataclass(eq=False, repr=False)
class LeaseLost(_Told):
    """Another worker owns the run now; this one wrote nothing and must drop it."""

    code: ClassVar[str] = "lease_lost"
    run: str
    what: str = "run"

    def __str__(self) -> str:
        return f"{self.what} {self.run} is no longer ours: nothing was written. Drop it."


# --- us -------------------------------------------------------------------------------------------


@dataclass(eq=False, repr=False)
class InvariantBroken(_Told):
    """Something that cannot happen did: a bug in Onward."""

    code: ClassVar[str] = "invariant_broken"
    fact: str

    def __str__(self) -> str:
        return f"{_closed(self.fact)} This is a bug in Onward; please report it with this line."


@dataclass(eq=False, repr=False)
class Rejected(InvariantBroken):
    """The database refuses a value that we should have refused at the call."""

    code: ClassVar[str] = "rejected"

    def __str__(self) -> str:
        return (
            f"the database refused a write: {_closed(self.fact)} Only this write is affected; "
            "please report it with this line."
        )


# --- raised by user code --------------------------------------------------------------------------


class Retryable(Exception):
    """Raise it in a step that should be tried again, as far as its policy has attempts left.

    Args:
        message: What happened.
        after: How long to wait ("30s", seconds, or a timedelta); by default what the policy says.

    Example:
        >>> from onward import Retryable, step
        >>> @step
        ... async def fetch_rates() -> str:
        ...     raise Retryable("the bank is busy", after="30s")
    """

    def __init__(self, message: str = "", *, after: Any = None) -> None:
        super().__init__(message)
        self.after = after


class Fatal(Exception):
    """Raise it in a step that must not be tried again, whatever its policy says.

    Example:
        >>> from onward import Fatal, step
        >>> @step
        ... async def take_money(card: str) -> str:
        ...     if card == "stolen":
        ...         raise Fatal("this card will never do")
        ...     return "paid"
    """


class NotApplied(Exception):
    """An effect that did not happen, for sure.

    A handler raises it when it knows that nothing was changed outside; it is then tried again as
    far as its policy goes. A reconciler returns or raises it. A body gets it when an effect did not
    happen and is not tried again, or was rejected.

    Args:
        message: What happened.
        after: How long to wait before the next attempt; by default what the policy says.

    Example:
        >>> from onward import NotApplied, effect
        >>> @effect
        ... async def open_gate(number: int) -> None:
        ...     raise NotApplied("the gate did not answer the knock", after="10s")
    """

    def __init__(self, message: str = "", *, after: Any = None) -> None:
        super().__init__(message)
        self.after = after
