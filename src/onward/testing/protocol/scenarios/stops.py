"""Scenarios about cancels, pauses, and answers that end or hold a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.replay import CANCEL_IDENTITY, RecordKind, RecordState
from onward.core.run import RunState
from onward.errors.root import count_text
from onward.testing.protocol.engine import packed, unpacked
from onward.testing.protocol.scenarios.parts import by_name, is_running, knows_sum
from onward.testing.protocol.server import REFUSED
from onward.wire.messages import messages

if TYPE_CHECKING:
    from onward.testing.protocol.engine import PlayedRun
    from onward.testing.protocol.world import World


GRACE = 60_000_000
"""How long a cleanup may take, in microseconds."""


async def a_cancel(world: World) -> None:
    world.knows("add", a=1, b=1)
    run = await world.parked(world.start("undo"))
    message = world.engine.send(run, "cancel", "operator", packed(GRACE))
    await world.over(run, "cancel")
    _check_cancelled(world, run, message.seq)


async def a_cancel_in_motion(world: World) -> None:
    world.knows("add", a=1, b=1)
    run = world.start("undo_step")
    await is_running(world, run)
    message = world.engine.send(run, "cancel", "operator", packed(GRACE))
    world.server.tell(run.uid)
    await world.over(run, "cancel")
    _check_cancelled(world, run, message.seq)


def _check_cancelled(world: World, run: PlayedRun, seq: int) -> None:
    is_cancelled = run.state == RunState.CANCELLED and run.reason == "operator"
    world.expect("cancel", is_cancelled, f"it is {run.state}, {run.reason}")
    cancel = world.only("cancel", run.of_kind(RecordKind.CANCEL), "records of the cancel")
    world.expect("cancel", cancel.message == seq, f"its record has {cancel.message}")
    cleanup = [row for row in run.of_kind(RecordKind.STEP) if row.name == "add"]
    world.expect("cancel", cleanup and cleanup[0].seq > cancel.seq, "no cleanup was recorded")


async def a_cleanup_after_an_outage(world: World) -> None:
    world.knows("add", a=1, b=1)
    run = await world.parked(world.start("undo"))
    now = world.engine.tick()
    world.engine.take_away(run)
    run.created_at -= 60 * SECOND
    for row in run.history:
        row.opened_at -= 60 * SECOND
    run.ready_at = now - 7 * SECOND  # its last worker died a second after the cancel
    cancel = messages.RecordRow(
        run=run.uid,
        identity=CANCEL_IDENTITY,
        attempt=1,
        seq=1,
        kind=RecordKind.CANCEL,
        name="cancel",
        state=RecordState.SUCCEEDED,
        message=1,
        payload=packed({"why": "operator", "grace": 5 * SECOND}),
        opened_at=now - 8 * SECOND,
        closed_at=now - 8 * SECOND,
    )
    run.records[CANCEL_IDENTITY, 1] = cancel
    run.seq = 1
    message = world.engine.send(run, "cancel", "operator", packed(5 * SECOND))
    await world.over(run, "cancel")
    _check_cancelled(world, run, message.seq)
    clock = world.only("clock-records", run.of_kind(RecordKind.CLOCK), "clock records")
    kept = unpacked(clock.payload, "the clock record")
    is_right = clock.seq == 2 and kept == {"since": run.ready_at, "is_replayed": True}
    world.expect("clock-records", is_right, f"position {clock.seq}, payload {kept!r}")


async def a_cancel_before_the_run(world: World) -> None:
    run = world.engine.start("sum", {"numbers": [1]}, state="later")
    world.engine.send(run, "cancel", "operator", packed(GRACE))
    world.engine.release(run)
    await world.over(run, "cancel")
    is_right = run.state == RunState.CANCELLED and not run.of_kind(RecordKind.STEP)
    world.expect(
        "cancel", is_right, f"it is {run.state} with {count_text(len(run.history), 'record')}"
    )


async def a_deadline(world: World) -> None:
    run = await world.parked(world.start("approval"))
    world.engine.send(run, "cancel", "deadline")
    await world.over(run, "cancel")
    is_right = run.state == RunState.TIMED_OUT and run.reason == "deadline"
    world.expect("cancel", is_right, f"it is {run.state}, {run.reason}")


async def a_pause(world: World) -> None:
    knows_sum(world, 1, 2)
    server = world.server
    server.faults.held.add("commits")
    run = world.start("sum", {"numbers": [1, 2]})
    await world.until(lambda: bool(run.closed), "ends", "no step was recorded")
    loads = server.count("load")
    world.engine.send(run, "pause", run.uid)
    server.tell(run.uid)
    await world.until(lambda: server.count("load") > loads, "news", "the inbox was not read")
    await world.quiet(0.1)
    server.let_go()
    await world.parked(run, "pauses")
    is_right = run.state == RunState.PAUSED and run.reason == "operator"
    world.expect("pauses", is_right, f"it is {run.state}, {run.reason}")
    world.expect("pauses", len(run.closed) == 1, f"{len(run.closed)} steps were done")
    world.engine.send(run, "resume", run.uid)
    await world.over(run, "pauses")
    world.expect("pauses", run.result() == 3, f"the result is {run.result()!r}")


async def a_forced_end(world: World) -> None:
    run = world.start("hang_or_approval")
    await is_running(world, run)
    world.engine.take_away(run)
    world.server.tell(run.uid)
    await world.until(
        lambda: world.server.count("owned") > 0, "news", "it did not ask who owns the run"
    )
    await world.quiet()
    world.engine.send(run, "signal", "approval", packed("late"))
    commits = world.server.count("commits")
    world.server.tell(run.uid)
    await world.quiet()
    world.expect("news", world.server.count("commits") == commits, "it still writes for the run")


async def a_refused_commit(world: World) -> None:
    knows_sum(world, 1, 2)
    run = world.start("sum", {"numbers": [1, 2]}, state="later")
    world.server.faults.refused.append(run.uid)
    world.engine.release(run)
    await world.until(
        lambda: run.is_over or run.worker is None, "refused", f"the run is {run.state}"
    )
    commits = world.server.count("commits")
    world.expect("refused", commits <= 4, f"{commits} frames with commits")
    if run.is_over:
        is_right = run.state == RunState.FAILED and run.reason == "internal"
        world.expect("refused", is_right, f"it is {run.state}, {run.reason}")


async def a_refused_frame(world: World) -> None:
    knows_sum(world, 1, 2)
    world.server.faults.problems = {"commits": [REFUSED]}
    run = world.start("sum", {"numbers": [1, 2]})
    await world.until(
        lambda: run.is_over or (run.worker is None and run.fence > 0),
        "refused",
        f"the run is {run.state}",
    )
    if run.is_over:
        is_right = run.state == RunState.FAILED and run.reason == "internal"
        world.expect("refused", is_right, f"it is {run.state}, {run.reason}")


async def a_frame_refused_for_now(world: World) -> None:
    knows_sum(world, 1, 2)
    problem = messages.Problem(
        code="unavailable", message="busy", is_retryable=True, retry_after_ms=50
    )
    world.server.faults.problems = {"commits": [problem]}
    run = await world.over(world.start("sum", {"numbers": [1, 2]}), "problems")
    world.expect("problems", run.result() == 3, f"the result is {run.result()!r}")


async def a_problem(world: World) -> None:
    problem = messages.Problem(
        code="unavailable", message="busy", is_retryable=True, retry_after_ms=50
    )
    world.server.faults.problems = {"load": [problem], "count_messages": [problem]}
    run = world.engine.start("approval", {}, state="later")
    world.engine.send(run, "signal", "approval", packed("after all"))
    world.engine.release(run)
    await world.over(run, "problems")
    world.expect("problems", run.result() == "after all", f"the result is {run.result()!r}")


async def many_commits(world: World) -> None:
    runs = [
        world.start("step add", {"a": n, "b": n}, kind="step", state="later") for n in range(30)
    ]
    for n in range(30):
        world.knows("add", a=n, b=n)
    world.server.faults.held.add("commits")
    world.server.faults.max_commits = 4
    world.server.cut()  # the next Welcome has the limit
    await world.until(world.server.is_connected, "reconnect", "it did not reconnect")
    for run in runs:
        run.state = RunState.READY
    world.engine.release(runs[0])
    await world.until(lambda: world.server.kept > 0, "ends", "no commit has come")
    await world.quiet()
    world.server.let_go()
    for run in runs:
        await world.over(run, "max-commits")


STOPS = by_name(
    a_cancel,
    a_cancel_in_motion,
    a_cleanup_after_an_outage,
    a_cancel_before_the_run,
    a_deadline,
    a_pause,
    a_forced_end,
    a_refused_commit,
    a_refused_frame,
    a_frame_refused_for_now,
    a_problem,
    many_commits,
)
