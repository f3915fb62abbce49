"""A plan is made once, perhaps while tables are empty, and must be right with a million rows."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from onward.store import open_store
from onward.store.address import PostgresAddress, parse
from onward.store.postgres.pool import connect
from onward.store.statements import own_statements
from tests.postgres.builders import LONG, WORKER
from tests.postgres.hand import STATEMENTS, Hand

# Statements of both databases that a busy worker or client sends all the time.
SHARED = {
    "all_notes", "ended_runs", "list_top", "list_child", "list_named", "list_queue", "list_tagged",
    "count_top", "runs_beginning", "ids_and_states",
    "retention_facts", "runs_in_need", "marked_runs", "mark_runs",
    "runs_gone", "free_id", "tombstone",
    "be_followed", "bound_below", "bound_children", "maintenance_due", "copy_messages",
    "copy_records", "disown", "diverged_runs", "drop_lease", "drop_outbox_rows", "edit_record",
    "end_followed", "failed_children", "follow_data", "follow_run", "free_runs", "history",
    "hold_runs", "insert_outbox", "insert_run", "insert_run_data", "is_dropped", "keep_aside",
    "keep_end", "keep_progress", "last_position", "lease_here", "unhold_runs", "flow_of",
    "flows_of",
    "flows_to_claim", "note_claims", "control_runs", "count_running", "count_holding",
    "levels_of_queue", "limited_suspects", "set_flow", "take_turn", "add_flow",
    "list_children", "list_family", "newest_run", "next_due", "outbox_of_run", "overdue_runs",
    "recorded_times", "renew_lease", "retire_run", "make_due_ready",
    "run_by_uid",
    "run_end", "run_ends", "runs_of_worker", "sent_after", "sent_by_forks",
    "started_run",
    "run_fences", "state_versions", "lock_deliveries", "reserve_deliveries", "set_origin",
    "note_preparation", "cause_run", "end_deliveries", "count_ended", "inputs_of_events",
    "complete_handler", "raise_handler", "handler_row", "peek_events",
    "peek_messages", "handlers_with_work", "woken_handlers", "launch_run", "take_work",
    "forget_work", "handler_of_run", "effect_of_handler_run", "end_owned_run",
    "release_deliveries", "hand_over_deliveries", "hand_over_causes", "position_of_next",
    "block_handler", "free_handler", "lane_holders",
    "stop_run", "take_lease", "target_seen", "is_stopping", "unpark_run",
}  # fmt: skip
# What is published, and what operators look at.
SHARED |= {
    "subscribers", "add_handler_keys", "lock_handler_keys", "raise_handler_keys", "lock_topics",
    "published_before", "lock_deliveries_of", "renew_deliveries", "add_deliveries",
    "inputs_by_external", "causes_of_runs", "lock_inputs", "raise_inputs", "pending_counts",
    "pending_events", "events_by_message", "deliveries_of_events", "replay_deliveries",
    "skip_deliveries", "caused_by_input", "effects_of_runs",
    "old_events", "old_inputs",
}  # fmt: skip
# What `onward doctor` checks run by run, in stores of any size.
CHECKS = {
    name
    for name, statement in STATEMENTS.items()
    if name.startswith("check_") and "uids" in statement.parameters
}
HOT = sorted(own_statements("postgres") | SHARED | CHECKS)

# What may be read by the namespace alone, and why that stays cheap.
_OF_CLAIMS = {
    "onward_run_suspect": "it holds suspects alone, and there are few",
    "onward_run_running": "only its first row is read, to find the first worker in it",
    "onward_lease_pkey": "there are as many leases as workers",
    "onward_flow_restricting": "it holds what is limited by name, and that is few",
}
SHORT = {
    (name, index): why for name in ("claim", "claim_sized") for index, why in _OF_CLAIMS.items()
} | {
    (
        "marked_runs",
        "onward_tombstone_marked",
    ): "they are about to be deleted, and the first go now",
    ("oldest_outbox", "onward_outbox_oldest"): "the first are wanted, whatever they are",
    ("maintenance_due", "onward_outbox_target"): "one is enough",
    ("maintenance_due", "onward_unpublished_oldest"): "one is enough",
    ("add_handler_keys", "onward_handler_pipeline"): "it holds declarations, and there are few",
    ("raise_handler_keys", "onward_handler_pipeline"): "it holds declarations, and there are few",
    ("maintenance_due", "onward_clock_step_pkey"): "only its last row is read",
    ("maintenance_due", "onward_run_flow"): "one is enough",
    ("maintenance_due", "onward_run_ready"): "one is enough",
    ("limited_suspects", "onward_run_suspect"): "it holds suspects alone, and there are few",
    ("maintenance_due", "onward_flow_restricting"): "one is enough",
    ("count_running", "onward_run_running"): "there are as many as workers have slots",
    ("count_holding", "onward_run_holding"): "there are as many as limits allow",
}

FILL = """
    INSERT INTO onward.onward_run (namespace, uid, id, kind, name, queue, state, due, finished_at,
                                   created_at, updated_at)
    SELECT 'default', $1 || n, $1 || n, 'workflow', 'hello', 'default', $1, n,
           CASE WHEN $1 = 'succeeded' THEN n END, n, n
    FROM generate_series(1, 20000) n
