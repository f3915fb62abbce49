"""Every error that Onward raises on purpose, grouped by who has to act.

    OnwardError
    ├── UserError              you: in most cases, the call, the value or the setup is wrong
    │   ├── BadInput           an id, a duration or an option that is not valid
    │   ├── Unencodable        a value that cannot be stored without being changed
    │   ├── Undecodable        a stored value that does not match the annotation
    │   │   └── NewerRow       a stored row with a value that this version does not know
    │   ├── UnreadableRow      a stored row that is damaged
    │   ├── PayloadTooLarge    a value that is larger than the limit
    │   ├── Conflict           the id belongs to a run with different arguments
    │   ├── NotFound           no object in the namespace has that id
    │   ├── BadStoreUrl        the address of the store is not valid
    │   ├── StoreUnusable      the store exists, but cannot be used
    │   ├── NotOpen            a call outside the block that opens the app
    │   ├── SchemaTooNew       the database was migrated by a newer Onward
    │   ├── NotInBody          a call that is not allowed in a workflow body, or only there
    │   ├── WouldBlock         a blocking call in a thread with a running event loop
    │   ├── NoWorker           no worker serves the queue of a run
    │   ├── NoThread           code that was cancelled but still runs holds all threads
    │   ├── WorkerBlocked      a run's code blocked its worker's event loop
    │   ├── TimedOut           an attempt or a wait took too long
    │   ├── RunOver            the state of the run does not allow the call
    │   ├── Undone             a retry would rely on effects that may have been undone
    │   ├── WouldResend        a fork or a retry would send effects again
    │   ├── VerdictRefused     a verdict that is not possible for an effect, or not yet
    │   ├── EffectSkipped      an operator skipped an effect
    │   ├── TooLate            the send window of an effect has closed
    │   ├── Unauthenticated    a server does not accept the API key
    │   ├── Forbidden          the API key does not have the scope that the call needs
    │   ├── NamespaceDisabled  the namespace accepts no new runs or events
    │   ├── WriteRefused       a server refused a worker's write
    │   ├── BadPipeline        a pipeline that is declared incorrectly
    │   ├── TopicFull          a topic accepts no more events for now
    │   ├── PipelineBlocked    the state of a pipeline, event or input does not allow the call
    │   ├── RunFailed          the awaited run raised an exception
    │   ├── RunCancelled       the awaited run was cancelled or timed out
    │   └── RunPaused          the awaited run is paused and needs an operator
    ├── Unavailable            wait: the store is unreachable or busy, try again
    │   └── RateLimited        more calls than the limit of a key or a namespace allows
    ├── LeaseLost              stop: another worker owns the run
    └── InvariantBroken        us: a bug in Onward, please report it
        └── Rejected           a write that Onward should have refused earlier

Each error has a stable `code`, and a message that says what failed, why, and what to do next.

`Retryable`, `Fatal`, `NotApplied`, `NeedsApproval` and `Precondition` are raised by user code, to
control retries and pauses.
"""

from onward.errors.access import (
    Forbidden,
    NamespaceDisabled,
    RateLimited,
    Unauthenticated,
    WriteRefused,
)
from onward.errors.calls import (
    BadInput,
    NotInBody,
    PayloadTooLarge,
    Undecodable,
    Unencodable,
    WouldBlock,
)
from onward.errors.effects import EffectSkipped, TooLate, VerdictRefused
from onward.errors.pipelines import BadPipeline, PipelineBlocked, TopicFull
from onward.errors.raised import Fatal, NeedsApproval, NotApplied, Precondition, Retryable
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
    "BadPipeline",
    "BadStoreUrl",
    "Conflict",
    "EffectSkipped",
    "Fatal",
    "Forbidden",
    "InvariantBroken",
    "LeaseLost",
    "NamespaceDisabled",
    "NeedsApproval",
    "NewerRow",
    "NoThread",
    "NoWorker",
    "NotApplied",
    "NotFound",
    "NotInBody",
    "NotOpen",
    "OnwardError",
    "PayloadTooLarge",
    "PipelineBlocked",
    "Precondition",
    "RateLimited",
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
    "TopicFull",
    "Unauthenticated",
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
    "WriteRefused",
]

# They are stored and shown under the name by which users import them.
for _name in __all__:
    globals()[_name].__module__ = __name__
