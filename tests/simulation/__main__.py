"""Run many simulated worlds, or one again: `python -m tests.simulation --seeds 1000`."""

from __future__ import annotations

import argparse
import json
import sys
from functools import partial
from typing import TYPE_CHECKING

from onward.core.instant import SECOND
from onward.system.clock import SystemClock
from tests.simulation.simulator.kinds import KINDS
from tests.simulation.simulator.plan import draw_pipelines, draw_wire
from tests.simulation.simulator.world import Failed, Simulation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRESS_EVERY = 2 * SECOND


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the worlds that the command line asks for, up to the first that fails.

    Returns:
        The exit status: 0 if every world was right, 1 if one was not.
    """
    parser = argparse.ArgumentParser(
        prog="python -m tests.simulation",
        description="Run simulated worlds of workers, clients and crashes, each from a seed.",
        epilog="Example: python -m tests.simulation --seeds 1000",
    )
    parser.add_argument("--seeds", type=int, default=100, help="how many worlds to run")
    parser.add_argument("--first", type=int, default=0, help="the seed of the first one")
    parser.add_argument("--seed", type=int, help="run this one alone, and print what happened")
    parser.add_argument("--pipelines", action="store_true", help="only worlds with pipelines")
    parser.add_argument("--wire", action="store_true", help="workers reach it through servers")
    parser.add_argument("--json", action="store_true", help="print the outcome as JSON")
    asked = parser.parse_args(arguments)
    make = _with_pipelines if asked.pipelines else Simulation
    if asked.wire:
        make = partial(_with_wire, pipelines=asked.pipelines)
    if asked.seed is not None:
        return replay(asked.seed, make, as_json=asked.json)
    return swarm(range(asked.first, asked.first + asked.seeds), make, as_json=asked.json)


def _with_pipelines(seed: int) -> Simulation:
    return Simulation(seed, draw_pipelines(seed, tuple(KINDS)))


def _with_wire(seed: int, *, pipelines: bool) -> Simulation:
    plan = _with_pipelines(seed).plan if pipelines else Simulation(seed).plan
    return Simulation(seed, draw_wire(seed, plan))


def swarm(seeds: range, make: Callable[[int], Simulation], *, as_json: bool) -> int:
    """Run many worlds and stop at the first that fails."""
    clock = SystemClock()
    begin = told = clock.monotonic()
    commits = virtual = done = 0
    failure: Failed | None = None
    for seed in seeds:
        try:
            trace = make(seed).run()
        except Failed as failed:
            failure = failed
            break
        done += 1
        commits += len(trace.of("commit")) + len(trace.of("claim"))
        virtual += trace.events[-1].at
        if clock.monotonic() - told > PROGRESS_EVERY:
            told = clock.monotonic()
            sys.stderr.write(f"{done} of {len(seeds)} worlds\n")
    seconds = (clock.monotonic() - begin) / SECOND
    outcome: dict[str, object] = {
        "worlds": done,
        "commits": commits,
        "virtual_seconds": round(virtual / SECOND),
        "seconds": round(seconds, 1),
        "worlds_per_second": round(done / seconds, 1) if seconds else 0.0,
        "failed_seed": None if failure is None else failure.trace.seed,
        "broken": [] if failure is None else failure.broken,
    }
    _print(outcome, as_json=as_json)
    if failure is not None:
        sys.stderr.write(f"{failure}\n")
    return 0 if failure is None else 1


def replay(seed: int, make: Callable[[int], Simulation], *, as_json: bool) -> int:
    """Run one world and print everything that happened in it."""
    simulation = make(seed)
    broken: list[str] = []
    try:
        simulation.run()
    except Failed as failed:
        broken = failed.broken
    trace = simulation.trace
    if not as_json:
        sys.stdout.write(f"{simulation.plan}\n{trace}\n")
    _print({"seed": seed, "hash": trace.hash, "broken": broken}, as_json=as_json)
    return 1 if broken else 0


def _print(outcome: dict[str, object], *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(outcome) + "\n")
    else:
        sys.stdout.writelines(f"{name}: {value}\n" for name, value in outcome.items())


if __name__ == "__main__":
    sys.exit(main())
