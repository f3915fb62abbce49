"""Who may call what: every gRPC method, every operation and every request on a worker's stream.

This is the one place to read it. `test_access.py` compares it with the descriptors and the tables
of the server, and tries every entry with every kind of credential.
"""

from __future__ import annotations

from typing import Final

from onward.core.access import ROLES, SCOPES

NO_KEY: Final = "no key"
WORKER: Final = "any worker:poll"
"""A scope for some queue; the methods do something only for workers that joined with the key."""
ITS_QUEUES: Final = "worker:poll of each queue"
OPERATION: Final = "scope of the operation"

METHODS: Final = {
    "grpc.health.v1.Health/Check": NO_KEY,
    "grpc.health.v1.Health/Watch": NO_KEY,
    "onward.v1.Engine/Call": OPERATION,
    "onward.v1.Engine/Watch": "payload:read",
    "onward.v1.Workers/NoteBlocked": WORKER,
    "onward.v1.Workers/ReleaseOthers": WORKER,
    "onward.v1.Workers/Renew": WORKER,
    "onward.v1.Workers/Work": ITS_QUEUES,
}

OPERATIONS: Final = {
    "run:read": "all_effects begun_runs check_served count_children count_runs counts effect "
    "effect_choices effects_beginning effects_of failure_groups find find_call find_effect history "
    "info list_flows list_runs list_workers newest now pending_effects pending_signals "
    "queue_served read_clock report stats unserved why schedules.all schedules.first_slots "
    "schedules.get schedules.preview schedules.slots pipelines.all pipelines.counts pipelines.get "
    "pipelines.input pipelines.input_counts pipelines.inputs pipelines.peek pipelines.topics",
    "payload:read": "end_now list_cache open_runs recorded_arguments",
    "run:start": "declare start start_many",
    "signal:send": "signal signal_many",
    "event:publish": "pipelines.publish",
    "run:control": "act cancel discard fork pause purge_cache resume retry",
    "effect:resolve": "approve resolve",
    "schedule:write": "schedules.backfill schedules.create schedules.declare schedules.delete "
    "schedules.pause schedules.resume schedules.trigger schedules.update",
    "queue:write": "change_flow",
    "pipeline:write": "pipelines.declare pipelines.pause pipelines.replay pipelines.resume "
    "pipelines.skip pipelines.skip_input pipelines.trigger",
    "worker:admin": "drain_worker",
    "ns:admin": "accept_steps examine prune reset_clock restart_waits",
}
"""The scope that each operation needs; without `payload:read`, payloads are redacted in answers."""

REQUESTS: Final = {
    "the worker itself": "audit claim hello leave owned ping register report_draining",
    "a run that it has": "commits continue_run declare dismiss end_handler give_up keep_progress "
    "reserve_rate retry start withdraw_effects",
    "a read in its namespace": "cached_result count_messages effect end_of full_topics handler "
    "load messages peek peek_ids",
}
"""What each request on the stream of a worker is about. The first one must be a hello."""

REFUSED_WHEN_DISABLED: Final = ("run:start", "event:publish")

KEYS: Final = {
    **{f"role {role}": frozenset(scopes) for role, scopes in ROLES.items()},
    **{f"scope {scope}": frozenset({scope}) for scope in SCOPES},
    "scope worker:poll:default": frozenset({"worker:poll:default"}),
    "scope worker:poll:mail": frozenset({"worker:poll:mail"}),
}
"""The valid keys of the tests with their scopes; workers serve the queue `default`."""
