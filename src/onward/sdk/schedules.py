"""`app.schedules`: rules that start runs, for code and operators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from onward.core.instant import duration
from onward.engine.page_sizes import MAX_SLOTS, check_size
from onward.engine.schedules.views import ScheduleInfo, Slot
from onward.errors import BadInput
from onward.sdk.given import given_id
from onward.sdk.inside import refuse_in_body
from onward.sdk.schedule import Schedule, call_of, limits_of, timing_fields
from onward.sdk.workflow import instant_of, registered

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from onward.core.instant import DurationLike
    from onward.engine.client_engine import ClientEngine, RunKey
    from onward.engine.schedule_engine import ScheduleEngine
    from onward.runtime.flows import Declared
    from onward.sdk.run import Run
    from onward.sdk.workflow import Workflow

__all__ = ["ScheduleInfo", "Schedules", "Slot"]

# In a class with a method `list`, these name the type.
Infos: TypeAlias = list[ScheduleInfo]
Slots: TypeAlias = list[Slot]
Times: TypeAlias = "list[datetime]"

_CALL = ("workflow", "args", "kwargs")
_PLAIN = {"zone": "zone", "overlap": "overlap", "catch_up": "catch_up", "max_catch_up": "cap"}


class Schedules:
    """Operations on the schedules of an app (`app.schedules`): create, change and list them.

    Any worker can start their runs. The methods raise `NotFound` if there is no schedule with the
    given name.

    Example:
        >>> import asyncio
        >>> from onward import App, workflow
        >>> @workflow
        ... async def report(region: str) -> None: ...
        >>> async def main() -> list[str]:
        ...     async with App(":memory:") as app:
        ...         nightly = {"cron": "0 2 * * *", "zone": "Europe/Berlin"}
        ...         await app.schedules.create("nightly", report, ["EU"], **nightly)
        ...         return [f"{each.name} {each.state}" for each in await app.schedules.list()]
        >>> asyncio.run(main())
        ['nightly active']
    """

    def __init__(self, engine: ClientEngine, handle: Callable[[RunKey], Run[Any]]) -> None:
        self._opened = engine
        self._handle = handle

    @property
    def _engine(self) -> ScheduleEngine:
        refuse_in_body("a call to app.schedules")
        return self._opened.schedules

    async def create(  # noqa: PLR0913 - each is a thing of its own that one may want
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
    ) -> ScheduleInfo:
        """Create a schedule. Takes the same arguments as `Schedule`.

        A second call with the same arguments returns the existing schedule.

        Raises:
            BadInput: the cron expression, the zone, the interval or an option is not valid, or
                another schedule already has that name.
            TypeError: the workflow cannot be called with these arguments. This error is also a
                `BadInput`.
            Unencodable: an argument cannot be stored.
        """
        made = Schedule(
            name,
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
        await self._declare_limits(made.limits)
        return await self._engine.create(made.spec)

    async def _declare_limits(self, limits: Declared) -> None:
        for flow, limit in limits.items():
            await self._opened.declare(flow, limit)

    async def declare(self, *schedules: Schedule) -> Infos:
        """Create schedules, or change them to match the code.

        When a worker starts, it does this for its own schedules. Fields that were changed with
        `update` keep their values, and a paused schedule stays paused.

        Raises:
            BadInput: one of the schedules is not valid.
        """
        for each in schedules:
            await self._declare_limits(each.limits)
        return [await self._engine.declare(each.spec) for each in schedules]

    async def list(self) -> Infos:
        """Return all schedules, sorted by name."""
        return await self._engine.all()

    async def get(self, name: str) -> ScheduleInfo:
        """Return one schedule."""
        return await self._engine.get(_name(name))

    async def update(self, /, name: str, **fields: Any) -> ScheduleInfo:
        """Change fields of a schedule. Takes any of the arguments of `create`.

        A change of timing takes effect immediately. Past slots of the old timing that have no
        disposition yet are recorded as missed or, if the schedule is paused, as paused.

        A parked schedule becomes active again. If its timing stays the same, its past slots are
        recorded as paused; otherwise, they are not recorded.

        Raises:
            BadInput: a field is unknown, or its value is not valid.
        """
        changes = self._changes(name, dict(fields))
        workflow = fields.get("workflow")
        if workflow is not None:
            given = fields.get("args", ()), fields.get("kwargs")
            await self._declare_limits(limits_of(workflow, *given))
        is_unknown = isinstance(workflow, str) and workflow not in registered
        if is_unknown and (await self._engine.get(name)).workflow == workflow:
            del changes["options"]  # the code that knows them is not here
        return await self._engine.update(name, changes)

    def _changes(self, name: str, fields: dict[str, Any]) -> dict[str, Any]:
        known = (*_CALL, "cron", "every", "jitter", *_PLAIN)
        unknown = next((field for field in fields if field not in known), None)
        if unknown is not None:
            raise BadInput(f"field {unknown!r}", "is unknown", f"Use one of: {', '.join(known)}.")
        changes: dict[str, Any] = {}
        if any(field in fields for field in _CALL):
            if "workflow" not in fields:
                fact = "cannot be changed alone, because they depend on the workflow"
                raise BadInput("args= and kwargs=", fact, "Pass workflow= as well.")
            call = call_of(name, fields["workflow"], fields.get("args", ()), fields.get("kwargs"))
            changes |= dict(zip(("workflow", "input", "args_hash", "options"), call, strict=True))
        if "cron" in fields or "every" in fields:
            changes |= timing_fields(cron=fields.get("cron"), every=fields.get("every"))
        if "jitter" in fields:
            given = fields["jitter"]
            changes["jitter"] = 0 if given is None else duration(given)
        return changes | {_PLAIN[field]: fields[field] for field in fields if field in _PLAIN}

    async def pause(self, name: str) -> ScheduleInfo:
        """Stop starting runs until the schedule is resumed; open runs continue."""
        return await self._engine.pause(_name(name))

    async def resume(self, name: str) -> ScheduleInfo:
        """Resume a paused or parked schedule, starting from the current time.

        The slots that have passed in the meantime are recorded as paused.

        Raises:
            BadInput: the schedule is parked, and the problem that parked it still exists.
        """
        return await self._engine.resume(_name(name))

    async def trigger(self, name: str) -> Run[Any]:
        """Start a run now, even if the schedule is paused or has an open run.

        Returns:
            A handle for the run.
        """
        return self._handle(await self._engine.trigger(_name(name)))

    async def backfill(
        self,
        name: str,
        start: datetime,
        end: datetime,
        dry_run: bool = False,  # noqa: FBT001, FBT002 - as one says it
    ) -> Slots:
        """Start runs for the past slots in a period, except those that already have one.

        All runs become ready at once.

        Args:
            name: The schedule.
            start: The start of the period, with a time zone.
            end: The end of the period; a slot at this time is not included.
            dry_run: Whether to only return the slots that would get a run, without starting
                anything.

        Returns:
            The slots that get a run.

        Raises:
            BadInput: a time has no time zone, or there are more than 10,000 slots.
        """
        begin, before = instant_of(start), instant_of(end)
        return await self._engine.backfill(_name(name), begin, before, dry_run=dry_run)

    async def delete(self, name: str) -> None:
        """Delete a schedule and the history of its slots; its runs are kept."""
        await self._engine.delete(_name(name))

    async def preview(self, name: str, n: int = 20, after: datetime | None = None) -> Times:
        """Return the next slots, in the time zone of the schedule.

        Args:
            name: The schedule.
            n: The number of slots.
            after: The time after which to begin; by default, the current time.
        """
        check_size("n", n, MAX_SLOTS)
        return await self._engine.preview(
            _name(name), n, None if after is None else instant_of(after)
        )

    async def slots(self, name: str, limit: int = 100) -> Slots:
        """Return the latest slots that have a disposition, newest first, at most 10,000."""
        check_size("limit", limit, MAX_SLOTS, minimum=1)
        return await self._engine.slots(_name(name), limit)


def _name(given: object) -> str:
    return given_id(given, "the schedule name")
