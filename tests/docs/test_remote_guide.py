"""The project of the guide to remote workers works, and the files of the deployment guide fit."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.docs.pages import ROOT
from tests.docs.projects import write_project

if TYPE_CHECKING:
    from pathlib import Path

MAX_SECONDS = 90
VARIABLE = re.compile(r"\bONWARD_[A-Z_]+\b")


def start(stack: ExitStack, folder: Path, *words: str, **given: str) -> subprocess.Popen[str]:
    """Start a program of the project, which ends with the test."""
    process = subprocess.Popen(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])} | given,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    stack.enter_context(process)
    stack.callback(process.kill)
    return process


@pytest.mark.timeout(2 * MAX_SECONDS)
def test_the_project_of_the_guide_works_through_a_server(tmp_path: Path) -> None:
    files = write_project(ROOT / "docs" / "guides" / "remote-workers.md", tmp_path)
    assert files == ["shop/tasks.py", "shop/order.py"]
    with ExitStack() as stack:
        server = start(stack, tmp_path, "onward", "server", "--json", "--grpc", "127.0.0.1:0")
        assert server.stdout is not None
        url = f"onward://{json.loads(server.stdout.readline())['address']}"
        worker = start(stack, tmp_path, "onward", "worker", "shop.tasks", SHOP_SERVER=url)
        assert worker.stderr is not None
        line = worker.stderr.readline()
        assert "worker.ready" in line, line + worker.stderr.read()
        order = start(stack, tmp_path, "shop.order", SHOP_SERVER=url)
        said, errors = order.communicate(timeout=MAX_SECONDS)
    assert (said, order.returncode) == ("packed cup\n", 0), errors


def test_the_files_for_a_deployment_use_variables_that_exist() -> None:
    known = set(VARIABLE.findall((ROOT / "docs" / "guides" / "configuration.md").read_text()))
    usage = subprocess.run(
        [sys.executable, "-m", "onward", "server", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    options = re.findall(r"^ +--([a-z-]+)", usage, re.MULTILINE)
    known |= {f"ONWARD_SERVER_{option.replace('-', '_').upper()}" for option in options}
    files = [*(ROOT / "deploy").iterdir(), ROOT / "docs" / "guides" / "deployment.md"]
    used = {name for path in files for name in VARIABLE.findall(path.read_text())}
    assert used
    assert used <= known
