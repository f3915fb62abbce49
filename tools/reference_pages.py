"""What the API reference documents, and in which order."""

from __future__ import annotations

from typing import Any, NamedTuple

import onward
from onward import errors, handles, pipelines, schedules
from onward.engine import effect_views, views
from onward.engine.sending import Cancelling
from onward.runtime.worker.worker import Worker
from onward.sdk import bulk, cache, current, dead, effects, mapping, within, workers
from onward.sdk.pipelines import inputs, topics
from onward.sdk.pipelines.pipelines import Pipelines
from onward.telemetry import Attention, JsonFormatter, Metrics, RunFilter
from onward.testing import (
    clock,
    faults,
    fixtures,
    outside,
    postgres,
    pytest_plugin,
    randomness,
)
from onward.testing import pipelines as phases

# Public to other packages of Onward, but not for users.
INTERNAL = frozenset(
    (
        *("blocking_within", "definition", "delay_after", "happened"),
        *("map_options", "mapped", "row", "running", "Worker.run"),
        *("Pipeline.problems", "Pipeline.spec", "Topic.decode", "Topic.encode", "Topic.spec"),
    )
)

# Classes whose methods need no entry: Python calls them, or another class has the same.
BRIEF = (clock.VirtualLoop, JsonFormatter, RunFilter, handles.SyncApp, handles.SyncRun)

DECORATORS = (onward.workflow, onward.step, onward.effect, onward.register_error)

# Classes that users construct. Others are returned by calls.
CONSTRUCTED = (
    *(onward.App, onward.Applied, onward.NotApplied, onward.Retry, onward.Retryable),
    *(errors.NeedsApproval, errors.Precondition),
    *(pipelines.Pipeline, pipelines.Topic, pipelines.Prepared, pipelines.Input),
    *(schedules.Schedule, onward.Signal, RunFilter, clock.VirtualClock, clock.VirtualLoop),
    *(outside.Outside, randomness.SeededRandomness),
)


class Page(NamedTuple):
    """A page: its title, what it begins with, and what it documents under each heading."""

    title: str
    head: str
    groups: dict[str, tuple[Any, ...]]


