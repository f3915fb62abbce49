"""The schedules of an engine that reaches the database itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.core.slot import Disposition
from onward.engine.client_engine import RunKey
from onward.engine.schedules import reading
from onward.engine.schedules.backfilling import backfill
from onward.engine.schedules.checking import check_count, check_spec
from onward.engine.schedules.deciding import run_of
from onward.engine.schedules.declaring import declare, insert, overridden
from onward.engine.schedules.retiming import caught_up, new_anchor, rescheduled
from onward.engine.schedules.timing import first_slots, local_time, timing_of, timing_of_spec
from onward.errors import BadInput, NotFound
from onward.model.schedules import ScheduleChange, SlotRow, SlotStart
from onward.store.runs.schedules import change_schedule, delete_schedule, seen_schedule

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from onward.core.instant import Instant
    from onward.engine.schedule_engine import ScheduleEngine
    from onward.engine.schedules.views import ScheduleInfo, Slot
    from onward.model.schedules import ScheduleSpec, SeenSchedule
    from onward.store.store import Store


class LocalSchedules:
    """A `ScheduleEngine` over a store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def create(self, spec: ScheduleSpec) -> ScheduleInfo:
        if not await insert(self._store, check_spec(spec)):
            seen = await self._seen(spec.name)
            if seen.row.spec != spec:
                raise BadInput(
                    f"schedule {spec.name!r}",
                    "already exists with different settings",
                    "Update it, or delete it first",
                )
        return await self.get(spec.name)

    async def declare(self, spec: ScheduleSpec) -> ScheduleInfo:
        await declare(self._store, [check_spec(spec)])
        return await self.get(spec.name)

    async def all(self) -> list[ScheduleInfo]:
        return await reading.all_infos(self._store)

    async def get(self, name: str) -> ScheduleInfo:
        return await reading.info(self._store, await self._seen(name))

    async def update(self, name: str, changes: Mapping[str, Any]) -> ScheduleInfo:
        def updated(seen: SeenSchedule) -> ScheduleChange:
            spec = check_spec(seen.row.spec._replace(**changes))
            by_hand = overridden(seen.row.spec, spec, seen.row.overrides)
            row = seen.row._replace(**spec._asdict(), overrides=by_hand)
            if row.state == "parked":
                active = row._replace(state="active", error=None)
                return caught_up(seen, active, Disposition.PAUSED)
            return rescheduled(seen, row)

        return await self._change(name, updated)

    async def pause(self, name: str) -> ScheduleInfo:
        def paused(seen: SeenSchedule) -> ScheduleChange:
            return ScheduleChange(seen.row._replace(state="paused", error=None))

        return await self._change(name, paused)

    async def resume(self, name: str) -> ScheduleInfo:
        def resumed(seen: SeenSchedule) -> ScheduleChange | None:
            if seen.row.state == "active":
                return None
            row = seen.row._replace(state="active", error=None)
            check_spec(row.spec)
            return caught_up(seen, row, Disposition.PAUSED)

        return await self._change(name, resumed)

    async def trigger(self, name: str) -> RunKey:
        uid = self._store.new_uid()
        started: list[RunKey] = []

        def triggered(seen: SeenSchedule) -> ScheduleChange:
            run = run_of(seen.row, seen.at, uid)._replace(due=None)
            started[:] = [RunKey(uid, run.id, run.name)]
            timing = timing_of(seen.row).text
            slot = SlotRow(seen.at, seen.at, 1, Disposition.TRIGGERED, run.id, timing, seen.at)
            return ScheduleChange(seen.row, [slot], [SlotStart(seen.at, run)])

        await self._change(name, triggered)
        return started[0]

    async def backfill(
        self, name: str, start: Instant, before: Instant, *, dry_run: bool
    ) -> list[Slot]:
        seen = await self._seen(name)
        return await backfill(self._store, seen, start, before, dry_run=dry_run)

    async def delete(self, name: str) -> None:
        if not await self._store.write(lambda tx: delete_schedule(tx, name)):
            raise self._missing(name)

    async def preview(self, name: str, count: int, after: Instant | None) -> list[datetime]:
        check_count(count)
        seen = await self._seen(name)
        since = seen.at if after is None else after
        found = first_slots(timing_of(seen.row), since, count)
        return [local_time(at, seen.row.zone) for at in found]

    async def first_slots(self, spec: ScheduleSpec, count: int) -> list[datetime]:
        check_count(count)
        now = await self._store.now()
        timing = timing_of_spec(check_spec(spec), new_anchor(now))
        return [local_time(at, spec.zone) for at in first_slots(timing, now, count)]

    async def slots(self, name: str, limit: int) -> list[Slot]:
        return await reading.slots(self._store, await self._seen(name), limit)

    async def _seen(self, name: str) -> SeenSchedule:
        found = await self._store.read(lambda tx: seen_schedule(tx, name))
        if found is None:
            raise self._missing(name)
        return found

    def _missing(self, name: str) -> NotFound:
        advice = "List the schedules: onward schedules list"
        return NotFound("schedule", name, self._store.namespace, advice)

    async def _change(
        self, name: str, change: Callable[[SeenSchedule], ScheduleChange | None]
    ) -> ScheduleInfo:
        """Change a schedule as it is when nothing else changes it."""
        while True:
            wanted = change(await self._seen(name))
            if wanted is None or await change_schedule(self._store, wanted, is_sooner=True):
                return await self.get(name)


def _check(engine: LocalSchedules) -> ScheduleEngine:
    return engine  # the type checker compares it with the protocol here
