"""Scenarios about runs that begin with a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.run import RunState
from onward.errors.root import count_text
from onward.testing.protocol.engine import packed
from onward.testing.protocol.scenarios.parts import by_name, knows_sum

if TYPE_CHECKING:
    from onward.testing.protocol.engine import PlayedRun
    from onward.testing.protocol.world import World


async def _half_done(world: World) -> PlayedRun:
    """Return a run of `sum` whose first step is recorded, and that the worker has lost."""
    server = world.server
    server.faults.held.add("commits")
    run = world.start("sum", {"numbers": [1, 2]})
    await world.until(lambda: bool(run.closed), "ends", "no step was recorded")
    world.engine.take_away(run)
    server.let_go()
    count = server.count("commits")
    await world.until(
        lambda: server.count("commits") > count, "record-first", "the second step was not written"
    )
    await world.quiet()
    return run


async def a_takeover(world: World) -> None:
    knows_sum(world, 1, 2)
    run = await _half_done(world)
    commits = world.server.commits.count(run.uid)
    world.expect(
        "lost", commits == 2, f"{count_text(commits, 'commit')} came, and the second was lost"
    )
    other = await world.over(world.start("sum", {"numbers": [1, 2]}), "lost")
    world.expect("lost", other.result() == 3, "other runs do not continue")


async def a_replay(world: World) -> None:
    knows_sum(world, 1, 2)
    run = await _half_done(world)
    first = world.only("lost", run.closed, "recorded steps")
    first.payload = packed(100)  # only a worker that reads history comes to 102
    world.knows("add", a=100, b=2)
    world.engine.release(run)
    await world.over(run, "replay")
    world.expect("replay", run.result() == 102, f"the result is {run.result()!r}, not 102")
    world.expect(
        "identities", len(run.closed) == 2, f"history has {count_text(len(run.closed), 'record')}"
    )


async def a_history_in_parts(world: World) -> None:
    knows_sum(world, 1, 2)
    run = await _half_done(world)
    world.server.faults.in_parts = True
    run.closed[0].payload = packed(100)
    world.knows("add", a=100, b=2)
    world.engine.release(run)
    await world.over(run, "parts")
    world.expect("parts", run.result() == 102, f"the result is {run.result()!r}, not 102")


async def other_code(world: World) -> None:
    knows_sum(world, 1, 2)
    run = await _half_done(world)
    first = world.only("lost", run.closed, "recorded steps")
    first.args_hash = "0" * 32
    world.engine.release(run)
    await world.until(lambda: run.state != RunState.READY, "divergence", "it was not claimed")
    await world.until(lambda: run.state != RunState.RUNNING, "divergence", "it is still running")
    is_paused = run.state == RunState.PAUSED and run.reason == "divergence"
    world.expect("divergence", is_paused, f"it is {run.state}, {run.reason}")
    world.expect("divergence", len(run.history) == 1, f"history has {len(run.history)} records")


async def crashes(world: World) -> None:
    knows_sum(world, 1)
    run = await world.over(world.start("sum", {"numbers": [1]}, crashes=2))
    world.expect("ends", run.state == RunState.SUCCEEDED, f"it is {run.state}")
    run = await world.over(world.start("sum", {"numbers": [1]}, crashes=5), "crashes")
    is_failed = run.state == RunState.FAILED and run.reason == "crashed"
    world.expect("crashes", is_failed and not run.history, f"it is {run.state}, {run.reason}")


REPLAY = by_name(
    a_takeover,
    a_replay,
    a_history_in_parts,
    other_code,
    crashes,
)