"""
FILL_DATA = """
    INSERT INTO onward.onward_run_data (namespace, uid, input, args_hash)
    SELECT namespace, uid, '', '' FROM onward.onward_run
"""
FILL_INBOX = """
    INSERT INTO onward.onward_inbox (namespace, run, seq, chain, message, kind, sent_at)
    SELECT 'default', r.run, n, r.run, coalesce(nullif($2, ''), 'm' || n), 'signal', n
    FROM generate_series(1, 20000) n, LATERAL (
        SELECT CASE WHEN $2 = '' THEN $1 ELSE $1 || n END AS run) r
"""
RUNNING = "UPDATE onward.onward_run SET state = 'running', worker = $1, fence = 1 WHERE uid = $2"

SUSPECTS = {
    "suspect_at": "2", "crashes": "ARRAY[2]", "rooms": "ARRAY[1]", "max_crashes": "5",
    "ahead": "1", "gaps": "2",
}  # fmt: skip


@asynccontextmanager
async def like_the_store(url: str) -> AsyncIterator[Hand]:
    """A connection with the settings that the store gives its own."""
    address = parse(url)
    assert isinstance(address, PostgresAddress)
    connection = await connect(address)
    try:
        yield Hand(connection)
    finally:
        await connection.close()


async def prepare(hand: Hand, name: str) -> None:
    await hand.run(f"PREPARE {name} AS {STATEMENTS[name].sql}")


async def plan(hand: Hand, name: str, how: str = "", /, **given: str) -> dict[str, Any]:
    """Return the plan of a prepared statement; what is not given is NULL."""
    values = [given.get(parameter, "NULL") for parameter in STATEMENTS[name].parameters]
    execute = f"EXECUTE {name}({', '.join(values)})" if values else f"EXECUTE {name}"
    text = await hand.value(f"EXPLAIN (FORMAT JSON{how}) {execute}")
    found: dict[str, Any] = json.loads(text)[0]["Plan"]
    return found


def nodes(found: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield found
    for part in found.get("Plans", ()):
        yield from nodes(part)


def columns(condition: str) -> set[str]:
    """Return the columns that an index is searched by."""
    found = re.sub(r"\(CASE .*? END (?:=|<=) [^)]*\)", "", condition)
    rows = {name for row in re.findall(r"\(ROW\(([^)]*)\) > ", found) for name in row.split(", ")}
    return rows | set(re.findall(r"\(?(?:\w+\.)?(\w+)\)? (?:=|<|<=|>|>=) ", found))


def test_the_columns_of_a_condition_are_found() -> None:
    condition = "((namespace = $1) AND (uid = ANY ($2)) AND (r.due <= 5))"
    assert columns(condition) == {"namespace", "uid", "due"}
    assert columns("(namespace = $1)") == {"namespace"}
    assert columns("((namespace = $1) AND (ROW(key, name) > ROW($2, $3)))") == {
        "namespace", "key", "name",
    }  # fmt: skip
    assert columns("((a = $1) AND (CASE WHEN (b > 0) THEN 0 ELSE 2 END <= $2))") == {"a"}


INDEXES = """
    SELECT c.relname::text, array_agg(a.attname::text ORDER BY k.place)
    FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid,
         LATERAL unnest(i.indkey::int[]) WITH ORDINALITY k (attribute, place)
    JOIN pg_attribute a ON a.attnum = k.attribute
    WHERE a.attrelid = i.indrelid AND c.relname LIKE 'onward%' GROUP BY 1
