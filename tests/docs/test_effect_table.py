"""The table of effect outcomes matches what Onward does."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "guides" / "effects-outcomes.md"


def test_the_table_of_outcomes_matches_every_case(tmp_path: Path) -> None:
    page = tmp_path / PAGE.name
    tool = str(ROOT / "tools" / "effect_outcomes.py")
    command = [sys.executable, tool, "--page", str(page)]
    subprocess.run(command, capture_output=True, timeout=240, check=True)

    assert page.read_text("utf-8") == PAGE.read_text("utf-8"), "run `make docs`"


def rows(columns: int) -> list[list[str]]:
    """Return the rows of the tables with this number of columns."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    split = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    return [row for row in split if len(row) == columns]


def test_without_proof_nothing_is_sent_twice_in_the_table() -> None:
    twice = [row for row in rows(6) if row[5] in ("2", "3")]
    proofs = ("raises `NotApplied`", "`NotApplied`", "`not_applied`")
    assert len(twice) > 10
    for handler, reconciler, operator, *_ in twice:
        assert any(handler.startswith(proof) for proof in proofs[:1]) or (
            reconciler in proofs or operator in proofs
        )


def test_with_an_idempotency_window_a_body_gets_not_applied_only_after_proof() -> None:
    told = [row for row in rows(5) if row[3] == "`NotApplied`"]
    assert len(told) == 3
    for handler, operator, *_ in told:
        assert handler == "raises `NotApplied` each time" or operator == "`not_applied`"
