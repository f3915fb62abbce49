"""Tests a worker in any language: plays the server, and reports which rules the worker breaks.

`docs/protocol.md` has the rules, and describes the program that the worker must run.

    python -m onward.testing.protocol -- node worker.js
"""

from onward.testing.protocol.rules import RULES, Broken
from onward.testing.protocol.scenarios import SCENARIOS
from onward.testing.protocol.tester import play

__all__ = ["RULES", "SCENARIOS", "Broken", "play"]
