"""Publishing: in order, once for each message id, to every consumer, with causes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward.errors import NotFound
from onward.store.pipelines.causes import MAX_CAUSES
from onward.store.pipelines.publishing import PublishAnswer
from tests.conformance.suite.topics import (
    ADD,
    COUNT,
    LOG,
    MAIL,
    ROWS,
    Delivery,
    an_event,
    an_input,
    causes,
    declare,
    deliveries,
    published,
    put,
    sequence,
    tally,
)

if TYPE_CHECKING:
    from tests.conformance.suite.world import World


async def test_an_event_is_pending_for_every_consumer_of_its_topic(world: World) -> None:
    store = await world.store()
    await declare(world, {MAIL: (ADD, LOG), ROWS: (COUNT,)})

    answer = await put(store, an_event("1"))

    assert answer == PublishAnswer(1, {ADD, LOG})
    assert await deliveries(world) == [
        Delivery(f"{MAIL} 1", ADD, "", "pending", 1),
        Delivery(f"{MAIL} 1", LOG, "", "pending", 1),
    ]
    assert await published(world) == {(ADD, ""): 1, (LOG, ""): 1, (COUNT, ""): 0}


async def test_events_are_in_the_order_of_their_publication(world: World) -> None:
    store = await world.store()
    await declare(world, {MAIL: (), ROWS: ()})

    await put(store, an_event("b"), an_event("x", ROWS), an_event("a"))
    await put(store, an_event("c"))

    assert await sequence(world) == [(1, "b"), (2, "a"), (3, "c")]
    assert await sequence(world, ROWS) == [(1, "x")]


async def test_publishers_at_once_get_different_places(world: World) -> None:
    store, other = await world.store(), await world.store()
    await declare(world, {MAIL: (ADD,), ROWS: (ADD,)})

    async def publish_some(n: int) -> None:
        topics = (MAIL, ROWS) if n % 2 else (ROWS, MAIL)
        events = [an_event(f"{n} {m}", topic) for topic in topics for m in range(3)]
        await put((store, other)[n % 2], *events)

    await asyncio.gather(*map(publish_some, range(10)))

    for topic in (MAIL, ROWS):
        assert [seq for seq, _ in await sequence(world, topic)] == list(range(1, 31))


async def test_a_message_id_is_published_once(world: World) -> None:
    store = await world.store()
    await declare(world)
    await put(store, an_event("1"))

    again = await put(
        store, an_event("1", uid="another"), an_event("2"), an_event("2", uid="third")
    )

    assert again == PublishAnswer(1, {ADD, LOG})
    assert await sequence(world) == [(1, "1"), (2, "2")]
    assert len(await deliveries(world)) == 4


async def test_a_repeat_with_the_same_payload_gives_nobody_work(world: World) -> None:
    store = await world.store()
    await declare(world)
    await put(store, an_event("1"))

    assert await put(store, an_event("1")) == PublishAnswer(0, set())
    assert await published(world) == {(ADD, ""): 1, (LOG, ""): 1}


async def test_a_repeat_replaces_the_payload_while_every_delivery_is_pending(world: World) -> None:
    store = await world.store()
    await declare(world)
    await put(store, an_event("1", key="k"))

    again = await put(store, an_event("1", uid="another", key="other", payload=b"j2"))

    assert again == PublishAnswer(0, {ADD, LOG})
    rows = await world.sql("SELECT uid, key, seq, payload FROM onward_event")
    assert [tuple(row) for row in rows] == [(f"{MAIL} 1", "k", 1, b"j2")]
    # A run that has read the old payload cannot reserve the event: its attempt is another one.
    assert {(each.state, each.attempt) for each in await deliveries(world)} == {("pending", 2)}
    assert await published(world) == {(ADD, ""): 2, (LOG, ""): 2}


async def test_a_repeat_changes_nothing_once_a_consumer_has_the_event(world: World) -> None:
    store = await world.store()
    await declare(world)
    await put(store, an_event("1"))
    await world.sql(
        f"UPDATE onward_delivery SET state = 'reserved', run = 'r' WHERE handler = '{ADD}'"
    )
    world.spoiled = True  # the run is not there

    assert await put(store, an_event("1", payload=b"j2")) == PublishAnswer(0, set())

    assert [bytes(row[0]) for row in await world.sql("SELECT payload FROM onward_event")] == [b"j1"]
    assert {each.attempt for each in await deliveries(world)} == {1}


async def test_the_last_payload_of_a_call_counts(world: World) -> None:
    store = await world.store()
    await declare(world)

    await put(store, an_event("1"), an_event("1", uid="second", payload=b"j2"))

    rows = await world.sql("SELECT uid, payload FROM onward_event")
    assert [tuple(row) for row in rows] == [(f"{MAIL} 1", b"j2")]


async def test_the_same_message_id_in_another_topic_is_another_event(world: World) -> None:
    store = await world.store()
    await declare(world, {MAIL: (ADD,), ROWS: (COUNT,)})

    assert (await put(store, an_event("1"), an_event("1", ROWS))).new == 2


async def test_a_parallel_consumer_gets_a_row_for_each_key(world: World) -> None:
    store = await world.store()
    await declare(world, {MAIL: (ADD,)}, keyed=True)

    await put(store, an_event("1", key="a"), an_event("2", key="b"), an_event("3", key="a"))
    await put(store, an_event("4", key="b"))

    assert [(each.event[-1], each.key) for each in await deliveries(world)] == [
        ("1", "a"), ("2", "b"), ("3", "a"), ("4", "b"),
    ]  # fmt: skip
    assert await published(world) == {(ADD, ""): 0, (ADD, "a"): 1, (ADD, "b"): 2}
    rows = await world.sql("SELECT key, lane, pipeline, kind FROM onward_handler ORDER BY key")
    assert [tuple(row) for row in rows][1:] == [
        ("a", f"{ADD} a", "mail", "consumer"),
        ("b", f"{ADD} b", "mail", "consumer"),
    ]


async def test_a_serial_consumer_sees_all_keys(world: World) -> None:
    store = await world.store()
    await declare(world, {MAIL: (ADD,)})

    await put(store, an_event("1", key="a"))

    assert await published(world) == {(ADD, ""): 1}


async def test_an_unknown_topic_refuses_the_whole_call(world: World) -> None:
    store = await world.store()
    await declare(world)

    with pytest.raises(NotFound, match="'unknown'"):
        await put(store, an_event("1"), an_event("1", "unknown"), inputs=[an_input("m1")])

    assert await sequence(world) == []
    assert await tally(world) == {}


async def test_an_unknown_input_refuses_the_whole_call(world: World) -> None:
    store = await world.store()
    await declare(world)

    with pytest.raises(NotFound, match="'nothing'"):
        await put(store, an_event("1", input="nothing"))

    assert await sequence(world) == []


async def test_an_event_is_caused_by_its_input(world: World) -> None:
    store = await world.store()
    await declare(world)
    m1, m2 = an_input("m1"), an_input("m2")

    await put(store, an_event("1", input=m1.uid), an_event("2"), inputs=[m1, m2])

    assert await causes(world) == {("event", f"{MAIL} 1", m1.uid)}
    assert await tally(world) == {m1.uid: (2, 1), m2.uid: (0, 0)}


async def test_a_known_input_keeps_its_uid_and_its_title(world: World) -> None:
    store = await world.store()
    await declare(world)
    await put(store, inputs=[an_input("m1")])

    again = an_input("m1", uid="second", title="changed")
    await put(store, an_event("1", input="second"), inputs=[again, again._replace(uid="third")])
    await put(store, an_event("2", input="input m1"))

    assert await tally(world) == {"input m1": (4, 2)}
    [[title]] = await world.sql("SELECT title FROM onward_input")
    assert title == "Mail m1"
    [[registered]] = await world.sql("SELECT registered FROM onward_input_count")
    assert registered == 1


async def test_a_repeat_adds_no_cause(world: World) -> None:
    store = await world.store()
    await declare(world)
    m1 = an_input("m1")
    for _ in range(2):
        await put(store, an_event("1", input=m1.uid), inputs=[m1])

    assert await tally(world) == {m1.uid: (2, 1)}


async def test_an_event_of_a_run_has_the_causes_of_the_run(world: World) -> None:
    store = await world.store()
    await declare(world, {MAIL: (ADD,), ROWS: (COUNT,)})
    world.spoiled = True  # the run is not there
    m1, m2, m3 = (an_input(name) for name in ("m1", "m2", "m3"))
    await put(store, inputs=[m1, m2, m3])
    await world.sql(
        "INSERT INTO onward_cause (namespace, kind, target, input) VALUES"
        f" ('default', 'run', 'r', '{m1.uid}'), ('default', 'run', 'r', '{m2.uid}')"
    )

    await put(store, an_event("1", ROWS), an_event("2", ROWS, input=m3.uid), run="r")

    assert {(target, uid) for kind, target, uid in await causes(world) if kind == "event"} == {
        (f"{ROWS} 1", m1.uid), (f"{ROWS} 1", m2.uid), (f"{ROWS} 2", m3.uid),
    }  # fmt: skip
    assert await tally(world) == {m1.uid: (1, 1), m2.uid: (1, 1), m3.uid: (1, 1)}
    assert [row[0] for row in await world.sql("SELECT DISTINCT run FROM onward_event")] == ["r"]


async def test_an_event_has_at_most_a_thousand_causes(world: World) -> None:
    store = await world.store()
    await declare(world, {ROWS: (COUNT,)})
    world.spoiled = True  # the run is not there
    await put(store, inputs=[an_input(f"{n:04}") for n in range(MAX_CAUSES + 5)])
    await world.sql(
        "INSERT INTO onward_cause (namespace, kind, target, input)"
        " SELECT 'default', 'run', 'r', uid FROM onward_input"
    )

    await put(store, an_event("1", ROWS), run="r")

    linked = sorted(uid for kind, _, uid in await causes(world) if kind == "event")
    assert linked == [f"input {n:04}" for n in range(MAX_CAUSES)]


async def test_an_event_whose_inputs_were_all_skipped_is_skipped(world: World) -> None:
    store = await world.store()
    await declare(world)
    m1, m2 = an_input("m1"), an_input("m2")
    await put(store, inputs=[m1, m2])
    await world.sql(f"UPDATE onward_input SET skipped_at = 1 WHERE uid = '{m1.uid}'")
    world.spoiled = True  # the count of skipped inputs is not raised

    await put(store, an_event("1", input=m1.uid), an_event("2", input=m2.uid))

    assert [(each.event[-1], each.state) for each in await deliveries(world)] == [
        ("1", "skipped"), ("1", "skipped"), ("2", "pending"), ("2", "pending"),
    ]  # fmt: skip
    assert await tally(world) == {m1.uid: (0, 1), m2.uid: (2, 1)}
    rows = await world.sql("SELECT handler, skipped FROM onward_subscription ORDER BY handler")
    assert [tuple(row) for row in rows] == [(ADD, 1), (LOG, 1)]


async def test_an_event_that_is_skipped_at_once_gives_its_consumers_no_work(world: World) -> None:
    store = await world.store()
    await declare(world)
    skipped = an_input("m1")
    await put(store, inputs=[skipped])
    await world.sql(f"UPDATE onward_input SET skipped_at = 1 WHERE uid = '{skipped.uid}'")
    world.spoiled = True  # the count of skipped inputs is not raised

    await put(store, an_event("1", input=skipped.uid))

    rows = await world.sql("SELECT handler, published FROM onward_handler ORDER BY handler")
    assert [tuple(row) for row in rows] == [(ADD, 0), (LOG, 0)]


async def test_ten_thousand_events_are_one_call(world: World) -> None:
    store = await world.store()
    await declare(world)
    inputs = [an_input(f"{n}") for n in range(10_000)]
    events = [an_event(f"{n}", input=f"input {n}") for n in range(10_000)]

    assert await put(store, *events, inputs=inputs) == PublishAnswer(10_000, {ADD, LOG})

    [[count]] = await world.sql("SELECT count(*) FROM onward_delivery WHERE state = 'pending'")
    assert count == 20_000
    [[least, most]] = await world.sql("SELECT min(open), max(open) FROM onward_input")
    assert (least, most) == (2, 2)
