"""The code on the pages runs as printed, and its output matches the page."""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Fence, fences, shown

# Pages that teach. Pages on the inside may show fragments.
TEACHING = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
]


def samples() -> list[tuple[str, Fence, str | None]]:
    """Return (place, code, output) for each Python block; a text block after it is its output."""
    found = []
    for page in TEACHING:
        blocks: list[Fence | None] = [*fences(page), None]
        for block, after in pairwise(blocks):
            if block and block.language == "python":
                printed = after.text if after and after.language == "text" else None
                found.append((f"{shown(page)}:{block.line}", block, printed))
    return found


@pytest.mark.parametrize(
    ("code", "printed"), [pytest.param(*rest, id=place) for place, *rest in samples()]
)
def test_a_sample_runs_and_prints_what_the_page_says(
    code: Fence, printed: str | None, tmp_path: Path
) -> None:
    script = tmp_path / "sample.py"
    script.write_text(code.text)
    answer = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert printed is None or answer.stdout == printed


def test_the_readme_has_a_sample() -> None:
    assert [place for place, _, _ in samples() if place.startswith("README.md")] != []
