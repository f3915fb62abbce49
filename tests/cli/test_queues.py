"""`onward queues`: limits, pauses and weights, set and listed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Ask


def test_a_limit_is_set_listed_and_cleared(shop: str, ask: Ask) -> None:
    assert ask("queues", "limit", "default", "7", "--rate", "10/m").out == (
        "queue default: limited (at most 7 running, rate 10/1m).\n"
    )
    [found] = [one for one in ask("queues", "list", "--json").things if one["name"] == "default"]
    assert (found["kind"], found["limit"], found["operator_limit"]) == ("queue", 7, 7)
    assert (found["rate"], found["declared_limit"], found["paused"]) == ("10/1m", None, False)

    assert ask("queues", "clear", "default").out == "queue default: cleared.\n"
    [found] = [one for one in ask("queues", "list", "--json").things if one["name"] == "default"]
    assert (found["limit"], found["rate"]) == (None, None)


def test_a_queue_is_paused_and_resumed(shop: str, ask: Ask) -> None:
    assert ask("queues", "pause", "default", "--json").things[0]["paused"] is True
    assert "paused" in ask("queues", "list").out
    assert ask("queues", "resume", "default", "--json").things[0]["paused"] is False


def test_a_workflow_is_limited_and_paused(shop: str, ask: Ask) -> None:
    [found] = ask("queues", "limit", "--workflow", "pay", "3", "--hold", "open", "--json").things
    assert (found["kind"], found["name"], found["limit"], found["hold"]) == (
        "workflow", "pay", 3, "open",
    )  # fmt: skip
    assert ask("queues", "pause", "--workflow", "pay").out == (
        "workflow pay: paused (at most 3 open).\n"
    )


def test_a_key_gets_a_limit_and_a_weight(shop: str, ask: Ask) -> None:
    [found] = ask(
        "queues", "limit", "default", "2", "--key", "acme", "--weight", "3", "--json"
    ).things
    assert (found["kind"], found["queue"], found["limit"], found["weight"]) == (
        "key", "default", 2, 3,
    )  # fmt: skip
    assert "acme (queue default)" in ask("queues", "list").out
    assert ask("queues", "clear", "default", "--key", "acme").out == (
        "key acme of queue default: cleared.\n"
    )


def test_people_get_a_table(shop: str, ask: Ask) -> None:
    ask("queues", "limit", "default", "7")
    head, *rows = ask("queues", "list").out.splitlines()
    assert head.split()[:5] == ["KIND", "NAME", "LIMIT", "IN", "USE"]
    [row] = [row for row in rows if "default" in row]
    assert row.split()[:3] == ["queue", "default", "7"]


def test_a_limit_of_nothing_is_refused(shop: str, ask: Ask) -> None:
    assert ask("queues", "limit", "default").status == 2
    assert ask("queues", "pause").status == 2
    assert ask("queues", "limit", "default", "--weight", "3").status == 2
    assert ask("queues", "limit", "default", "5", "--rate", "often").status == 2


def test_ready_runs_of_a_workflow_are_counted(shop: str, ask: Ask) -> None:
    ask("start", "hold", "--queue", "mail")
    ask("queues", "pause", "--workflow", "hold")
    ask("queues", "pause", "--workflow", "pay")
    found = {one["name"]: one["ready"] for one in ask("queues", "list", "--json").things}
    assert (found["hold"], found["pay"]) == (1, 0)
