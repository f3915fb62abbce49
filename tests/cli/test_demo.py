"""`onward demo` shows a crash, its recovery and an uncertain effect, and leaves nothing behind."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Ask


def test_the_tour_recovers_from_kill_9_and_settles_an_effect(process: Ask) -> None:
    before = set(Path(tempfile.gettempdir()).glob("onward-demo-*"))
    answer = process("demo")
    assert answer.status == 0, answer.err
    assert "async def order(cents: int) -> str:" in answer.out
    assert "* kill -9 " in answer.out
    assert "* reserve was executed once" in answer.out
    assert "* effect charge is indeterminate: ConnectionError: the bank hung up" in answer.out
    assert "* run order-7 has succeeded: 'paid, receipt ch_7'" in answer.out
    assert set(Path(tempfile.gettempdir()).glob("onward-demo-*")) <= before


def test_the_tour_keeps_its_files_on_request(process: Ask) -> None:
    answer = process("demo", "--keep", "--json")
    assert answer.status == 0, answer.err
    folder = answer.thing["folder"]
    listed = process("runs", "list", "--db", f"{folder}/shop.db", "--json").thing
    assert (listed["id"], listed["state"]) == ("order-7", "succeeded")
    shutil.rmtree(folder)
