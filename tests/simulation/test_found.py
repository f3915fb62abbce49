"""What simulation has found in the engine, each as the smallest case that shows it."""

from __future__ import annotations

import asyncio
from contextvars import copy_context

import pytest

from onward.runtime.body.runloop import RunLoop
from tests.simulation.simulator import Simulation
from tests.simulation.simulator.families import clock_watcher
from tests.simulation.simulator.line import Weather
from tests.simulation.simulator.plan import SEATS, Crash, Plan
from tests.simulation.simulator.sample_workflows import branches, patience, race

CALM = Weather(delay=0.0, hints_lost=0.0, answers_lost=0.0, clears=0.0)


@pytest.mark.parametrize("seed", range(3))
def test_a_worker_without_a_free_slot_does_not_ask_without_pause_for_what_is_due(seed: int) -> None:
    workflows = (branches.name, branches.name, patience.name, patience.name)
    crowded = Plan(workflows, 1, 1000, CALM)
    simulation = Simulation(seed, crowded)
    simulation.run()
    assert simulation.trace.events[-1].detail[0] < 10_000


def test_branches_are_cancelled_in_the_order_in_which_they_were_made() -> None:
    cancelled: list[int] = []

    async def branch(number: int) -> None:
        try:
            await loop.create_future()
        finally:
            cancelled.append(number)

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(50):
                group.create_task(branch(number))

    loop = RunLoop(lambda parent, name: f"{parent}/{name}", lambda delay, handle: lambda: None)
    main = loop.start(body(), copy_context())
    loop.drain()
    loop.cancel_all()
    loop.drain()
    assert main.cancelled()
    assert cancelled == list(range(50))


def test_a_cancelled_group_lets_its_branches_tidy_up() -> None:
    tidied: list[int] = []

    async def branch(number: int) -> None:
        try:
            await loop.create_future()
        except asyncio.CancelledError:
            await asyncio.sleep(0)  # a second cancel would end it here
            tidied.append(number)
            raise

    async def body() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(branch(number))

    loop = RunLoop(lambda parent, name: f"{parent}/{name}", lambda delay, handle: lambda: None)
    main = loop.start(body(), copy_context())
    loop.drain()
    loop.cancel_all()
    loop.drain()
    assert main.cancelled()
    assert tidied == list(range(5))


@pytest.mark.parametrize("seed", range(8))
def test_a_paused_run_does_not_look_without_pause_at_a_wait_that_is_due(seed: int) -> None:
    Simulation(seed, Plan((race.name,) * 3, 100, 0, CALM, pauses=1.0)).run()


@pytest.mark.parametrize("seed", range(20, 26))
def test_a_body_gets_the_same_time_again_although_an_answer_was_lost(seed: int) -> None:
    lossy = Weather(delay=0.001, hints_lost=0.0, answers_lost=0.3, clears=60.0)
    crashes = tuple(Crash(seat, 150 + 5 * seed, True, 1.0) for seat in range(SEATS))
    Simulation(seed, Plan((clock_watcher.name,) * 3, 100, 0, lossy, crashes)).run()


@pytest.mark.parametrize("seed", range(8))
def test_a_signal_is_not_lost_with_a_wait_that_is_cancelled_as_it_arrives(seed: int) -> None:
    slow = Weather(delay=0.5, hints_lost=1.0, answers_lost=0.0, clears=0.0)
    Simulation(seed, Plan((race.name,) * 3, 100, 0, slow)).run()


def test_a_run_with_a_wait_that_is_over_does_not_spin_while_its_cancel_is_written() -> None:
    Simulation(181).run()


def test_a_pause_that_comes_while_its_run_is_being_claimed_is_heard_at_once() -> None:
    Simulation(100142).run()


@pytest.mark.parametrize("seed", [4, 19])
def test_a_worker_that_always_finds_runs_hears_of_a_pause_although_hints_are_lost(
    seed: int,
) -> None:
    slow = Weather(delay=0.5, hints_lost=1.0, answers_lost=0.0, clears=60.0)
    workflows = ("simulated retried sampler",) * 4
    Simulation(seed, Plan(workflows, 100, 1, slow, pauses=1.0, is_server=True)).run()


def test_a_schedule_is_not_parked_because_the_database_is_away() -> None:
    Simulation(631095).run()
