"""Statements: read from files, rendered for each database, listed where they differ."""

from __future__ import annotations

import pytest

from onward.store.statements import (
    POSTGRES_CLOCK,
    Dialect,
    Statement,
    migrations,
    own_statements,
    tables,
)

SQLITE = Dialect()
POSTGRES = Dialect(postgres=True)
DATABASE_TIME = Dialect(postgres=True, database_time=True)

# A statement that one database has for itself is a decision: everything else is one text.
ONLY_SQLITE = {
    "delete_effects", "delete_messages", "delete_records", "delete_run_data", "delete_runs",
    "drop_expired", "drop_tombstones", "keep_tombstones", "lock_ended", "lock_marked",
    "add_message", "add_record", "cache_result", "claim_run", "claimed_runs",
    "draining_workers", "due_candidates", "hold_places", "keep_time",
    "lanes_of_level", "renew_leases",
    "look", "messages_seen", "move_run", "oldest_outbox",
    "file_pages",
    "orphan_candidates", "raise_inbox", "read_time", "ready_candidates", "reset_time",
    "run_bytes", "runs_of_lane", "runs_seen", "shift_leases", "suspect_candidates",
    "delete_deliveries_of", "delete_event_causes", "delete_events", "delete_inputs",
    "delete_run_causes",
    "unexpected_runs", "write_causes", "write_effect", "write_events", "write_inputs",
}  # fmt: skip
ONLY_POSTGRES = {
    "delete_effects", "delete_messages", "delete_records", "delete_run_data", "delete_runs",
    "drop_expired", "drop_tombstones", "keep_tombstones", "lock_ended", "lock_marked",
    "durability_settings", "oldest_transaction", "table_health",
    "claim", "claim_sized", "commit_attached", "commit_cached", "commit_records", "commit_runs",
    "hint_send", "hint_start",
    "lanes_of_level", "lock_effects", "lock_runs", "look", "oldest_outbox", "place",
    "renew_leases", "runs_of_lanes", "runs_to_control", "send", "start", "wait_shortly_for_locks",
    "delete_deliveries_of", "delete_event_causes", "delete_events", "delete_inputs",
    "delete_run_causes", "hint_publish", "write_causes", "write_events", "write_inputs",
}  # fmt: skip


def test_statements_are_rendered_once_for_all_databases_of_a_kind() -> None:
    assert Dialect().statements() is SQLITE.statements()
    assert Dialect(postgres=True, schema="jobs").statements() is not POSTGRES.statements()


def test_the_statements_that_only_sqlite_has_are_listed() -> None:
    assert own_statements("sqlite") == ONLY_SQLITE


def test_the_statements_that_only_postgres_has_are_listed() -> None:
    assert own_statements("postgres") == ONLY_POSTGRES


def test_what_both_have_in_a_text_of_their_own_is_asked_alike() -> None:
    sqlite, postgres = SQLITE.statements(), DATABASE_TIME.statements()
    for name in ONLY_SQLITE & ONLY_POSTGRES:
        asked = set(sqlite[name].parameters) - {"now"}
        assert asked == set(postgres[name].parameters) - {"now"}, name


def test_parameters_are_numbered_in_the_order_of_their_use() -> None:
    text = "SELECT :b, :a, :b FROM t WHERE x = :c"

    assert SQLITE.render("x", text) == Statement(
        "x", "SELECT ?1, ?2, ?1 FROM t WHERE x = ?3", ("b", "a", "c")
    )
    assert POSTGRES.render("x", text).sql == "SELECT $1, $2, $1 FROM t WHERE x = $3"


def test_rows_may_give_the_order_on_sqlite() -> None:
    text = "INSERT INTO t VALUES (:a, :b)"

    assert SQLITE.render("x", text, ("b", "unused", "a")).parameters == ("b", "unused", "a")
    assert SQLITE.render("x", text, ("b", "unused", "a")).sql == "INSERT INTO t VALUES (?3, ?1)"
    assert POSTGRES.render("x", text, ("b", "unused", "a")).parameters == ("a", "b")


def test_what_rows_do_not_give_is_arranged_apart() -> None:
    statement = SQLITE.render("x", "INSERT INTO t VALUES (:now, :a, :b)", ("b", "a"))

    assert statement.row == ("b", "a")
    assert statement.arrange_rest({"now": 1, "c": 2}) == (1,)


def test_values_are_arranged_as_the_text_asks() -> None:
    statement = Statement("x", "", ("b", "a"))

    assert statement.arrange({"a": 1, "b": 2, "c": 3}) == (2, 1)
    with pytest.raises(KeyError):
        statement.arrange({"a": 1})


def test_comments_are_no_part_of_a_statement() -> None:
    assert SQLITE.render("x", "-- all :of it\nSELECT 1 -- and :this\n") == Statement(
        "x", "SELECT 1", ()
    )


