"""Every error that Onward raises on purpose, grouped by who has to act.

    OnwardError
    ├── UserError              you: the call, the value or the setup is wrong
    │   ├── BadInput           an id, a duration or an option that cannot be taken
    │   ├── Unencodable        a value that would not come back as it went in
    │   ├── Undecodable        stored bytes that do not fit the annotation
    │   │   └── NewerRow       a stored row with a value that this version does not know
    │   ├── UnreadableRow      a stored row that is damaged
    │   ├── PayloadTooLarge    a value beyond the size limit
    │   ├── Conflict           the id is taken by a run with other arguments
    │   ├── NotFound           nothing has that id here
    │   ├── BadStoreUrl        the address of the store cannot be understood
    │   ├── StoreUnusable      the store is there, but cannot be used as it is
    │   ├── NotOpen            a call outside of the block that opens the app
    │   ├── SchemaTooNew       the database was migrated by a newer Onward
    │   ├── NotInBody          a call where it cannot be: in a workflow body, or outside of one
    │   ├── WouldBlock         a call that waits was made where an event loop runs
    │   ├── NoWorker           no worker serves the queue of a run
    │   ├── NoThread           code that was cancelled but still runs holds all threads
    │   ├── WorkerBlocked      code of a run blocked the event loop of its worker
    │   ├── TimedOut           a step, or what a run waited for, took too long
    │   ├── RunOver            the run has ended
    │   ├── Undone             a retry would rely on effects that may have been undone
    │   ├── WouldResend        a fork or a retry would send effects again
    │   ├── VerdictRefused     a verdict that an effect cannot have, or not yet
    │   ├── EffectSkipped      an operator skipped an effect
    │   ├── TooLate            the send window of an effect has closed
    │   ├── RunFailed          the awaited run raised an exception
    │   ├── RunCancelled       the awaited run was cancelled or timed out
    │   └── RunPaused          the awaited run is paused and needs an operator
    ├── Unavailable            wait: the store is away or busy, try again
    ├── LeaseLost              stop: another worker owns the run
    └── InvariantBroken        us: a bug in Onward, please report it
        └── Rejected           the database refuses a write that we let through

Each error has a stable `code`, and a message that says what failed, why, and what to do next.

`Retryable`, `Fatal` and `NotApplied` are raised by user code, to control retries.
"""

from onward.errors.calls import (
    BadInput,
    NotInBody,
    PayloadTooLarge,
    Undecodable,
    Unencodable,
    WouldBlock,
)
from onward.errors.effects import EffectSkipped, TooLate, VerdictRefused
from onward.errors.raised import Fatal, NotApplied, Retryable
from onward.errors.root import OnwardError, UserError
from onward.errors.rows import NewerRow, UnreadableRow
from onward.errors.runs import (
    Conflict,
    NotFound,
    NoThread,
    NoWorker,
    RunCancelled,
    RunFailed,
    RunOver,
    RunPaused,
    TimedOut,
    Undone,
    WorkerBlocked,
    WouldResend,
)
from onward.errors.stores import (
    BadStoreUrl,
    InvariantBroken,
    LeaseLost,
    NotOpen,
    Rejected,
    SchemaTooNew,
    StoreUnusable,
    Unavailable,
)

__all__ = [
    "BadInput",
    "BadStoreUrl",
    "Conflict",
    "EffectSkipped",
    "Fatal",
    "InvariantBroken",
    "LeaseLost",
    "NewerRow",
    "NoThread",
    "NoWorker",
    "NotApplied",
    "NotFound",
    "NotInBody",
    "NotOpen",
    "OnwardError",
    "PayloadTooLarge",
    "Rejected",
    "Retryable",
    "RunCancelled",
    "RunFailed",
    "RunOver",
    "RunPaused",
    "SchemaTooNew",
    "StoreUnusable",
    "TimedOut",
    "TooLate",
    "Unavailable",
    "Undecodable",
    "Undone",
    "Unencodable",
    "UnreadableRow",
    "UserError",
    "VerdictRefused",
    "WorkerBlocked",
    "WouldBlock",
    "WouldResend",
]

# They are stored and shown under the name by which users import them.
for _name in __all__:
    globals()[_name].__module__ = __name__
