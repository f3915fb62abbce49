"""What a handler's run reads and writes does not grow with the events of its topic."""

from __future__ import annotations

import pytest

from tests.postgres.test_plans import like_the_store, pages, plan, prepare

HANDLER, TOPIC, COUNT = "post.Book", "post.letters", 10_000

SUBSCRIBE = (
    """
    INSERT INTO onward.onward_pipeline (namespace, name, updated_at) VALUES ('default', 'post', 1)
    """,
    f"""
    INSERT INTO onward.onward_handler (namespace, handler, pipeline, kind, lane, queue, published,
                                       updated_at)
    VALUES ('default', '{HANDLER}', 'post', 'consumer', 'post', 'default', 1, 1)
    """,
    f"""
    INSERT INTO onward.onward_subscription (namespace, topic, handler)
    VALUES ('default', '{TOPIC}', '{HANDLER}')
    """,
)
FILL = (
    f"""
    INSERT INTO onward.onward_event (namespace, uid, topic, seq, message, payload, created_at)
    SELECT 'default', 'event-' || n, '{TOPIC}', n, 'm' || n, '', n
    FROM generate_series(1, {COUNT}) n
    """,
    f"""
    INSERT INTO onward.onward_delivery (namespace, handler, event, topic, seq, state, run,
                                        updated_at)
    SELECT 'default', '{HANDLER}', 'event-' || n, '{TOPIC}', n, s.state,
           CASE WHEN s.state = 'pending' THEN NULL ELSE 'run-' || n END, n
    FROM generate_series(1, {COUNT}) n, LATERAL (
        SELECT CASE WHEN n <= {COUNT} / 2 THEN 'consumed' ELSE 'pending' END AS state) s
    """,
)  # half of them are pending
FIRST = f"event-{COUNT // 2 + 1}"

GIVEN = {
    "namespace": "'default'", "handler": f"'{HANDLER}'", "handlers": f"ARRAY['{HANDLER}']",
    "queues": "ARRAY['default']", "after_handler": "''", "after_key": "''", "key": "''",
    "topic": f"'{TOPIC}'", "topics": f"ARRAY['{TOPIC}']", "limit": "1", "run": "'run'",
    "events": f"ARRAY['{FIRST}']", "messages": f"ARRAY['m{COUNT}']",
}  # fmt: skip
ROWS = {
    "handlers_with_work": 1,
    "lock_deliveries": 1,
    "peek_events": 1,
    "peek_messages": 1,
    "pending_of_topic": 1,
    # An update returns no rows.
    "renew_deliveries": 0,
    "replay_deliveries": 0,
    "reserve_deliveries": 0,
    "skip_deliveries": 0,
}
MAX_PAGES = dict.fromkeys(ROWS, 50) | {"pending_of_topic": 50 + COUNT // 50}
"""Whether a topic is full depends on the oldest of its pending events, which have keys."""


@pytest.mark.parametrize("name", ROWS)
async def test_a_statement_planned_on_empty_tables_reads_few_pages_of_many_events(
    name: str, postgres_url: str
) -> None:
    async with like_the_store(postgres_url) as hand:
        for text in SUBSCRIBE:
            await hand.run(text)
        await prepare(hand, name)
        await plan(hand, name, **GIVEN)
        for text in FILL:
            await hand.run(text)
        found = await plan(hand, name, ", ANALYZE, BUFFERS", **GIVEN)
    assert found["Actual Rows"] == ROWS[name]
    assert pages(found) < MAX_PAGES[name]
