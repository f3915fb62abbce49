"""The drawings of the machines are what the machines do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def checked(*options: str) -> subprocess.CompletedProcess[str]:
    tool = ROOT / "tools" / "draw_machines.py"
    return subprocess.run(
        [sys.executable, str(tool), "--check", *options],
        capture_output=True,
        check=False,
        text=True,
    )


def test_the_page_of_machines_is_not_stale() -> None:
    assert checked().returncode == 0, "run `make docs`"


def test_a_stale_page_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "machines.md"
    assert checked("--page", str(page)).returncode == 1
    drawn = (ROOT / "docs" / "internals" / "machines.md").read_text(encoding="utf-8")
    page.write_text(drawn.replace("ready --> running", "ready --> paused"), encoding="utf-8")

    stale = checked("--page", str(page))

    assert stale.returncode == 1
    assert "machines.md is stale" in stale.stderr
