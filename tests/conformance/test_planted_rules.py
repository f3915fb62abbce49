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

FACT = "test_a_fact_does_to_a_delivery_what_the_core_says[{}]"
END = "test_what_follows_the_end_of_a_run_is_what_the_core_says[{}]"
PIPELINES = {
    "an effect that was applied is not seen": (
        END.format("operator, by force, applied"),
        "effect_of_handler_run",
        "e.state <> 'withdrawn'",
        "e.state NOT IN ('withdrawn', 'applied')",
    ),
    "an effect of a run that is retried is not seen": (
        "test_a_retry_that_fails_in_its_turn_keeps_the_events",
        "effect_of_handler_run",
        "r.link = 'retry_of'",
        "r.link = 'continued_from'",
    ),
    "events stay with a run that is followed": (
        "test_a_cancelled_run_past_its_effect_still_owes_next",
        "hand_over_deliveries",
        "SET run = :new_uid",
        "SET run = CAST(coalesce(run, :new_uid) AS TEXT)",
    ),
    "a release counts no attempt": (
        FACT.format("reserved 0, released, holder"),
        "release_deliveries",
        "THEN 0 ELSE 1 END",
        "THEN 0 ELSE 0 END",
    ),
    "a poisoned event is never set aside": (
        FACT.format("reserved 4, released at fault, holder"),
        "release_deliveries",
        ">= CAST(:max AS BIGINT)",
        "> CAST(:max AS BIGINT)",
    ),
    "an event that another run has reserved is consumed": (
        FACT.format("reserved 0, consumed, other"),
        "end_deliveries",
        "AND run = :run",
        "AND (run = :run OR run <> :run)",
    ),
    "a released event is no work": (
        END.format("operator, by force, no effect"),
        "raise_handler",
        "published = published + CAST(:count AS BIGINT)",
        "published = published + 0 * CAST(:count AS BIGINT)",
    ),
    "a wake time takes the state away": (
        "test_a_wake_time_is_kept_apart_from_the_state",
        "note_preparation",
        "SET wake_at",
        "SET state_version = 0, wake_at",
    ),
    "an empty preparation has seen what came later": (
        "test_a_preparation_that_reserves_nothing_has_seen_what_it_had_read",
        "note_preparation",
        "THEN CAST(:seen AS BIGINT) ELSE seen END",
        "THEN published ELSE seen END",
    ),
    "runs of a serial pipeline have no lane": (
        "test_one_run_of_a_serial_pipeline_is_open_at_a_time",
        "launch_run",
        ":handler, :key, :lane,",
        ":handler, :key, CAST(:lane AS TEXT) || :uid,",
    ),
    "a blocked handler runs": (
        "test_a_blocked_handler_stops_its_lane_and_no_other",
        "handlers_with_work",
        "b.lane = h.lane AND b.blocked_by IS NOT NULL",
        "b.lane = h.lane AND b.blocked_by IS NOT NULL AND b.removed = 2",
    ),
    "a run that failed does not block": (
        "test_a_block_notes_the_code_and_stops_the_handler",
        "block_handler",
        "SET blocked_by = :run,",
        "SET blocked_by = nullif(:run, :run),",
    ),
    "other arguments are not stored": (
        "test_other_arguments_are_stored_after_a_definite_failure_alone[failed]",
        "{effects}",
        "'failed', 'withdrawn'",
        "'withdrawn'",
    ),
}
STATEMENT_OF_EFFECTS = {"sqlite in memory": "write_effect", "postgres": "commit_attached"}


@pytest.mark.parametrize("world", ["sqlite in memory", "postgres"], indirect=True)
@pytest.mark.parametrize("planted", PIPELINES)
def test_a_rule_of_pipelines_that_a_statement_breaks_is_seen(
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    world: World,
    planted: str,
) -> None:
    test, statement, rule, changed = PIPELINES[planted]
    kind = request.node.callspec.params["world"]
    statement = statement.format(effects=STATEMENT_OF_EFFECTS[kind])
    rewrite(monkeypatch, statement, rule, changed)

    with pytest.raises(AssertionError) as seen:
        live(world, SUITE[test])
    assert "any more" not in str(seen.value), "the rule is not in the statement"


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
