"""Deterministic simulation: real workers on a virtual clock, with seeded trouble, in one thread."""

from __future__ import annotations

from tests.simulation.simulator.trace import Event, Trace
from tests.simulation.simulator.world import Failed, Simulation

__all__ = ["Event", "Failed", "Simulation", "Trace"]
