"""Scenarios about sleeps, signals and children."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.replay import RecordKind, RecordState
from onward.core.run import RunState
from onward.testing.protocol.engine import packed, unpacked
from onward.testing.protocol.scenarios.parts import by_name, is_running, knows_sum

if TYPE_CHECKING:
    from onward.testing.protocol.engine import PlayedRun
    from onward.testing.protocol.world import World


def child_end(state: str, reason: str, data: bytes) -> bytes:
    """Return the payload of the message about the end of a child."""
    return b"\n".join((state.encode(), reason.encode(), data))


async def a_sleep(world: World) -> None:
    world.knows("add", a=1, b=2)
    run = await world.parked(world.start("nap", {"seconds": 1}))
    timer = world.only("waits-when-parked", run.of_kind(RecordKind.TIMER), "timers on record")
    world.expect("waits-when-parked", timer.state == RecordState.OPEN, f"it is {timer.state}")
    length = timer.due - run.created_at
    is_right = SECOND <= length < 30 * SECOND
    world.expect("park-due", is_right, f"it is due {length} µs after the run began")
    world.expect("park-due", run.due is not None, "it is not due")
    await world.due(run)
    await world.over(run)
    world.expect("ends", run.result() == 3, f"the result is {run.result()!r}")
    states = [row.state for row in run.of_kind(RecordKind.TIMER)]
    world.expect("waits-when-parked", states == ["succeeded"], f"the timer is {states}")


async def a_signal(world: World) -> None:
    run = await world.parked(world.start("approval"))
    wait = world.only("waits-when-parked", run.of_kind(RecordKind.SIGNAL), "waits on record")
    is_open = wait.state == RecordState.OPEN and wait.name == "approval"
    world.expect("waits-when-parked", is_open, f"the wait is {wait.state}, {wait.name!r}")
    world.engine.send(run, "signal", "other", packed("no"))
    await world.until(lambda: len(run.moves) > 1, "park", "it did not park again")
    message = world.engine.send(run, "signal", "approval", packed("yes"))
    await world.over(run, "signals")
    world.expect("signals", run.result() == "yes", f"the result is {run.result()!r}")
    wait = world.only("signals", run.of_kind(RecordKind.SIGNAL), "waits on record")
    world.expect("signals", wait.message == message.seq, f"the record has {wait.message}")


async def a_signal_before_the_run(world: World) -> None:
    run = world.engine.start("approval", {}, state="later")
    world.engine.send(run, "signal", "approval", packed("early"))
    world.engine.send(run, "signal", "approval", packed("second"))
    world.engine.release(run)
    await world.over(run, "load-first")
    world.expect("signals", run.result() == "early", f"the result is {run.result()!r}")


async def a_large_message(world: World) -> None:
    world.server.faults.omits_payloads = True
    run = world.engine.start("approval", {}, state="later")
    world.engine.send(run, "signal", "approval", packed("large"))
    world.engine.release(run)
    await world.over(run, "parts")
    world.expect("signals", run.result() == "large", f"the result is {run.result()!r}")


async def large_messages_in_parts(world: World) -> None:
    world.server.faults.omits_payloads = world.server.faults.in_parts = True
    run = world.engine.start("approval", {}, state="later")
    world.engine.send(run, "signal", "other", packed("no"))
    world.engine.send(run, "signal", "approval", packed("large"))
    world.engine.release(run)
    await world.over(run, "parts")
    world.expect("parts", run.result() == "large", f"the result is {run.result()!r}")


async def a_message_while_it_parks(world: World) -> None:
    engine = world.engine
    knows_sum(world, 1)
    run = world.start("sum_then_approval", {"numbers": [1]})
    world.server.faults.held.add("commits")
    await world.until(lambda: bool(run.closed), "ends", "no step was recorded")
    engine.send(run, "signal", "approval", packed("now"))  # without news
    world.server.let_go()
    await world.over(run, "busy")
    world.expect("busy", run.result() == "now", f"the result is {run.result()!r}")


async def news(world: World) -> None:
    run = world.start("hang_or_approval")
    await is_running(world, run)
    world.engine.send(run, "signal", "approval", packed("told"))
    world.server.tell(run.uid)
    await world.over(run, "news")
    world.expect("news", run.result() == "told", f"the result is {run.result()!r}")


async def a_timeout(world: World) -> None:
    run = await world.parked(world.start("patient", {"seconds": 0.5}))
    await world.due(run)
    await world.over(run, "timeouts")
    world.expect("timeouts", run.result() == "timed out", f"it ended with {run.result()!r}")
    ended = [row for row in run.closed if row.kind in (RecordKind.SIGNAL, RecordKind.TIMER)]
    world.only("timeouts", ended, "waits that ended")


async def a_timeout_after_an_outage(world: World) -> None:
    run = world.start("patient", {"seconds": 1}, state="later")
    run.created_at -= 3600 * SECOND
    run.fence = 1  # its worker was lost before it wrote anything
    world.engine.release(run)
    await world.parked(run)
    clock = world.only("clock-records", run.of_kind(RecordKind.CLOCK), "clock records")
    kept = unpacked(clock.payload, "the clock record")
    is_right = kept == {"since": run.created_at, "is_replayed": True}
    world.expect("clock-records", is_right, f"its payload is {kept!r}")
    wait = run.history[-1]
    length = wait.due - clock.closed_at
    is_right = length == SECOND
    world.expect("clock-records", is_right, f"the wait ends {length} µs after the clock record")
    await world.due(run)
    await world.over(run, "timeouts")
    world.expect("timeouts", run.result() == "timed out", f"it ended with {run.result()!r}")
    world.only("clock-records", run.of_kind(RecordKind.CLOCK), "clock records")


async def a_child(world: World) -> None:
    run = await world.parked(world.start("family", {"n": 4}))
    child = _child_of(world, run, "sum")
    arguments = unpacked(child.input, "the input of the child")
    world.expect("children", arguments == {"numbers": [4, 4]}, f"it is given {arguments!r}")
    assert child.parent_identity is not None
    end = child_end("succeeded", "", packed(8))
    message = world.engine.send(run, "child", child.parent_identity, end)
    await world.over(run, "child-ends")
    world.expect("child-ends", run.result() == 8, f"the result is {run.result()!r}")
    call = next(row for row in run.closed if row.identity == child.parent_identity)
    world.expect("child-ends", call.message == message.seq, f"the record has {call.message}")


async def a_child_that_fails(world: World) -> None:
    run = await world.parked(world.start("family", {"n": 5}))
    child = _child_of(world, run, "sum")
    assert child.parent_identity is not None
    error = packed({"type": "ValueError", "message": "too many"})
    world.engine.send(run, "child", child.parent_identity, child_end("failed", "logic", error))
    await world.over(run, "child-ends")
    world.expect("child-ends", run.state == RunState.FAILED, f"it is {run.state}")
    shown = json.dumps(world.engine.check_error(run.move.error, "the end of family"))
    world.expect("child-ends", "too many" in shown, f"the error is {shown[:200]}")


async def a_step_elsewhere(world: World) -> None:
    run = await world.parked(world.start("remote", {"x": 1}))
    child = _child_of(world, run, "step far")
    world.expect("children", child.kind == "step", f"its kind is {child.kind!r}")
    assert child.parent_identity is not None
    end = child_end("succeeded", "", packed("from afar"))
    world.engine.send(run, "child", child.parent_identity, end)
    await world.over(run, "child-ends")
    world.expect("child-ends", run.result() == "from afar", f"the result is {run.result()!r}")


def _child_of(world: World, run: PlayedRun, name: str) -> PlayedRun:
    children = [each for each in world.engine.runs.values() if each.parent == run.uid]
    names = [child.name for child in children]
    world.expect("children", names == [name], f"{run.name} has started {names}")
    return children[0]


WAITS = by_name(
    a_sleep,
    a_signal,
    a_signal_before_the_run,
    a_large_message,
    large_messages_in_parts,
    a_message_while_it_parks,
    news,
    a_timeout,
    a_timeout_after_an_outage,
    a_child,
    a_child_that_fails,
    a_step_elsewhere,
)
