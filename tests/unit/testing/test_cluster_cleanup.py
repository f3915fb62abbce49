"""Cleaning up after a test run, without harm to anybody else."""

from __future__ import annotations

import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from onward.testing import cluster_cleanup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

STUBBORN = """
import signal, sys
signal.signal(signal.SIGQUIT, signal.SIG_IGN)
print("ready", flush=True)
sys.stdin.read()
"""


@contextmanager
def a_stubborn_process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def note(folder: Path, text: str) -> None:
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "postmaster.pid").write_text(text)


def test_a_server_that_does_not_heed_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_cleanup, "_PATIENCE_SECONDS", 0.05)
    folder = tmp_path / "cluster"
    with a_stubborn_process("-D", f"{folder}/data") as process:
        note(folder, f"{process.pid}\n{folder}/data\n")

        cluster_cleanup.clean_up(folder)

        assert process.wait() == -9
    assert not folder.exists()


def test_a_process_that_got_the_number_of_a_dead_server_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with a_stubborn_process() as innocent:
        note(folder, f"{innocent.pid}\n{folder}/data\n")

        cluster_cleanup.clean_up(folder)

        assert innocent.poll() is None
    assert not folder.exists()


@pytest.mark.parametrize("text", ["", "not a number\n"])
def test_a_note_that_cannot_be_read_is_no_server(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "cluster"
    note(folder, text)

    cluster_cleanup.clean_up(folder)

    assert not folder.exists()


def test_a_folder_that_is_gone_is_fine(tmp_path: Path) -> None:
    cluster_cleanup.clean_up(tmp_path / "gone")
