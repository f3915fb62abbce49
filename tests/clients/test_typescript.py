"""The TypeScript client: its own tests, and the tester that plays the server against it."""

import asyncio
import re
import subprocess
from pathlib import Path

import pytest

from onward.testing.protocol import RULES, SCENARIOS, play
from tests.clients.conftest import CLIENT, ROOT
from tests.clients.faults import FAULTS, Fault

SLOW = {"time_passes"}
"""Scenarios that take twenty seconds; `python -m onward.testing.protocol` plays them too."""


def worker(client: Path) -> list[str]:
    return ["node", str(client / "programs" / "protocol_worker.js")]


def test_the_client_passes_its_own_tests(client: Path | None) -> None:
    if client is not None:
        command = ["npm", "test"]
        done = subprocess.run(command, cwd=client, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:]


def test_the_client_keeps_every_rule(client: Path | None) -> None:
    if client is not None:
        names = [name for name in SCENARIOS if name not in SLOW]
        assert asyncio.run(play(worker(client), names, patience=20)) == []


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_the_tester_finds_a_worker_that(fault: Fault, client: Path | None) -> None:
    if client is not None:
        source = client / "src" / fault.file
        text = source.read_text()
        assert fault.old in text
        source.write_text(text.replace(fault.old, fault.new, 1))
        [broken] = asyncio.run(play(worker(client), [fault.scenario], patience=3))
        assert broken.rule in fault.rules.split(), str(broken)


def test_each_planted_fault_names_rules_and_a_scenario() -> None:
    named = {rule for fault in FAULTS for rule in fault.rules.split()}
    assert named <= RULES.keys()
    assert {fault.scenario for fault in FAULTS} <= SCENARIOS.keys()


def test_the_client_has_the_messages_of_the_server() -> None:
    path = Path("onward") / "v1" / "worker.proto"
    assert (CLIENT / "proto" / path).read_text() == (
        ROOT / "src" / "onward" / "wire" / "proto" / path
    ).read_text()


def test_the_lock_file_names_no_registry() -> None:
    lock = (CLIENT / "package-lock.json").read_text()
    assert '"resolved"' not in lock
    assert not re.search(r"registry", lock)


def test_the_types_name_everything_that_the_client_exports() -> None:
    exported = set(re.findall(r"\b[A-Za-z]+\b", _braces((CLIENT / "src" / "index.js").read_text())))
    declared = set(
        re.findall(r"^export (?:class|function) (\w+)", (CLIENT / "index.d.ts").read_text(), re.M)
    )
    assert exported == declared


def _braces(text: str) -> str:
    return " ".join(re.findall(r"\{([^}]*)\}", text))
