"""Outages and clocks that step: no worker that lives loses its lease, and one that died does soon.

A small world in units of time, in which workers renew and try to take over from each other by the
rules of the core. Every world of a kind is tried.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

import pytest

from onward.core.lease import (
    LEASE,
    MAX_AHEAD,
    RENEW_EVERY,
    Lease,
    clipped,
    expirable,
    renewed,
    taken,
)

UNIT = LEASE // 12
LENGTH = LEASE // UNIT
EVERY = RENEW_EVERY // UNIT
RETRY = 2
"""How long after the database is back a worker has renewed at the latest, in units: 2.5 s."""

FAULT_FROM = 30
"""When the faults of a world begin, at the earliest: everything is steady by then."""

STEPS = (-100, -13, -7, -6, -5, -3, -1, 0, 1, 3, 5, 6, 7, 13, 100)


@dataclass(frozen=True)
class Fault:
    """The database is away for `length` units from `begin` on; its clock steps at `steps_at`."""

    begin: int = 0
    length: int = 0
    steps_at: int = 0
    step: int = 0

    def is_away(self, time: int) -> bool:
        return self.begin <= time < self.begin + self.length

    def clock(self, time: int) -> int:
        """Return the database's time."""
        return (1_000 + time + (self.step if time >= self.steps_at else 0)) * UNIT


@dataclass
class Worker:
    """A worker that renews at `phase` of every period, and, if cut off, `late` units after that."""

    name: str
    phase: int
    late: int = 0
    starts: int = 0
    dies: int = 10_000
    next_renewal: int = field(init=False)

    def __post_init__(self) -> None:
        self.next_renewal = self.starts

    def lives(self, time: int) -> bool:
        return self.starts <= time < self.dies


class World:
    """Workers, their lease rows, and who lost one though it was alive."""

    def __init__(self, workers: list[Worker], fault: Fault) -> None:
        self.workers = workers
        self.fault = fault
        self.leases: dict[str, Lease] = {}
        self.ended: dict[str, int] = {}

    def run(self, until: int) -> World:
        for time in range(until):
            self.tick(time)
        return self

    def tick(self, time: int) -> None:
        if self.fault.is_away(time):
            return
        now = self.fault.clock(time)
        back = self.fault.begin + self.fault.length
        for worker in self.workers:
            is_late = self.fault.length and back <= time < back + worker.late
            if worker.lives(time) and worker.name not in self.ended and not is_late:
                self.take_over(worker, time, now)  # whichever of them comes first
                self.renew(worker, time, now)
                self.take_over(worker, time, now)

    def renew(self, worker: Worker, time: int, now: int) -> None:
        if time < worker.next_renewal:
            return
        lease = self.leases.get(worker.name)
        self.leases[worker.name] = taken(now=now) if lease is None else renewed(lease, now=now)
        worker.next_renewal = time + (EVERY if lease is not None else worker.phase or EVERY)

    def take_over(self, worker: Worker, time: int, now: int) -> None:
        for name, lease in list(self.leases.items()):
            if name == worker.name:
                continue
            self.leases[name] = clipped(lease, now=now)
            if expirable(self.leases[name], self.leases.get(worker.name), now=now):
                del self.leases[name]
                self.ended[name] = time


def two(phase: int, *, late: int = 0) -> list[Worker]:
    return [Worker("one", 0), Worker("two", phase, late=late)]


def test_an_outage_expires_no_lease() -> None:
    faults = product(range(FAULT_FROM, FAULT_FROM + EVERY), range(5 * LENGTH), range(RETRY + 1))
    for (begin, length, late), phase in product(faults, range(EVERY)):
        for workers in (two(phase, late=late), two(phase, late=late)[::-1]):
            world = World(workers, Fault(begin, length)).run(begin + length + 3 * LENGTH)
            assert world.ended == {}, f"{world.fault}, {workers}"


def test_a_clock_step_expires_no_lease() -> None:
    for step, at, phase in product(STEPS, range(FAULT_FROM, FAULT_FROM + EVERY), range(EVERY)):
        world = World(two(phase), Fault(steps_at=at, step=step)).run(at + 4 * LENGTH)
        assert world.ended == {}, f"{world.fault}, {phase}"


def test_a_clock_step_during_an_outage_expires_no_lease() -> None:
    for step, length, phase, late in product(
        STEPS, range(1, 3 * LENGTH), range(EVERY), range(RETRY + 1)
    ):
        fault = Fault(FAULT_FROM, length, FAULT_FROM, step)
        world = World(two(phase, late=late), fault).run(FAULT_FROM + length + 4 * LENGTH)
        assert world.ended == {}, f"{world.fault}, {phase}, {late}"


def test_a_worker_that_starts_after_an_outage_waits_for_those_that_were_there() -> None:
    for begin, length, phase in product(
        range(FAULT_FROM, FAULT_FROM + EVERY), range(1, 3 * LENGTH), range(EVERY)
    ):
        fresh = Worker("fresh", 0, starts=begin + length)
        workers = [fresh, *two(phase, late=RETRY)]
        world = World(workers, Fault(begin, length)).run(begin + length + 4 * LENGTH)
        assert world.ended == {}, f"{world.fault}, {phase}"


@pytest.mark.parametrize("phase", range(EVERY))
@pytest.mark.parametrize("dies", range(FAULT_FROM, FAULT_FROM + EVERY))
def test_a_worker_that_died_is_taken_over_after_one_lease(phase: int, dies: int) -> None:
    [survivor, victim] = two(phase)
    world = World([survivor, replace(victim, dies=dies)], Fault()).run(dies + 3 * LENGTH)
    assert world.ended["two"] <= dies + LENGTH + 1


def test_a_worker_that_starts_after_the_only_one_died_takes_over_after_one_lease() -> None:
    for dies, pause in product(range(FAULT_FROM, FAULT_FROM + EVERY), range(2 * LENGTH)):
        heir = Worker("heir", 0, starts=dies + pause)
        world = World([Worker("one", 0, dies=dies), heir], Fault()).run(dies + pause + 3 * LENGTH)
        assert world.ended["one"] <= heir.starts + LENGTH + 1


def test_a_worker_that_died_in_an_outage_or_as_the_clock_stepped_is_taken_over_soon() -> None:
    for step, length, phase in product(STEPS, range(3 * LENGTH), range(EVERY)):
        [survivor, victim] = two(phase)
        fault = Fault(FAULT_FROM, length, FAULT_FROM, step)
        world = World([survivor, replace(victim, dies=FAULT_FROM)], fault)
        back = FAULT_FROM + length
        world.run(back + 3 * LENGTH)
        assert world.ended["two"] <= back + LENGTH + EVERY + MAX_AHEAD // UNIT + 1, f"{fault}"
