"""`onward workers` lists workers and drains them from another process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.worker_process import MODULE, WorkerProcess

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Ask


def test_a_drained_worker_exits_with_0(tmp_path: Path, ask: Ask, url: str) -> None:
    (tmp_path / "orders.py").write_text(MODULE)
    with WorkerProcess(tmp_path, "orders", ORDERS_STORE=url) as worker:
        worker.until("worker.ready")
        listed = ask("workers", "list", "--db", url, "--json").thing
        assert (listed["state"], listed["pid"]) == ("alive", worker.pid)
        assert listed["workflows"] == ["order"]
        answer = ask("workers", "drain", listed["id"][-12:], "--db", url)
        assert (answer.status, answer.out) == (0, f"worker {listed['id']} is being drained\n")
        assert "signal=drain" in worker.until("worker.stopping")
        assert worker.status() == 0
    again = ask("workers", "drain", listed["id"], "--db", url, "--json")
    assert (again.status, again.thing) == (1, {"id": listed["id"], "accepted": False})
    assert ask("workers", "list", "--db", url, "--all", "--json").thing["state"] == "left"


def test_without_workers_the_next_command_is_named(shop: str, ask: Ask) -> None:
    assert ask("workers", "list").out == "No workers. Start one: onward worker MODULE\n"
    assert "left" in ask("workers", "list", "--all").out


@pytest.mark.parametrize("words", [("nobody",), ("nobody", "--json")])
def test_an_unknown_worker_is_no_worker(shop: str, ask: Ask, words: tuple[str, ...]) -> None:
    answer = ask("workers", "drain", *words)
    assert answer.status == 1
    assert "nobody" in answer.err
