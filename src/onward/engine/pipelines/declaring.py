"""Pipelines that code declares, with the schedules of their producers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.handler import HandlerKind
from onward.engine.schedules.checking import check_spec
from onward.engine.schedules.declaring import declare as declare_schedules
from onward.store.pipelines.declaring import declare as declare_handlers
from onward.store.runs.schedules import delete_schedule, seen_schedules

if TYPE_CHECKING:
    from onward.model.pipelines import PipelineSpec
    from onward.store.store import Store


async def declare(store: Store, spec: PipelineSpec) -> None:
    """Make a pipeline what the code says of it; a producer that is gone loses its schedule.

    Raises:
        BadInput: the schedule of a producer is not valid.
    """
    schedules = [check_spec(each.schedule) for each in spec.handlers if each.schedule is not None]
    await declare_handlers(store, spec)
    await declare_schedules(store, schedules)
    names = {schedule.name for schedule in schedules}
    of_pipeline = f"{HandlerKind.PRODUCER} {spec.name}."
    for seen in await store.read(seen_schedules):
        if seen.row.workflow.startswith(of_pipeline) and seen.row.name not in names:
            await _delete(store, seen.row.name)


async def _delete(store: Store, name: str) -> None:
    await store.write(lambda tx: delete_schedule(tx, name))
