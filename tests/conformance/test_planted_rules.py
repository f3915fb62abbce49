"""Rules of runs that are changed in a statement alone: the suite sees that the core differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.conformance.suite import SUITE, live
from tests.simulation.zoo import rewrite

if TYPE_CHECKING:
    from tests.conformance.suite import World

CLAIM = "test_a_claim_takes_the_runs_that_the_machine_gives_away"
REPORT = "test_an_owner_moves_its_run_as_the_machine_says"
WAKE = "test_a_message_wakes_the_runs_that_the_machine_wakes[verdict]"
WAKE_BY_COMMIT = "test_a_message_of_another_run_wakes_the_same_runs[signal]"

PLANTED = {
    "sqlite in memory": [
        (CLAIM, "due_candidates", "due <= :now", "due <= :now + 3600000000"),
        (CLAIM, "claim_run", "+ (r.state = 'running')", ""),
        (REPORT, "move_run", "THEN r.crashes ELSE 0", "THEN r.crashes ELSE r.crashes"),
        (WAKE, "raise_inbox", "state = 'waiting'", "state = 'waiting' AND due IS NULL"),
    ],
    "postgres": [
        (CLAIM, "claim", "state = 'waiting' AND due <= :now AND", "state = 'waiting' AND"),
        (CLAIM, "claim", "crashes = r.crashes + (r.state = 'running')::int", "crashes = r.crashes"),
        (REPORT, "commit_runs", "THEN r.crashes ELSE 0", "THEN r.crashes ELSE r.crashes"),
        (WAKE, "send", "',' || l.reason || ','", "',' || l.state || ','"),
        (
            WAKE_BY_COMMIT,
            "commit_runs",
            "l.state = 'waiting'",
            "l.state = 'waiting' AND l.fence > 1",
        ),
    ],
}


@pytest.mark.parametrize(
    ("world", "planted"),
    [(world, planted) for world, all_planted in PLANTED.items() for planted in all_planted],
    indirect=["world"],
)
def test_a_rule_that_only_a_statement_has_is_seen(
    monkeypatch: pytest.MonkeyPatch, world: World, planted: tuple[str, str, str, str]
) -> None:
    test, statement, rule, changed = planted
    rewrite(monkeypatch, statement, rule, changed)

    with pytest.raises(AssertionError, match=r"== \{\}"):
        live(world, SUITE[test])
