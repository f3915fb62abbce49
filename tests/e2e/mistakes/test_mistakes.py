"""Beginner's mistakes: each ends soon in a message that names what is wrong and what to do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.e2e.mistakes.in_bodies import BODIES
from tests.e2e.mistakes.in_calls import CALLS
from tests.e2e.mistakes.in_surroundings import SURROUNDINGS

if TYPE_CHECKING:
    from pathlib import Path

    from onward.testing.postgres import PostgresServer
    from tests.e2e.mistakes.mistake import Mistake

SECONDS = 10
"""How long a beginner waits before guessing."""
MISTAKES = [*BODIES, *CALLS, *SURROUNDINGS]


@pytest.fixture
def server(postgres_server: PostgresServer) -> dict[str, str]:
    """Addresses of a database that is not there, and of a server with a wrong password."""
    user, _, place = postgres_server.url("postgres", tcp=True).rpartition("@")
    return {
        "NO_DATABASE": postgres_server.url("nowhere"),
        "WRONG_PASSWORD": f"{user.rpartition(':')[0]}:wrong@{place}",
    }


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_a_mistake_is_named_with_the_next_step(
    mistake: Mistake, server: dict[str, str], tmp_path: Path
) -> None:
    script = tmp_path / "shop.py"
    script.write_text(mistake.script)
    status, output = _run(script, mistake, {**os.environ, **server})
    assert status == mistake.status, output
    assert _missing(mistake, output) == [], output


def _run(script: Path, mistake: Mistake, env: dict[str, str]) -> tuple[int | None, str]:
    """Run a script until it ends or, if it would not end by itself, until it has said enough."""
    with subprocess.Popen(
        [sys.executable, script.name],
        cwd=script.parent,
        env=env,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # A test run in the background ignores SIGINT, and its children inherit that.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stdout is not None
        end = threading.Timer(SECONDS, process.kill)
        end.start()
        output = ""
        for line in process.stdout:
            output += line
            if mistake.status is None and not _missing(mistake, output):
                process.kill()
        end.cancel()
    return (None if mistake.status is None else process.returncode), output


def _missing(mistake: Mistake, output: str) -> list[str]:
    """Return what the output should say and does not."""
    missing = [said for said in mistake.says if said not in output]
    line = mistake.line
    named = (
        f"shop.py:{line} ",
        f"shop.py:{line}:",
        f'shop.py", line {line},',
        f"shop.py, line {line}",
    )
    if line is not None and not any(name in output for name in named):
        missing.append(f"line {line}")
    return missing
