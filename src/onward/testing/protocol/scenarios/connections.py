"""Scenarios about the stream and the lease: broken, doubled, lost; and the end of a worker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.core.run import RunState
from onward.errors.root import count_text
from onward.testing.protocol.scenarios.parts import by_name, is_running, knows_sum

if TYPE_CHECKING:
    from onward.testing.protocol.engine import PlayedRun
    from onward.testing.protocol.world import World

DRAIN_SECONDS = 12.0
PING_SECONDS = 10.5
BUSY_SECONDS = 9
CLAIM_SECONDS = 25.0
"""A little longer than a claim waits: then a worker that put off its audit sends it."""


async def _reconnected(world: World, rule: str = "reconnect") -> None:
    server = world.server
    count = len(server.streams)
    server.cut()
    await world.until(
        lambda: len(server.streams) > count and server.is_connected(), rule, "it did not reconnect"
    )
    hello = server.stream.hello
    world.expect(rule, hello.is_reconnect, "its Hello says that it is new")


async def a_broken_stream(world: World) -> None:
    knows_sum(world, 1, 2, 3)
    world.server.faults.held.add("commits")
    run = world.start("sum", {"numbers": [1, 2, 3]})
    await world.until(lambda: bool(run.closed), "ends", "no step was recorded")
    world.server.forget_kept()
    await _reconnected(world)
    held = dict(world.server.stream.hello.held)
    world.expect("reconnect", held.get(run.uid) == run.fence, f"it holds {held}")
    await world.over(run, "resend")
    world.expect("resend", run.result() == 6, f"the result is {run.result()!r}")


async def a_broken_stream_of_many(world: World) -> None:
    world.knows("add", a=1, b=2)
    world.knows("add", a=3, b=4)
    world.server.faults.held.add("commits")
    runs = [world.start("both") for _ in range(8)]  # each with two commits that are not answered
    await world.until(
        lambda: all(len(run.closed) == 2 for run in runs), "ends", "steps are missing"
    )
    world.server.forget_kept()
    await _reconnected(world)
    for run in runs:
        await world.over(run, "resend")


async def a_goodbye(world: World) -> None:
    knows_sum(world, 1)
    count = len(world.server.streams)
    world.server.say_goodbye()
    await world.until(
        lambda: len(world.server.streams) > count, "reconnect", "it did not reconnect"
    )
    await world.over(world.start("sum", {"numbers": [1]}), "reconnect")


async def a_run_lost_while_away(world: World) -> None:
    knows_sum(world, 1, 2)
    world.server.faults.held.add("commits")
    run = world.start("sum", {"numbers": [1, 2]})
    await world.until(lambda: bool(run.closed), "ends", "no step was recorded")
    world.server.forget_kept()
    world.engine.take_away(run)
    world.server.faults.lost_on_reconnect.append(run.uid)
    await _reconnected(world)
    commits = world.server.commits.count(run.uid)
    await world.quiet()
    written = world.server.commits.count(run.uid) - commits
    world.expect("lost", written == 0, f"{count_text(written, 'commit')} came for the run")
    await world.over(world.start("sum", {"numbers": [1, 2]}), "lost")


async def a_lost_claim(world: World) -> None:
    knows_sum(world, 1)
    world.server.faults.dropped["claim"] = 1
    run = world.start("sum", {"numbers": [1]})
    await world.until(lambda: run.state == RunState.RUNNING, "one-claim", "it was not claimed")
    await _reconnected(world)
    await world.until(
        lambda: world.server.count("audit") > 0, "lost-claims", "no audit came", CLAIM_SECONDS
    )
    await world.over(run, "lost-claims")


async def _lose_lease(world: World) -> tuple[PlayedRun, str]:
    knows_sum(world, 1, 2)
    world.server.faults.held.add("commits")
    run = world.start("sum", {"numbers": [1, 2]})
    await world.until(lambda: bool(run.closed), "ends", "no step was recorded")
    world.server.forget_kept()
    worker = world.server.worker
    world.server.faults.is_lease_lost = True
    return run, worker


async def a_lost_lease(world: World) -> None:
    run, worker = await _lose_lease(world)
    world.server.cut()
    server = world.server
    await world.until(lambda: server.worker != worker, "lease-lost", "it did not join again")
    server.faults.is_lease_lost = False
    hello = server.stream.hello
    is_right = not hello.is_reconnect and hello.before.worker == worker
    world.expect("lease-lost", is_right, f"its Hello is {hello}"[:300])
    known = hello.before.held.get(run.uid)
    world.expect("lease-lost", known is not None, f"before.held is {dict(hello.before.held)}")
    await world.over(run, "lease-lost")


async def answers_that_come_twice(world: World) -> None:
    knows_sum(world, 1, 2, 3)
    world.server.faults.sends_twice = True
    for _ in range(3):
        run = await world.over(world.start("sum", {"numbers": [1, 2, 3]}), "duplicates")
        world.expect("duplicates", run.result() == 6, f"the result is {run.result()!r}")


async def unknown_fields(world: World) -> None:
    knows_sum(world, 1, 2)
    world.server.faults.sends_unknown = True
    run = await world.over(world.start("sum", {"numbers": [1, 2]}), "unknown-fields")
    world.expect("unknown-fields", run.result() == 3, f"the result is {run.result()!r}")


async def time_passes(world: World) -> None:
    server = world.server
    run = world.start("busy", {"seconds": BUSY_SECONDS})  # blocks the thread of its worker
    await world.until(lambda: run.state == RunState.RUNNING, "one-claim", "it was not claimed")
    lease = server.stream.hello.lease
    if lease <= 3 * BUSY_SECONDS * SECOND:
        await world.until(
            lambda: bool(server.renewals), "renew", "no renewal while it was busy", BUSY_SECONDS
        )
        world.expect("renew", not run.closed, "no renewal while it was busy")
    names = {(each.worker, each.length) for each in server.renewals}
    world.expect("renew", names <= {(server.worker, lease)}, f"it renewed {names}")
    await world.over(run)
    pings = server.count("ping")
    await asyncio.sleep(PING_SECONDS)
    world.check()
    world.expect("ping", server.count("ping") > pings, "no ping came")


async def _ends(world: World, rule: str) -> None:
    ends = await world.exited(DRAIN_SECONDS)
    world.expect(rule, ends, f"the process was still running after {DRAIN_SECONDS:g} s")
    world.expect(rule, len(world.server.left) == 1, f"it left {len(world.server.left)} times")


async def a_drain(world: World) -> None:
    run = world.start("hang_or_approval")
    await is_running(world, run)
    world.server.tell(drain=True)
    await _ends(world, "drain")
    world.expect("drain", run.state == RunState.READY, f"its run is {run.state}")


async def a_sigterm(world: World) -> None:
    knows_sum(world, 1, 2)
    world.server.faults.held.add("commits")
    run = world.start("sum", {"numbers": [1, 2]})
    await world.until(lambda: bool(run.closed), "ends", "no step was recorded")
    world.stop_worker()
    await world.quiet()
    claims = world.server.count("claim")
    world.server.let_go()
    await _ends(world, "drain")
    world.expect("drain", run.state == RunState.READY, f"its run is {run.state}")
    world.expect("drain", len(run.closed) == 1, f"{len(run.closed)} steps were recorded")
    world.expect("drain", world.server.count("claim") == claims, "it claimed runs while draining")


CONNECTIONS = by_name(
    a_broken_stream,
    a_broken_stream_of_many,
    a_goodbye,
    a_run_lost_while_away,
    a_lost_claim,
    a_lost_lease,
    answers_that_come_twice,
    unknown_fields,
    time_passes,
    a_drain,
    a_sigterm,
)
