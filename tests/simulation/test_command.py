"""The command that runs worlds: what it prints, and its exit status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import onward.core.lease
from tests.simulation.__main__ import main

if TYPE_CHECKING:
    import pytest


def test_worlds_that_are_right_end_with_status_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seeds", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["worlds"], told["failed_seed"]) == (3, None)


def test_one_world_is_printed_event_by_event(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--seed", "1"]) == 0
    told = capsys.readouterr().out
    assert "commit" in told
    assert "hash: " in told


def test_the_first_world_that_fails_ends_the_swarm_and_says_how_to_see_it_again(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> bool:
        return False

    monkeypatch.setattr(onward.core.lease, "may_write", never)
    assert main(["--first", "5", "--seeds", "3", "--json"]) == 1
    captured = capsys.readouterr()
    assert json.loads(captured.out)["failed_seed"] == 5
    assert "python -m tests.simulation --seed 5" in captured.err
    assert main(["--seed", "5", "--json"]) == 1
