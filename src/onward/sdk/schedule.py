"""Schedules that code declares: `Schedule`, and `@schedule` above a workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from onward.codec import encode, fingerprint
from onward.core.instant import duration
from onward.engine.payloads import pack
from onward.engine.schedules.checking import check_spec
from onward.engine.starting import StartOptions
from onward.errors import BadInput, Unencodable
from onward.errors.root import caught_as
from onward.model.runs import NewRun
from onward.model.schedules import ScheduleSpec
from onward.sdk import workflow as workflow_module
from onward.sdk.workflow import Workflow, check_workflow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from onward.core.instant import DurationLike
    from onward.runtime.flows import Declared

W = TypeVar("W", bound=Workflow[..., Any])

declared: list[Schedule] = []
"""The schedules of this process: of `@schedule`, and of the module of `onward worker`."""

_NOT_OPTIONS = frozenset({"uid", "id", "name", "input", "args_hash", "cancel_with_parent"})
_ONE_RUN_ONLY = ("id", "delay", "at")


class Schedule:
    """A schedule, declared in code.

    `onward worker MODULE` creates the schedules that are defined at the top level of the module. A
    worker in your own code creates the schedules that you pass: `app.worker(schedules=[...])`. A
    deploy with an unchanged declaration changes nothing, so a pause or a change by an operator
    survives it.

    Args:
        name: Its name. The ids of its runs begin with it, as in `nightly@2026-11-15T02:00+01:00`.
        workflow: The workflow, the workflow with options, or its name.
        args: The positional arguments of its runs.
        kwargs: The keyword arguments of its runs.
        cron: A cron expression with five fields (minute, hour, day, month, weekday) or six (with
            the seconds first), or @hourly, @daily, @weekly, @monthly or @yearly.
        every: An interval, such as "5m", instead of a cron expression.
        zone: The time zone of the cron expression.
        overlap: What happens to a schedule slot while a run of the schedule is open. "skip": the
            slot gets no run. "allow": the slot gets a run. "coalesce": the slot gets a run when the
            open runs have ended, and slots in between get none. "replace": the open runs are
            cancelled, and then the slot gets a run.
        catch_up: Which of the slots that passed while no worker was running get a run: "skip" (none
            that are more than a minute late), "latest" (the newest), or "all".
        jitter: The maximum delay of each run. Runs are delayed by different amounts, to spread the
            load.
        max_catch_up: With `catch_up="all"`, the maximum number of slots that get a run; older
            slots get none.

    Example:
        >>> from onward import workflow
        >>> from onward.schedules import Schedule
        >>> @workflow
        ... async def report(region: str) -> None: ...
        >>> Schedule("nightly", report, ["EU"], cron="0 2 * * *", zone="Europe/Berlin")
        <schedule nightly>
    """

    def __init__(  # noqa: PLR0913 - each is a thing of its own that one may want
        self,
        name: str,
        workflow: Workflow[..., Any] | str,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        cron: str | None = None,
        every: DurationLike | None = None,
        zone: str = "UTC",
        overlap: str = "skip",
        catch_up: str = "latest",
        jitter: DurationLike | None = None,
        max_catch_up: int = 1000,
    ) -> None:
        self.name = name
        self.spec = ScheduleSpec(
            name,
            *call_of(name, workflow, args, kwargs),
            **timing_fields(cron=cron, every=every),
            zone=zone,
            overlap=overlap,
            catch_up=catch_up,
            cap=max_catch_up,
            jitter=0 if jitter is None else duration(jitter),
        )
        self.limits = limits_of(workflow, args, kwargs)

    def __repr__(self) -> str:
        return f"<schedule {self.name}>"


def schedule(  # noqa: PLR0913 - each is a thing of its own that one may want
    *,
    name: str | None = None,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    cron: str | None = None,
    every: DurationLike | None = None,
    zone: str = "UTC",
    overlap: str = "skip",
    catch_up: str = "latest",
    jitter: DurationLike | None = None,
    max_catch_up: int = 1000,
) -> Callable[[W], W]:
    """Declare a schedule for the decorated workflow.

    Every worker in this process creates the schedule, unless you pass `schedules=` to the worker.
    The decorator takes the arguments of `Schedule`. By default, the schedule has the name of the
    workflow.

    Example:
        >>> from onward import workflow
        >>> from onward.schedules import schedule
        >>> def define() -> None:  # in your own code, do this at module level
        ...     @schedule(cron="*/5 * * * *")
        ...     @workflow
        ...     async def poll() -> None: ...
    """

    def declare(workflow: W) -> W:
        check_workflow(workflow)
        made = Schedule(
            name or workflow.name,
            workflow,
            args,
            kwargs,
            cron=cron,
            every=every,
            zone=zone,
            overlap=overlap,
            catch_up=catch_up,
            jitter=jitter,
            max_catch_up=max_catch_up,
        )
        declared[:] = [each for each in declared if each.name != made.name]
        declared.append(made)
        return workflow

    return declare


def declare_all(schedules: Iterable[Schedule]) -> None:
    """Add schedules to those that a worker of this process declares."""
    declared.extend(dict.fromkeys(each for each in schedules if each not in declared))


def declared_schedules(
    schedules: Sequence[Schedule] | None, workflows: Sequence[Workflow[..., Any]] | None
) -> Sequence[Schedule]:
    """Return what a worker declares: what is given, or what is declared for its workflows.

    Raises:
        BadInput: one of them cannot be done, or two have one name.
    """
    served = None if workflows is None else {each.name for each in workflows}
    chosen = schedules
    if chosen is None:
        chosen = [each for each in declared if served is None or each.spec.workflow in served]
    names = [each.name for each in chosen]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(f"schedule {twice!r}", "is declared twice", "Give one of them another name.")
    for each in chosen:
        check_spec(each.spec)
    return chosen


def timing_fields(*, cron: str | None, every: DurationLike | None) -> dict[str, Any]:
    """Return a cron expression or an interval as fields of a specification."""
    if cron is not None and not isinstance(cron, str):
        raise BadInput(f"cron={cron!r}", "is not text", 'Write it like "0 2 * * *".')
    return {"cron": cron, "every": None if every is None else duration(every)}


def call_of(
    name: str,
    workflow: Workflow[..., Any] | str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None,
) -> tuple[str, bytes, str, str]:
    """Return the name, the arguments, their hash and the options of the runs of a schedule.

    Raises:
        BadInput: it is no workflow, or has options that only one run can have.
        TypeError: the workflow cannot be called like this; it is a `BadInput` too.
        Unencodable: an argument cannot be stored.
    """
    if isinstance(args, str) or not hasattr(args, "__iter__"):
        raise BadInput(f"args={args!r}", "is not a list of arguments", f"Write args=[{args!r}].")
    found = _found(workflow) if isinstance(workflow, str) else workflow
    if found is None:
        return _call_by_name(str(workflow), args, kwargs)
    check_workflow(found)
    unset = StartOptions()
    for option in _ONE_RUN_ONLY:
        if getattr(found.start_options, option) != getattr(unset, option):
            fact = f"has the option {option}=, which is valid for a single run only"
            raise BadInput(f"schedule {name!r}", fact, "Leave it out.")
    # Not pinned to a version: a schedule lives longer than the code that created it.
    try:
        run = found.row(tuple(args), dict(kwargs or {}))
    except TypeError as error:
        if isinstance(error, Unencodable):
            raise
        fact = f"cannot call its workflow: {error}"
        refused = caught_as(BadInput, TypeError)
        raise refused(
            f"schedule {name!r}", fact, "Pass args= and kwargs= that match its parameters."
        ) from None
    default = NewRun("", "", "", b"", "")
    options = {
        field: value
        for field, value, usual in zip(run._fields, run, default, strict=True)
        if field not in _NOT_OPTIONS and value != usual
    }
    return run.name, run.input, run.args_hash, msgspec.json.encode(options).decode()


def limits_of(
    workflow: Workflow[..., Any] | str, args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> Declared:
    """Return the limits that must be declared before the first run starts."""
    if not isinstance(workflow, Workflow):
        return {}  # the workers of the workflow declare its own
    return workflow.flow(tuple(args), dict(kwargs or {})).declares


def _found(name: str) -> Workflow[..., Any] | None:
    """Return the workflow of a name, if this process has one."""
    definitions = workflow_module.registered.get(name)
    if not definitions:
        return None
    definition = definitions[-1]
    return Workflow(definition, StartOptions(queue=definition.queue))


def _call_by_name(
    name: str, args: Sequence[Any], kwargs: Mapping[str, Any] | None
) -> tuple[str, bytes, str, str]:
    if args:
        raise BadInput(
            f"workflow {name!r}",
            "is not defined in this process, so its parameters are not known",
            "Pass its arguments by name, as kwargs.",
        )
    payload = encode(dict(kwargs or {}), path=f"{name}(…)")
    return name, pack(payload), fingerprint(payload), "{}"
