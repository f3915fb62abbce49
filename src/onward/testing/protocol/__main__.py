"""The command `python -m onward.testing.protocol`."""

from __future__ import annotations

import argparse
import asyncio
import sys

from onward.testing.protocol import SCENARIOS, Broken, play


def main() -> int:
    """Play the scenarios, print the outcome of each, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m onward.testing.protocol",
        description="Test a worker against a simulated server, and report broken rules.",
        epilog="Example: python -m onward.testing.protocol -- node worker.js",
    )
    parser.add_argument(
        "--only", action="append", choices=sorted(SCENARIOS), help="run only this scenario"
    )
    parser.add_argument("--at-once", type=int, default=2, help="how many scenarios run at a time")
    parser.add_argument("command", nargs="+", help="the command that starts the worker")
    given = parser.parse_args()
    broken = asyncio.run(
        play(given.command, given.only or (), at_once=given.at_once, report=_report)
    )
    played = len(given.only or SCENARIOS)
    sys.stdout.write(f"{played - len(broken)} of {played} scenarios passed.\n")
    return 1 if broken else 0


def _report(name: str, broken: Broken | None) -> None:
    sys.stdout.write(f"ok      {name}\n" if broken is None else f"BROKEN  {broken}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