PAGES = {
    "workflows.md": Page(
        "Reference: workflows, steps and effects",
        "Import the names on this page from `onward`. For annotations, import `ChildRun` and "
        "`Current` from `onward.handles`. You do not need to import `Mapped`, `Attributes` or "
        "`Counters`. For an introduction, see the guides on "
        "[workflows](../guides/workflows.md) and [effects](../guides/effects.md).\n\n"
        'A duration is a number of seconds, a `timedelta`, or a string such as `"250ms"`, '
        '`"1h30m"` or `"3d"`. In signatures, its type is `DurationLike`.',
        {
            "Definitions": (
                *(onward.workflow, onward.step, onward.effect, onward.Retry),
                *(onward.Workflow, onward.Step, onward.Effect, mapping.Mapped),
            ),
            "Calls in a workflow": (
                *(onward.sleep, onward.sleep_until, onward.Signal, onward.wait_signal),
                *(onward.start, handles.ChildRun, onward.as_completed, onward.continue_as_new),
                *(onward.now, onward.uuid, onward.random, onward.patched),
            ),
            "The current run": (
                *(onward.current, handles.Current, current.Attributes, current.Counters),
            ),
            "Effects": (onward.effect_key, onward.Applied, onward.Unknown),
            "Errors in steps": (
                *(onward.Retryable, onward.Fatal, onward.NotApplied),
                *(onward.StepFailed, onward.register_error),
            ),
        },
    ),
    "app.md": Page(
        "Reference: apps and runs",
        "Import `App`, `Run` and `RunInfo` from `onward`. For annotations, import `SyncApp`, "
        "`SyncRun`, `HistoryEvent`, `Blocker` and `WorkerInfo` from `onward.handles`, and the "
        "types for schedules from `onward.schedules`. You do not need to import the other types.",
        {
            "App": (
                *(onward.App, Worker, within.Within, effects.Effects, dead.Dead),
                *(bulk.Bulk, bulk.BulkRuns, cache.Cache, workers.Workers),
            ),
            "Runs": (onward.Run, onward.RunInfo, handles.HistoryEvent, views.ErrorInfo),
            "Results": (
                *(handles.Blocker, views.UnservedRun, views.PendingSignal, Cancelling),
                *(effect_views.EffectInfo, effect_views.EffectChoice),
                *(views.FailureGroup, views.Discard),
                *(bulk.BulkAnswer, bulk.BulkReport, bulk.Refusal, views.CacheEntry),
                *(handles.WorkerInfo,),
            ),
            "Schedules": (
                *(schedules.Schedule, schedules.schedule, schedules.Schedules),
                *(schedules.ScheduleInfo, schedules.Slot),
            ),
            "Without an event loop": (handles.SyncApp, handles.SyncRun),
        },
    ),
    "pipelines.md": Page(
        "Reference: pipelines",
        "Import the names on this page from `onward.pipelines`, unless a heading names another "
        "module. You do not need to import the classes under Operations. For an introduction, see "
        "the [guide](../guides/pipelines.md). To publish events from code outside runs, use "
        "`App.publish` and `App.publish_many`.",
        {
            "Declarations": (
                *(pipelines.Pipeline, pipelines.Topic, pipelines.Consumer),
                *(pipelines.Event, pipelines.Prepared, pipelines.Input),
            ),
            "What handlers receive": (
                *(pipelines.ProducerContext, pipelines.PrepareContext),
                *(pipelines.MutateContext, pipelines.NextContext),
                *(pipelines.Nothing, pipelines.Skipped),
            ),
            "Raised by handlers: onward.errors": (errors.NeedsApproval, errors.Precondition),
            "In a workflow: onward": (onward.publish,),
            "Operations": (Pipelines, topics.Topics, inputs.Inputs),
            "Results": (
                *(pipelines.PipelineInfo, pipelines.HandlerInfo, pipelines.TopicInfo),
                *(pipelines.EventInfo, pipelines.DeliveryInfo, pipelines.InputInfo),
                *(pipelines.InputReport, pipelines.InputCounts, pipelines.SkippedInput),
            ),
        },
    ),
    "telemetry.md": Page(
        "Reference: telemetry",
        "Import the names on this page from `onward.telemetry`. The "
        "[guide](../guides/telemetry.md) shows how to use them, and lists all log events.",
        {"Logs": (JsonFormatter, RunFilter), "Metrics and alerts": (Metrics, Attention)},
    ),
    "testing.md": Page(
        "Reference: testing",
        "The [guide](../guides/testing.md) shows how to test workflows with the fixtures, classes "
        "and functions on this page. Each heading names the module to import from. The fixtures of "
        "the pytest plugin need no import.",
        {
            "Fixtures of the pytest plugin": (
                *(pytest_plugin.onward_app, pytest_plugin.onward_clock),
            ),
            "Virtual time: onward.testing.clock": (
                *(clock.VirtualClock, clock.VirtualLoop, clock.Deadlock),
                randomness.SeededRandomness,
            ),
            "An unreliable service: onward.testing.outside": (outside.Outside, outside.Trouble),
            "Phases of handlers: onward.testing.pipelines": (
                *(phases.produce, phases.prepare, phases.mutate, phases.go_on),
                *(phases.HandlerOutput, phases.PublishedEvent, phases.EffectToSend),
            ),
            "Postgres: onward.testing.fixtures and onward.testing.postgres": (
                *(fixtures.postgres_server, fixtures.postgres_url, fixtures.postgres_template),
                postgres.PostgresServer,
            ),
            "Faults: onward.testing.faults": (faults.armed, faults.raising),
        },
    ),
}

ERRORS = {
    name: kind
    for name in errors.__all__
    if name not in onward.__all__ and issubclass(kind := getattr(errors, name), errors.OnwardError)
}

ACTORS = {
    "You must act": (
        errors.UserError,
        "In most cases, the call, the value or the setup is wrong, and retrying does not help.",
    ),
    "Wait and try again": (
        errors.Unavailable,
        "The store is unreachable or busy, or a limit was exceeded. You can make the same call "
        "again.",
    ),
    "Let it propagate": (
        errors.LeaseLost,
        "The worker has lost the run and must stop executing it.",
    ),
    "Report it to us": (
        errors.InvariantBroken,
        "This is a bug in Onward. Please report it, and include the error message.",
    ),
}

ERRORS_HEAD = """Every error that Onward raises deliberately is an `onward.errors.OnwardError` and
has a stable `code`. Its message says what failed, why, and what to do. The errors
are grouped by what you should do. Import these types from `onward.errors`.

The errors that *your* code raises in steps (`Retryable`, `Fatal`, `NotApplied`), and `StepFailed`,
are described in [workflows](workflows.md#errors-in-steps). The guide on
[errors](../guides/errors.md) shows what to catch."""
