"""The Python worker keeps the rules that workers in other languages must keep."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from onward.testing.protocol import play

# Every scenario starts a worker; `python -m onward.testing.protocol` plays the others too.
SOME = [
    "a_takeover",
    "a_replay",
    "a_broken_stream",
    "a_message_while_it_parks",
    "a_lost_lease",
    "large_messages_in_parts",
]


def test_the_python_worker_keeps_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parent), *sys.path]))
    options = ["--queue", "protocol", "--drain", "1s", "--log-level", "error"]
    command = [sys.executable, "-m", "onward", "worker", *options, "protocol_worker"]
    assert asyncio.run(play(command, SOME, patience=30)) == []
