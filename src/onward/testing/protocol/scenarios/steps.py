"""Scenarios about steps: their records, attempts and failures."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from onward.core.replay import RecordKind, RecordState
from onward.core.run import RunState
from onward.testing.protocol.engine import unpacked
from onward.testing.protocol.scenarios.parts import by_name, knows_sum

if TYPE_CHECKING:
    from onward.testing.protocol.engine import PlayedRun
    from onward.testing.protocol.world import World


def _payloads(run: PlayedRun) -> list[Any]:
    return [unpacked(row.payload, row.identity) for row in run.closed if row.HasField("payload")]


async def a_routed_step(world: World) -> None:
    world.knows("add", a=2, b=3)
    run = await world.over(world.start("step add", {"a": 2, "b": 3}, kind="step"))
    world.expect("ends", run.state == RunState.SUCCEEDED, f"the step is {run.state}")
    world.expect("ends", run.result() == 5, f"the result is {run.result()!r}")
    steps = run.of_kind(RecordKind.STEP)
    world.expect("positions", len(steps) == 1, f"{len(steps)} records of the step")


async def steps_in_a_row(world: World) -> None:
    knows_sum(world, 1, 2, 3)
    run = await world.over(world.start("sum", {"numbers": [1, 2, 3]}))
    world.expect("ends", run.result() == 6, f"the result is {run.result()!r}")
    world.expect("positions", _payloads(run) == [1, 3, 6], f"history has {_payloads(run)}")
    identities = {row.identity for row in run.closed}
    world.expect("identities", len(identities) == 3, f"the identities are {sorted(identities)}")


async def branches(world: World) -> None:
    world.knows("add", a=1, b=2)
    world.knows("add", a=3, b=4)
    run = await world.over(world.start("both"))
    world.expect("ends", run.result() == [3, 7], f"the result is {run.result()!r}")
    identities = {row.identity for row in run.closed}
    world.expect("identities", len(identities) == 2, f"the identities are {sorted(identities)}")


async def a_late_answer(world: World) -> None:
    knows_sum(world, 1, 2)
    world.server.faults.held.add("commits")
    run = world.start("sum", {"numbers": [1, 2]})
    await world.until(lambda: world.server.kept > 0, "ends", "no commit has come")
    await world.quiet()
    world.expect("record-first", len(run.closed) == 1, f"{len(run.closed)} steps are recorded")
    world.server.let_go()
    await world.over(run)


async def retries(world: World) -> None:
    run = world.start("flake", {"times": 2})
    while not run.is_over:
        await world.until(
            lambda: run.is_over or run.state == RunState.WAITING, "retries", f"it is {run.state}"
        )
        if run.state == RunState.WAITING:
            await world.due(run)
    rows = run.of_kind(RecordKind.STEP)
    attempts = sorted((row.attempt, row.state, row.HasField("seq")) for row in rows)
    failed = RecordState.FAILED
    wanted = [(1, failed, False), (2, failed, False), (3, RecordState.SUCCEEDED, True)]
    world.expect("retries", attempts == wanted, f"the attempts are {attempts}")
    world.expect("retries", run.result() == 3, f"the result is {run.result()!r}")


async def a_failure(world: World) -> None:
    run = await world.over(world.start("broken", {"message": "no luck"}))
    is_failed = run.state == RunState.FAILED and run.reason == "logic"
    world.expect("ends", is_failed, f"it is {run.state}, {run.reason}")
    error = world.engine.check_error(run.move.error, "the end of broken")
    world.expect("errors", "no luck" in error["message"], f"the message is {error['message']!r}")
    step = world.only("ends", run.of_kind(RecordKind.STEP), "records of the step")
    world.expect("ends", step.state == RecordState.FAILED, f"the step is {step.state}")
    named = json.loads(run.move.failed_call or "[null]")[0]
    world.expect("ends", named == step.identity, f"failed_call is {run.move.failed_call!r}")


async def progress(world: World) -> None:
    run = await world.over(world.start("report", {"value": 7}))
    await world.until(lambda: run.progress is not None, "progress", "no progress was written")
    value = unpacked(run.progress or b"", "the progress")
    world.expect("progress", value == 7, f"the progress is {value!r}")


STEPS = by_name(
    a_routed_step,
    steps_in_a_row,
    branches,
    a_late_answer,
    retries,
    a_failure,
    progress,
)
