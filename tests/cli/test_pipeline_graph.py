"""The graph of a pipeline as text: producers, topics, consumers and counts."""

from __future__ import annotations

from datetime import UTC, datetime

from onward.cli.pipeline_report import graph_of, row_of
from onward.pipelines import HandlerInfo, PipelineInfo, TopicInfo

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def handler(
    name: str,
    kind: str = "consumer",
    reads: tuple[str, ...] = (),
    publishes: tuple[str, ...] = (),
    *,
    state: str = "idle",
    why: str = "",
) -> HandlerInfo:
    full = f"shop.{name}"
    return HandlerInfo(full, kind, "", reads, publishes, state, None, why, "", 0, None, 2, False)


def pipeline(*handlers: HandlerInfo, topics: tuple[str, ...] = ()) -> PipelineInfo:
    return PipelineInfo("shop", False, "default", "active", topics, handlers, NOW)


def topic(name: str, published: int, **pending: int) -> TopicInfo:
    counts = {
        f"shop.{consumer}": {"pending": n, "reserved": 0, "consumed": published - n, "skipped": 0}
        for consumer, n in pending.items()
    }
    return TopicInfo(name, "shop", published, None, None, counts)


def drawn(info: PipelineInfo, *topics: TopicInfo) -> str:
    return "\n".join(graph_of(info, {each.name: each for each in topics}))


def test_a_chain_is_drawn_from_its_producer_on() -> None:
    info = pipeline(
        handler("poll", "producer", publishes=("mail",)),
        handler("AddRow", reads=("mail",), publishes=("row",), state="running"),
        handler("Count", reads=("row",)),
    )
    graph = drawn(info, topic("mail", 1200, AddRow=3), topic("row", 7, Count=0))

    assert graph == (
        "producer shop.poll\n"
        "└─ mail: 1,200 published\n"
        "   └─ consumer shop.AddRow (running): "
        "3 pending, 0 reserved, 1,197 consumed, 0 skipped\n"
        "      └─ row: 7 published\n"
        "         └─ consumer shop.Count: 0 pending, 0 reserved, 7 consumed, 0 skipped"
    )


def test_branches_are_drawn_under_each_other() -> None:
    info = pipeline(
        handler("poll", "producer", publishes=("a", "b")),
        handler("One", reads=("a", "b")),
        handler("Two", reads=("a",)),
    )
    graph = drawn(info, topic("a", 1, One=1, Two=0), topic("b", 1, One=1))

    assert graph == (
        "producer shop.poll\n"
        "├─ a: 1 published\n"
        "│  ├─ consumer shop.One: 1 pending, 0 reserved, 0 consumed, 0 skipped\n"
        "│  └─ consumer shop.Two: 0 pending, 0 reserved, 1 consumed, 0 skipped\n"
        "└─ b: 1 published\n"
        "   └─ consumer shop.One: 1 pending, 0 reserved, 0 consumed, 0 skipped"
    )


def test_a_topic_that_is_published_from_outside_has_a_root_of_its_own() -> None:
    info = pipeline(handler("Relay", reads=("hook",)), topics=("hook", "unused"))
    graph = drawn(info, topic("hook", 2, Relay=2), topic("unused", 0))

    assert graph == (
        "published from outside this pipeline\n"
        "├─ hook: 2 published\n"
        "│  └─ consumer shop.Relay: 2 pending, 0 reserved, 0 consumed, 0 skipped\n"
        "└─ unused: 0 published\n"
        "   └─ no consumer"
    )


def test_a_circle_ends() -> None:
    info = pipeline(
        handler("Ping", reads=("ping",), publishes=("pong",)),
        handler("Pong", reads=("pong",), publishes=("ping",)),
    )
    graph = drawn(info, topic("ping", 1, Ping=0), topic("pong", 1, Pong=1))

    assert graph.startswith("consumer shop.Ping\n└─ pong: 1 published\n")
    assert graph.endswith("0 skipped, continues above")


def test_names_cannot_control_a_terminal() -> None:
    info = pipeline(handler("poll", "producer", publishes=("a\x1b[2J",)))
    assert "\x1b" not in drawn(info, topic("a\x1b[2J", 1))


def test_a_row_says_what_blocks_the_pipeline() -> None:
    info = pipeline(handler("One"), handler("Two", state="blocked", why="run 7 failed."))
    assert row_of(info)[-3:] == (2, 4, "run 7 failed.")
