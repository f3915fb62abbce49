"""Deterministic simulation: real workers on a virtual clock, with seeded trouble, in one thread."""

from __future__ import annotations

from onward.testing.simulation.trace import Event, Trace
from onward.testing.simulation.world import Failed, Simulation

__all__ = ["Event", "Failed", "Simulation", "Trace"]
