"""Query plans on SQLite: no statement of the hot path gets slower as finished runs pile up."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from onward.store.sqlite.connection import DIALECT, connect, migrate
from onward.store.sqlite.row_statements import for_rows
from onward.store.statements import Statement

if TYPE_CHECKING:
    import sqlite3

# What operators ask for now and then may look at everything there is.
FOR_PEOPLE = {"hold_begun", "timers_set_after", "list_inputs"}
STATEMENTS = {
    name: statement for name, statement in DIALECT.statements().items() if name not in FOR_PEOPLE
}
STATEMENTS |= {
    f"{name} of many": Statement(name, for_rows(one, 2), (*one.parameters, *one.row))
    for name, one in STATEMENTS.items()
    if one.row
}

# These read the last rows of a table, in the order of its key, and stop at their limit.
LAST_ROWS = {
    "check_orphan_data", "check_orphan_record", "check_orphan_message", "check_orphan_effect",
    "check_delivery", "check_delivery_holder", "check_delivery_work", "check_input",
}  # fmt: skip

# These tables keep what is over; the rest only hold what is alive.
GROWING = {
    "onward_run", "onward_run_data", "onward_record", "onward_inbox", "onward_effect",
    "onward_event", "onward_delivery", "onward_tombstone", "onward_input", "onward_cause",
}  # fmt: skip
# A whole pass over one of these indexes meets open runs alone, or dead letters.
OPEN_ONLY = {
    "onward_run_waiting", "onward_run_running", "onward_run_suspect", "onward_run_ready",
    "onward_run_flow", "onward_run_holding", "onward_run_needs", "onward_tombstone_marked",
    "onward_run_paused", "onward_run_dead", "onward_run_dead_group", "onward_input_open",
}  # fmt: skip

CHOSEN = {
    "ready_candidates": "onward_run USING INDEX onward_run_ready (namespace=? AND queue=?)",
    "due_candidates": "onward_run USING INDEX onward_run_waiting (namespace=? AND due<?)",
    "orphan_candidates": "r USING INDEX onward_run_running (namespace=?)",
    "suspect_candidates": "r USING INDEX onward_run_suspect (namespace=?)",
    "runs_of_worker": (
        "onward_run USING INDEX onward_run_running (namespace=? AND worker=? AND state=?)"
    ),
    "next_due": "onward_run USING COVERING INDEX onward_run_waiting (namespace=? AND due>?)",
    "claim_run of many": "r USING PRIMARY KEY (namespace=? AND uid=?)",
    "claimed_runs": "r USING PRIMARY KEY (namespace=? AND uid=?)",
    "run_bytes": "onward_run_data USING PRIMARY KEY (namespace=? AND uid=?)",
    "runs_seen": "r USING PRIMARY KEY (namespace=? AND uid=?)",
    "move_run of many": "r USING PRIMARY KEY (namespace=? AND uid=?)",
    "unexpected_runs": "r USING PRIMARY KEY (namespace=? AND uid=?) LEFT-JOIN",
    "raise_inbox": "r USING PRIMARY KEY (namespace=? AND uid=?)",
    "overdue_runs": "r USING INDEX onward_run_deadline (namespace=? AND deadline>? AND deadline<?)",
    "bound_children": "onward_run USING INDEX onward_run_parent (namespace=? AND parent=?)",
    "diverged_runs": "onward_run USING INDEX onward_run_paused (namespace=? AND reason=?)",
    "list_dead": "onward_run USING INDEX onward_run_dead (namespace=? AND uid<?)",
    "count_dead": "onward_run USING INDEX onward_run_dead (namespace=? AND uid<?)",
    "next_dead_group": "onward_run USING INDEX onward_run_dead_group (namespace=? AND name>?)",
    "next_needs": "onward_run USING COVERING INDEX onward_run_needs (namespace=? AND queue>?)",
    "ready_in_need": (
        "onward_run USING INDEX onward_run_needs"
        " (namespace=? AND queue=? AND name=? AND tags=? AND <expr>=?)"
    ),
    "queue_depths": "onward_run USING COVERING INDEX onward_run_needs (namespace=?)",
    "open_counts": "onward_run USING COVERING INDEX onward_run_waiting (namespace=?)",
    "list_any": "onward_run USING PRIMARY KEY (namespace=? AND uid>? AND uid<?)",
    "list_top": (
        "onward_run USING INDEX onward_run_top (namespace=? AND state=? AND uid>? AND uid<?)"
    ),
    "list_child": (
        "onward_run USING INDEX onward_run_child"
        " (namespace=? AND kind=? AND state=? AND uid>? AND uid<?)"
    ),
    "list_queue": (
        "onward_run USING INDEX onward_run_queue"
        " (namespace=? AND queue=? AND state=? AND uid>? AND uid<?)"
    ),
    "list_named": (
        "onward_run USING INDEX onward_run_name"
        " (namespace=? AND name=? AND state=? AND uid>? AND uid<?)"
    ),
    "list_tagged": (
        "onward_run USING INDEX onward_run_tags"
        " (namespace=? AND tags=? AND state=? AND uid>? AND uid<?)"
    ),
    "runs_beginning": "onward_run USING INDEX onward_run_newest (namespace=? AND id>? AND id<?)",
    "list_effects": "e USING INDEX onward_effect_run (namespace=? AND (run,key)<(?,?))",
    "dead_times": (
        "onward_run USING INDEX onward_run_dead_group"
        " (namespace=? AND name=? AND error_type=? AND failed_step=? AND finished_at>?)"
    ),
    "keep_tombstones": "onward_tombstone USING PRIMARY KEY (namespace=? AND uid=?)",
    "drop_tombstones": "onward_tombstone USING PRIMARY KEY (namespace=? AND uid=?)",
    "drop_expired": "onward_tombstone USING PRIMARY KEY (namespace=? AND uid=?)",
    "cached_result": "onward_cache USING PRIMARY KEY (namespace=? AND key=?)",
    "run_end": "f USING INDEX onward_run_follows (namespace=? AND follows=?)",
    "runs_of_lane": (
        "onward_run USING INDEX onward_run_flow"
        " (namespace=? AND queue=? AND priority=? AND flow_key=? AND name=? AND <expr><?)"
    ),
    "lanes_of_level": (
        "n USING INDEX onward_run_flow"
        " (namespace=? AND queue=? AND priority=? AND flow_key=? AND name>?)"
    ),
    "next_keys": (
        "onward_run USING COVERING INDEX onward_run_flow"
        " (namespace=? AND queue=? AND priority=? AND flow_key>?)"
    ),
    "open_lanes": (
        "r USING COVERING INDEX onward_run_flow"
        " (namespace=? AND queue=? AND priority=? AND flow_key>? AND flow_key<?)"
    ),
    "keys_to_claim": (
        "r USING COVERING INDEX onward_run_flow_running"
        " (namespace=? AND queue=? AND flow_key=? AND state=?)"
    ),
    "count_running": "onward_run USING COVERING INDEX onward_run_running (namespace=?)",
    "count_holding": "onward_run USING COVERING INDEX onward_run_holding (namespace=?)",
    "make_due_ready": "onward_run USING INDEX onward_run_flow_due (namespace=? AND due<?)",
    "started_run": "onward_run USING INDEX onward_run_newest (namespace=? AND id=?)",
    "all_notes": "h USING INDEX sqlite_autoindex_onward_record_1 (namespace=? AND run=?)",
    "list_family": "r USING COVERING INDEX onward_run_parent (namespace=? AND parent=?)",
    "history": "h USING INDEX sqlite_autoindex_onward_record_1 (namespace=? AND run=?)",
    "look": "h USING PRIMARY KEY (namespace=? AND run=? AND seq>?)",
    "run_ends": "r USING PRIMARY KEY (namespace=? AND uid=?)",
    "handlers_with_work": (
        "h USING INDEX onward_handler_work (namespace=? AND (handler,key)>(?,?))"
    ),
    "woken_handlers": "h USING INDEX onward_handler_wake (namespace=? AND wake_at>? AND wake_at<?)",
    "lock_deliveries": "d USING PRIMARY KEY (namespace=? AND handler=? AND event=?)",
    "end_deliveries": (
        "onward_delivery USING INDEX onward_delivery_reserved (namespace=? AND run=?)"
    ),
    "release_deliveries": (
        "onward_delivery USING INDEX onward_delivery_reserved (namespace=? AND run=?)"
    ),
    "peek_events": (
        "onward_delivery USING INDEX onward_delivery_pending"
        " (namespace=? AND handler=? AND topic=? AND key=?)"
    ),
}

CHOSEN |= {
    "published_before": (
        "e USING INDEX onward_event_message (namespace=? AND topic=? AND message=?)"
    ),
    "lock_deliveries_of": "d USING INDEX onward_delivery_event (namespace=? AND event=?)",
    "pending_counts": (
        "onward_delivery USING INDEX onward_delivery_pending"
        " (namespace=? AND handler=? AND topic=?)"
    ),
    "reserved_counts": (
        "onward_delivery USING INDEX onward_delivery_reserved (namespace=? AND run>?)"
    ),
    "pending_inputs": "onward_input USING INDEX onward_input_open (namespace=?)",
    "caused_by_input": (
        "onward_cause USING COVERING INDEX onward_cause_input"
        " (namespace=? AND input=? AND kind=? AND target>?)"
    ),
    "inputs_by_external": (
        "i USING COVERING INDEX onward_input_external"
        " (pipeline=? AND namespace=? AND source=? AND type=? AND external=?)"
    ),
    "list_inputs_of_pipeline": (
        "onward_input USING INDEX onward_input_newest (pipeline=? AND namespace=?)"
    ),
}

STEP = re.compile(r"(SCAN|SEARCH) (\w+)(?: USING (?:COVERING )?(INDEX \w+|PRIMARY KEY))?(.*)")


@pytest.fixture(scope="module")
def connection() -> sqlite3.Connection:
    made = connect(None)
    migrate(made, ":memory:")
    return made


def plan(connection: sqlite3.Connection, name: str) -> list[str]:
    statement = STATEMENTS[name]
    values = [None] * len(statement.parameters)
    rows = connection.execute(f"EXPLAIN QUERY PLAN {statement.sql}", values)
    return [row[3] for row in rows]


def tables_of(sql: str) -> dict[str, str]:
    """Return the tables that a statement uses, by the names that it gives them."""
    found = re.findall(r"(?:FROM|JOIN|UPDATE|INTO) (onward_\w+)(?: (?:AS )?([a-z])\b)?", sql)
    return {alias or table: table for table, alias in found}


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_walks_through_what_is_over(connection: sqlite3.Connection, name: str) -> None:
    tables = tables_of(STATEMENTS[name].sql)
    for step in plan(connection, name):
        match = STEP.match(step)
        if match is None or tables.get(match[2]) not in GROWING:
            continue
        index = (match[3] or "").removeprefix("INDEX ")
        assert match[1] == "SEARCH", step
        assert index in OPEN_ONLY or "AND" in match[4] or name in LAST_ROWS, step


@pytest.mark.parametrize("name", sorted(LAST_ROWS))
def test_a_check_of_the_last_rows_sorts_nothing(connection: sqlite3.Connection, name: str) -> None:
    sorting = [step for step in plan(connection, name) if "TEMP B-TREE FOR ORDER" in step]
    assert not sorting


@pytest.mark.parametrize("name", CHOSEN)
def test_a_statement_uses_the_index_that_was_made_for_it(
    connection: sqlite3.Connection, name: str
) -> None:
    assert f"SEARCH {CHOSEN[name]}" in plan(connection, name)


@pytest.mark.parametrize(
    "name",
    [
        "ready_candidates",
        "due_candidates",
        "runs_of_lane",
        "lanes_of_level",
        "oldest_outbox",
        "overdue_runs",
        "list_dead",
        "dead_times",
        "list_any",
        "list_top",
        "list_top_kind",
        "list_child",
        "list_queue",
        "list_queue_child",
        "list_named",
        "list_tagged",
        "list_effects",
    ],
)
def test_what_is_asked_for_in_order_lies_in_order(
    connection: sqlite3.Connection, name: str
) -> None:
    assert not [step for step in plan(connection, name) if "TEMP B-TREE" in step]


def test_a_statement_that_would_walk_is_seen(connection: sqlite3.Connection) -> None:
    [[*_, step]] = connection.execute(
        "EXPLAIN QUERY PLAN SELECT uid FROM onward_run WHERE namespace = '' AND state = 'failed'"
    )
    match = STEP.match(step)

    assert match is not None
    assert match[3] == "PRIMARY KEY"
    assert "AND" not in match[4]
    assert tables_of("SELECT 1 FROM onward_run r JOIN onward_lease") == {
        "r": "onward_run", "onward_lease": "onward_lease",
    }  # fmt: skip


def steps_of_sent_by_forks(children: int) -> int:
    """Return about how many steps SQLite takes to look for forks below a run with children."""
    made = connect(None)
    migrate(made, ":memory:")
    made.executemany(
        "INSERT INTO onward_run (namespace, uid, id, kind, name, queue, state, parent,"
        " parent_identity, root, cancel_with_parent, origin, created_at, updated_at)"
        " VALUES ('', ?, ?, 'workflow', 'w', 'q', 'failed', ?, ?, 'p', 1, 'p', 1, 1)",
        [("p", "p", None, None)]
        + [(f"c{n}", f"chosen-{n}" if n % 2 else f"c{n}", "p", f":w#{n}") for n in range(children)],
    )
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1

    made.set_progress_handler(count, 100)
    values = {"namespace": "", "uid": "p", "cut": 0}
    statement = STATEMENTS["sent_by_forks"]
    made.execute(statement.sql, [values[name] for name in statement.parameters]).fetchall()
    made.close()
    return steps


def test_a_retry_of_a_run_with_ten_times_as_many_children_looks_at_about_ten_times_as_much() -> (
    None
):
    assert steps_of_sent_by_forks(2_000) < 15 * steps_of_sent_by_forks(200)
