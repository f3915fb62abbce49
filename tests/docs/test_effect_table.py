"""The table of effect outcomes matches what Onward does."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

from tests.docs.pages import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PAGE = ROOT / "docs" / "guides" / "effects-outcomes.md"


def checked(*options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(ROOT / "tools" / "effect_outcomes.py"), "--check", *options],
        capture_output=True,
        check=False,
        text=True,
        timeout=120,
    )


def test_the_table_of_outcomes_matches_every_case() -> None:
    told = checked()
    assert told.returncode == 0, told.stderr or "run `make docs`"


def test_a_different_outcome_makes_the_page_stale(tmp_path: Path) -> None:
    page = tmp_path / "effects-outcomes.md"
    table = PAGE.read_text(encoding="utf-8")
    page.write_text(table.replace("`skipped` | `EffectSkipped` | 1", "`skipped` | waits | 1", 1))

    told = checked("--page", str(page))

    assert told.returncode == 1
    assert "effects-outcomes.md is stale" in told.stderr


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
