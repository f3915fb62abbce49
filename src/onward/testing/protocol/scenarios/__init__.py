"""What the tester plays with a worker: runs of the test program, one behaviour each."""

from onward.testing.protocol.scenarios.connections import CONNECTIONS
from onward.testing.protocol.scenarios.replay import REPLAY
from onward.testing.protocol.scenarios.steps import STEPS
from onward.testing.protocol.scenarios.stops import STOPS
from onward.testing.protocol.scenarios.waits import WAITS

SCENARIOS = {**STEPS, **REPLAY, **WAITS, **STOPS, **CONNECTIONS}
"""The scenarios by name, in the order in which they are played."""

__all__ = ["SCENARIOS"]