def test_time_is_bound_or_read_from_the_database() -> None:
    text = "SELECT :now, :nowhere"

    assert SQLITE.render("x", text) == Statement("x", "SELECT ?1, ?2", ("now", "nowhere"))
    assert POSTGRES.render("x", text).sql == "SELECT $1::bigint, $2"
    assert DATABASE_TIME.render("x", text) == Statement(
        "x", f"SELECT {POSTGRES_CLOCK}, $1", ("nowhere",)
    )


def test_a_cast_is_no_parameter() -> None:
    assert POSTGRES.render("x", "SELECT :a::text, 1::bigint").parameters == ("a",)


def test_tables_get_their_schema_and_nothing_else_does() -> None:
    dialect = Dialect(postgres=True, schema="jobs")

    rendered = dialect.render("x", "SELECT onward_run.uid, onward_something FROM onward_run").sql

    assert rendered == "SELECT jobs.onward_run.uid, onward_something FROM jobs.onward_run"


def test_locks_are_waited_for_where_they_cannot_be_skipped() -> None:
    text = "SELECT 1 FROM t FOR UPDATE SKIP LOCKED"

    assert Dialect(postgres=True, skip_locked=False).render("x", text).sql.endswith("FOR UPDATE")
    assert POSTGRES.render("x", text).sql == text


def test_the_choice_of_an_index_is_for_sqlite_alone() -> None:
    text = "SELECT 1 FROM t x INDEXED BY t_index WHERE true"

    assert SQLITE.render("x", text).sql == text
    assert POSTGRES.render("x", text).sql == "SELECT 1 FROM t x WHERE true"


def test_row_locks_are_for_postgres_alone() -> None:
    text = "SELECT 1 FROM t WHERE true\nFOR UPDATE SKIP LOCKED"

    assert SQLITE.render("x", text).sql == "SELECT 1 FROM t WHERE true"
    assert SQLITE.render("x", "SELECT 1 FROM t FOR KEY SHARE").sql == "SELECT 1 FROM t"
    assert POSTGRES.render("x", text).sql == text


def test_a_list_is_a_json_array_or_an_array() -> None:
    texts = "SELECT 1 WHERE x IN (SELECT value FROM json_each(:xs))"
    numbers = "SELECT 1 WHERE x IN (SELECT CAST(value AS BIGINT) FROM json_each(:xs))"

    assert SQLITE.render("x", texts).sql.endswith("IN (SELECT value FROM json_each(?1))")
    assert POSTGRES.render("x", texts).sql == "SELECT 1 WHERE x = ANY ($1::text[])"
    assert POSTGRES.render("x", numbers).sql == "SELECT 1 WHERE x = ANY ($1::bigint[])"


def test_rows_of_a_list_are_looked_up_one_by_one() -> None:
    text = (
        "SELECT r.x FROM json_each(:uids) j\nCROSS JOIN onward_run r\n    ON r.uid = j.value\n"
        "LEFT JOIN onward_lease l ON l.worker = r.worker\nWHERE r.x > 1;"
    )

    assert POSTGRES.render("x", text).sql == (
        "SELECT r.x FROM unnest($1::text[]) WITH ORDINALITY j (value, key)\n"
        "CROSS JOIN LATERAL (SELECT * FROM onward.onward_run r WHERE r.uid = j.value OFFSET 0) r\n"
        "LEFT JOIN LATERAL (SELECT * FROM onward.onward_lease l WHERE l.worker = r.worker OFFSET 0)"
        " l ON true\nWHERE r.x > 1;"
    )


def test_a_statement_is_composed_of_parts() -> None:
    composed = POSTGRES.statements()["commit_runs"].sql

    assert "{" not in composed
    assert composed.count("INSERT INTO onward.onward_record") == 1


def test_a_script_is_cut_into_statements_and_translated() -> None:
    script = (
        "-- a table\nCREATE TABLE onward_run (\n    n INTEGER, -- not; here\n    b BLOB\n"
        ") STRICT, WITHOUT ROWID;\nCREATE INDEX onward_run_n ON onward_run (n);\n"
    )

    [table, index] = POSTGRES.script(script)

    assert "".join(table.split()) == "CREATETABLEonward.onward_run(nBIGINT,bBYTEA)"
    assert index == "CREATE INDEX onward_run_n ON onward.onward_run (n)"
    assert SQLITE.script(script)[0].endswith("STRICT, WITHOUT ROWID")


def test_every_table_of_the_migrations_is_known() -> None:
    assert {"onward_run", "onward_record", "onward_lease", "onward_meta"} <= tables()
    assert all(name.startswith("onward_") for name in tables())
    assert len(migrations()) >= 1


@pytest.mark.parametrize("dialect", [SQLITE, POSTGRES, DATABASE_TIME])
def test_every_statement_is_rendered_whole(dialect: Dialect) -> None:
    for statement in dialect.statements().values():
        assert statement.sql
        assert "--" not in statement.sql
        if dialect.database_time:
            assert "now" not in statement.parameters, statement.name
