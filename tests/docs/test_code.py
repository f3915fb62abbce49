"""The code on the pages runs as printed, and its output matches the page.

Files of a project, such as those of `test_web_guides.py`, are run by tests of their own.
"""

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, Fence, fences, pages, shown
from tests.docs.projects import file_of
from tests.kit.servers import server_thread

# Pages with projects, whose files a test of their own runs.
PROJECTS = {
    f"docs/guides/{name}.md"
    for name in (
        *("django", "fastapi", "production", "quick-start"),
        *("remote-workers", "schedules", "testing"),
    )
}

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
            if block and block.language == "python" and file_of(block) is None:
                printed = after.text if after and after.language == "text" else None
                found.append((f"{shown(page)}:{block.line}", block, printed))
    return found


@pytest.mark.parametrize(
    ("code", "printed"), [pytest.param(*rest, id=place) for place, *rest in samples()]
)
def test_a_sample_runs_and_prints_what_the_page_says(
    code: Fence, printed: str | None, tmp_path: Path
) -> None:
    answer = run_sample(code, tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert printed is None or answer.stdout == printed


def run_sample(code: Fence, folder: Path) -> subprocess.CompletedProcess[str]:
    script = folder / "sample.py"
    script.write_text(code.text)
    return subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_sample_of_the_readme_runs_twice(tmp_path: Path) -> None:
    [(_, code, printed)] = [each for each in samples() if each[0].startswith("README.md")]
    for _ in range(2):
        answer = run_sample(code, tmp_path)
        assert (answer.returncode, answer.stdout) == (0, printed), answer.stderr


def test_the_sample_of_the_readme_prints_the_same_through_a_server(tmp_path: Path) -> None:
    [(_, code, printed)] = [each for each in samples() if each[0].startswith("README.md")]
    with server_thread() as servers, servers.serve(str(tmp_path / "served.db")) as url:
        remote = code._replace(text=code.text.replace("onward.db", url))
        assert url in remote.text
        answer = run_sample(remote, tmp_path)
    assert (answer.returncode, answer.stdout) == (0, printed), answer.stderr


def test_every_page_with_a_project_is_run_by_a_test() -> None:
    assert {shown(page) for page in pages() if any(map(file_of, fences(page)))} == PROJECTS
