"""`onward dead`: what has failed, and what an operator decides about it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.cli.dead import bars

if TYPE_CHECKING:
    from tests.cli.conftest import Ask


def test_failed_runs_are_listed_with_what_failed(shop: str, ask: Ask) -> None:
    answer = ask("dead", "list")
    head, row = answer.out.splitlines()
    assert head.split()[:4] == ["ID", "NAME", "TRY", "STATE"]
    assert row.split()[:5] == ["fail-1", "fail", "1", "failed", "weigh"]
    assert "ValueError: lighter than nothing" in row
    thing = ask("dead", "list", "--json").thing
    assert (thing["error_type"], thing["failed_step"]) == ("ValueError", "weigh")


def test_filters_narrow_the_list(shop: str, ask: Ask) -> None:
    assert ask("dead", "list", "--error", "ValueError", "--failed-step", "weigh", "--json").thing
    assert ask("dead", "list", "--workflow", "fail", "--since", "1h", "--json").thing
    assert ask("dead", "list", "--name", "pay").out == "No dead letters match.\n"
    assert ask("dead", "list", "--state", "timed_out").out == "No dead letters match.\n"
    assert ask("dead", "list", "--attribute", "a=1", "--queue", "q", "--tag", "t").status == 0
    assert "There may be more: --before" in ask("dead", "list", "--limit", "1").err


def test_failures_are_grouped(shop: str, ask: Ask) -> None:
    answer = ask("dead", "groups", "--since", "1h", "--parts", "3")
    row = answer.out.splitlines()[1]
    assert row.split()[:4] == ["1", "fail", "ValueError", "weigh"]
    thing = ask("dead", "groups", "--json").thing
    assert (thing["count"], thing["is_capped"], len(thing["timeline"])) == (1, False, 24)
    assert ask("dead", "groups", "--name", "pay").out == "No dead letters.\n"


def test_a_dead_letter_is_shown_like_a_run(shop: str, ask: Ask) -> None:
    answer = ask("dead", "show", "fail-1")
    assert answer.status == 0
    assert "failed in" in answer.out
    assert "Next: onward runs retry fail-1" in answer.out
    assert ask("dead", "show", "fail-1", "--json").thing["failed_step"] == "weigh"
    other = ask("dead", "show", "hold-1")
    assert (other.status, other.out) == (1, "")
    assert "there is no dead letter 'hold-1'" in other.err


def test_a_discarded_letter_is_gone_from_the_list_and_says_who_discarded_it(
    shop: str, ask: Ask
) -> None:
    answer = ask("dead", "discard", "fail-1", "--reason", "a test", "--by", "ada")
    assert (answer.status, answer.out) == (0, "run fail-1 is discarded\n")
    assert ask("dead", "list", "--json").things == []
    shown = ask("runs", "show", "fail-1").out
    assert "failed (logic, discarded)" in shown
    assert "by ada, " in shown
    assert ": a test\n" in shown
    assert "Next:" not in shown
    again = ask("dead", "discard", "fail-1", "hold-1", "--json")
    assert again.status == 1
    assert again.things == [
        {"id": "fail-1", "accepted": False},
        {"id": "hold-1", "accepted": False},
    ]


def test_a_replayed_letter_is_a_new_run(shop: str, ask: Ask) -> None:
    answer = ask("dead", "replay", "fail-1", "--json")
    assert answer.status == 0
    assert answer.thing["accepted"] is True
    assert ask("dead", "list", "--json").things == []
    refused = ask("dead", "replay", "fail-1", "--force")
    assert refused.status == 1
    assert "fail-1" in refused.err


def test_bars_show_every_failure() -> None:
    assert bars([0, 1, 8, 0, 4]) == " ▁█ ▄"
    assert bars([1, 1000]) == "▁█"
    assert bars([0, 0]) == "-"
