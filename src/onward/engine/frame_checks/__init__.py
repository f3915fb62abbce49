"""Checks of what a remote worker or client wants to write, before a server writes it.

A worker is trusted for the runs that it owns, and for nothing else. Every check is pure: it is
given what the server knows, and returns None or why the write is refused. A few commits need facts
that only the database has: `facts_needed` names them, and `read_facts` reads them.
"""

from onward.engine.frame_checks.arguments import check_arguments, check_registration
from onward.engine.frame_checks.attachments import EVENT_CHANGED
from onward.engine.frame_checks.clients import (
    check_client_call,
    check_client_start,
    check_rights,
    scope_needed,
)
from onward.engine.frame_checks.commits import after_commit, as_written, check_commit, facts_needed
from onward.engine.frame_checks.known import (
    DEFAULT_LIMITS,
    NO_FACTS,
    FrameFacts,
    FrameLimits,
    FrameRefusal,
    HeldRun,
    KnownEffect,
    KnownEvent,
    KnownWorker,
    NeededFacts,
)
from onward.engine.frame_checks.owners import (
    check_continuation,
    check_dismissal,
    check_end,
    check_owner,
    check_progress,
    check_queues,
    check_start,
)
from onward.engine.frame_checks.reading import (
    children_among,
    held_runs,
    read_facts,
    worker_before,
)

__all__ = [
    "DEFAULT_LIMITS",
    "EVENT_CHANGED",
    "NO_FACTS",
    "FrameFacts",
    "FrameLimits",
    "FrameRefusal",
    "HeldRun",
    "KnownEffect",
    "KnownEvent",
    "KnownWorker",
    "NeededFacts",
    "after_commit",
    "as_written",
    "check_arguments",
    "check_client_call",
    "check_client_start",
    "check_commit",
    "check_continuation",
    "check_dismissal",
    "check_end",
    "check_owner",
    "check_progress",
    "check_queues",
    "check_registration",
    "check_rights",
    "check_start",
    "children_among",
    "facts_needed",
    "held_runs",
    "read_facts",
    "scope_needed",
    "worker_before",
]