"""


@pytest.mark.parametrize("name", HOT)
async def test_a_statement_planned_on_empty_tables_searches_by_the_first_columns_of_an_index(
    name: str, postgres_url: str
) -> None:
    """A column behind one that is not searched by only filters what the columns before it give."""
    async with like_the_store(postgres_url) as hand:
        indexes: dict[str, list[str]] = dict(await hand.run(INDEXES))
        await prepare(hand, name)
        found = list(nodes(await plan(hand, name)))
    assert [node for node in found if node["Node Type"] == "Seq Scan"] == []
    for node in found:
        index = node.get("Index Name", "pg_")  # those of the catalog are not ours
        if not index.startswith("pg_") and (name, index) not in SHORT:
            searched = columns(node.get("Index Cond", ""))
            assert searched - {"namespace"}, node
            assert searched == set(indexes[index][: len(searched)]), node


async def test_no_exception_is_there_without_need(postgres_url: str) -> None:
    used = set()
    async with like_the_store(postgres_url) as hand:
        for name in HOT:
            await prepare(hand, name)
            for node in nodes(await plan(hand, name)):
                if columns(node.get("Index Cond", "")) == {"namespace"}:
                    used.add((name, node["Index Name"]))
    assert used == set(SHORT)


async def test_claims_and_records_touch_few_pages_among_forty_thousand_runs(
    postgres_url: str,
) -> None:
    array = "ARRAY['{}']"
    claim = {
        "namespace": "'default'", "worker": f"'{WORKER}'", "queues": array.format("default"),
        "names": array.format("hello"), "tags": "ARRAY[]::text[]", "limit": "10", **SUSPECTS,
        "max_bytes": "5000", "row_bytes": "500",
    }  # fmt: skip
    record = {
        "namespace": "'default'", "worker": array.format(WORKER), "fence": "ARRAY[1]",
        "run": array.format("ready20000"), "r_run": array.format("ready20000"),
        "r_identity": array.format("a"),
        "r_attempt": "ARRAY[1]", "r_seq": "ARRAY[1]", "r_kind": array.format("step"),
        "r_name": array.format("a"), "r_state": array.format("succeeded"),
    }  # fmt: skip
    async with open_store(postgres_url) as store, like_the_store(postgres_url) as hand:
        await store.take_lease(WORKER, LONG)
        for name, given in (("claim", claim), ("claim_sized", claim), ("commit_records", record)):
            await prepare(hand, name)
            await plan(hand, name, **given)
        for state in ("succeeded", "ready"):
            await hand.run(FILL, state)
        await hand.run(FILL_DATA)
        await hand.run(RUNNING, WORKER, "ready20000")
        for name in ("claim", "claim_sized"):
            claimed = await plan(hand, name, ", ANALYZE, BUFFERS", **claim)
            assert claimed["Actual Rows"] == 10
            assert pages(claimed) < 400
        recorded = await plan(hand, "commit_records", ", ANALYZE, BUFFERS", **record)
        assert pages(recorded) < 100
        assert len((await store.history(["ready20000"]))["ready20000"]) == 1


async def test_many_runs_behind_a_limit_are_in_nobodys_way(postgres_url: str) -> None:
    """Neither those who claim other runs read them, nor those who claim the next of them."""
    async with open_store(postgres_url) as store, like_the_store(postgres_url) as hand:
        await store.take_lease(WORKER, LONG)
        given = {
            "namespace": "'default'", "worker": f"'{WORKER}'", "queues": "ARRAY['default']",
            "names": "ARRAY['hello']", "tags": "ARRAY[]::text[]", "limit": "10", **SUSPECTS,
            "queue": "'default'", "priority": "0", "key": "''", "name": "''",
            "lane_keys": "ARRAY['free']", "lane_names": "ARRAY['hello']", "lane_ranks": "ARRAY[2]",
            "lane_limits": "ARRAY[5]",
        }  # fmt: skip
        names = (
            "claim", "make_due_ready", "levels_of_queue", "lanes_of_level", "runs_of_lanes",
            "count_running", "maintenance_due",
        )  # fmt: skip
        for name in names:
            await prepare(hand, name)
            await plan(hand, name, **given)
        await hand.run(FILL, "ready")
        await hand.run(FILL_DATA)
        await hand.run("UPDATE onward.onward_run SET flow_key = 'full'")
        await hand.run("UPDATE onward.onward_run SET flow_key = 'free' WHERE due > 19990")
        await hand.run(RUNNING, WORKER, "ready1")
        await hand.run("VACUUM onward.onward_run")
        touched = {name: await plan(hand, name, ", ANALYZE, BUFFERS", **given) for name in names}
        assert {name: pages(found) < 100 for name, found in touched.items()} == dict.fromkeys(
            names, True
        )
        searched = ("claim", "levels_of_queue", "lanes_of_level", "runs_of_lanes")
        assert [touched[name]["Actual Rows"] for name in searched] == [0, 1, 2, 5]


async def test_a_send_and_a_look_touch_few_pages_among_forty_thousand_messages(
    postgres_url: str,
) -> None:
    """Messages with the same id to many runs, and many messages to one run."""
    send = {
        "namespace": "'default'", "target": "ARRAY['ready7']", "message": "ARRAY['hello']",
        "kind": "ARRAY['signal']", "name": "ARRAY['go']", "payload": "ARRAY[NULL]::bytea[]",
        "wakes": "ARRAY['']", "by_uid": "ARRAY[1]", "in_turn": "1",
    }  # fmt: skip
    look = {"namespace": "'default'", "after": """'{"ready7": 19995}'""", "budget": "1000"}
    async with open_store(postgres_url), like_the_store(postgres_url) as hand:
        for name, given in (("send", send), ("look", look)):
            await prepare(hand, name)
            await plan(hand, name, **given)
        await hand.run(FILL, "ready")
        await hand.run(FILL_INBOX, "ready7", "")
        await hand.run(FILL_INBOX, "other", "hello")
        sent = await plan(hand, "send", ", ANALYZE, BUFFERS", **send)
        looked = await plan(hand, "look", ", ANALYZE, BUFFERS", **look)
        assert (sent["Actual Rows"], looked["Actual Rows"]) == (1, 5)
        assert {"send": pages(sent) < 100, "look": pages(looked) < 100} == {
            "send": True, "look": True,
        }  # fmt: skip


def pages(found: dict[str, Any]) -> int:
    return int(found["Shared Hit Blocks"] + found["Shared Read Blocks"])
