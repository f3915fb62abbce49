"""`onward runs`: see runs, and tell them what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from onward import App, workflow
from onward.errors import RunFailed
from tests.cli.shop import fail, go, hold

if TYPE_CHECKING:
    from tests.cli.conftest import Ask


def state(ask: Ask, run: str) -> str:
    return str(ask("runs", "show", run, "--json").thing["state"])


def made_id(ask: Ask) -> str:
    """Return the id of the run whose id Onward made."""
    [found] = [one["id"] for one in ask("runs", "list", "--json").things if one["id"] == one["uid"]]
    return str(found)


# --- looking --------------------------------------------------------------------------------------


def test_runs_are_listed_newest_first(shop: str, ask: Ask) -> None:
    uids = [one["uid"] for one in ask("runs", "list", "--json").things]
    assert len(uids) == 6
    assert uids == sorted(uids, reverse=True)


def test_people_see_state_and_reason(shop: str, ask: Ask) -> None:
    head, *rows = ask("runs", "list").out.splitlines()
    assert head.split() == ["ID", "NAME", "TRY", "STATE", "ERROR", "QUEUE", "CREATED", "DUE"]
    [row] = [row for row in rows if row.startswith("pay-1 ")]
    assert "paused (reconciliation)" in row


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        (("--state", "failed"), {"fail-1"}),
        (("--name", "pay"), {"pay-1"}),
        (("--queue", "elsewhere"), set()),
    ],
)
def test_runs_are_listed_by(words: tuple[str, ...], ids: set[str], shop: str, ask: Ask) -> None:
    assert {one["id"] for one in ask("runs", "list", *words, "--json").things} == ids


def test_runs_are_listed_by_pages(shop: str, ask: Ask) -> None:
    page = ask("runs", "list", "--limit", "5", "--json")
    last = page.things[-1]["uid"]
    assert f"--before {last}" in page.err
    assert len(ask("runs", "list", "--before", last, "--json").things) == 1


def test_a_page_goes_on_after_a_run_that_is_there(shop: str, ask: Ask) -> None:
    first, second, *_ = ask("runs", "list", "--json").things
    assert ask("runs", "list", "--before", first["id"], "--json").things[0] == second
    answer = ask("runs", "list", "--before", "nobody")
    assert (answer.status, answer.out) == (1, "")


def test_an_empty_list_says_that_no_runs_match(shop: str, ask: Ask) -> None:
    answer = ask("runs", "list", "--namespace", "other")
    assert (answer.status, answer.out) == (0, "No runs match.\n")


def test_a_run_is_shown_with_its_arguments_history_and_error(shop: str, ask: Ask) -> None:
    one = ask("runs", "show", "fail-1", "--json").thing
    assert (one["state"], one["arguments"]) == ("failed", {})
    assert one["error"] == "ValueError: lighter than nothing"
    assert [(each["seq"], each["name"], each["state"]) for each in one["history"]] == [
        (1, "weigh", "succeeded"),
        (2, "weigh", "failed"),
    ]
    assert one["history"][1]["error"] == "ValueError: lighter than nothing"


def test_a_run_that_waits_for_a_verdict_names_the_effect(shop: str, ask: Ask) -> None:
    [effect] = ask("effects", "list", "--run", "pay-1", "--json").things
    assert f"onward effects show {effect['id']}" in ask("runs", "show", "pay-1").out


def test_looking_takes_any_beginning_that_is_clear(shop: str, ask: Ask) -> None:
    assert ask("runs", "show", "pa", "--json").thing["id"] == "pay-1"
    made = made_id(ask)
    assert ask("runs", "show", made[:-3].upper(), "--json").thing["id"] == made
    assert ask("runs", "show", made[:2]).status == 1


def test_an_older_run_of_an_id_is_shown_by_its_uid(shop: str, ask: Ask) -> None:
    old = ask("runs", "show", "fail-1", "--json").thing["uid"]
    new = ask("runs", "retry", "fail-1", "--json").thing["uid"]
    assert ask("runs", "show", "fail-1", "--json").thing["uid"] == new
    assert ask("runs", "show", old, "--json").thing["state"] == "failed"
    assert ask("runs", "retry", old).status == 1


@pytest.mark.parametrize("command", ["show", "cancel", "pause", "resume", "retry", "fork"])
def test_a_run_that_is_not_there_is_an_answer(command: str, shop: str, ask: Ask) -> None:
    answer = ask("runs", command, "nobody")
    assert (answer.status, answer.out) == (1, "")
    assert "there is no run 'nobody' in namespace 'default'" in answer.err


# --- telling --------------------------------------------------------------------------------------


def test_changing_takes_no_beginning_of_somebodys_own_id(shop: str, ask: Ask) -> None:
    answer = ask("runs", "cancel", "hold", "--force")
    assert answer.status == 1
    assert "it matches hold-1. To change a run, pass its full id." in answer.err
    assert state(ask, "hold-1") == "waiting"


def test_changing_takes_the_beginning_of_a_made_id(shop: str, ask: Ask) -> None:
    made = made_id(ask)
    assert ask("runs", "cancel", made[:-3], "--force").status == 0
    assert state(ask, made) == "cancelled"


def test_force_ends_it_at_once(shop: str, ask: Ask) -> None:
    answer = ask("runs", "cancel", "hold-1", "--force", "--json")
    assert (answer.status, answer.thing) == (
        0,
        {"id": "hold-1", "accepted": True, "state": "cancelled"},
    )


def test_cancelling_what_is_over_comes_too_late(shop: str, ask: Ask) -> None:
    answer = ask("runs", "cancel", "fail-1")
    assert (answer.status, answer.out) == (1, "run fail-1 has already ended: it has failed\n")


def test_each_of_several_is_done_whatever_becomes_of_the_others(shop: str, ask: Ask) -> None:
    answer = ask("runs", "cancel", "nobody", "hold-1", "fail-1", "write-1", "--force", "--json")
    assert answer.status == 1
    assert [(one["id"], one["accepted"]) for one in answer.things] == [
        ("hold-1", True),
        ("fail-1", False),
        ("write-1", True),
    ]
    assert '"not_found"' in answer.err


def test_waiting_ends_with_the_run(shop: str, ask: Ask) -> None:
    with App(shop).sync() as app, app.worker():
        answer = ask("runs", "cancel", "hold-1", "--wait", "--timeout", "20s")
    assert (answer.status, answer.out) == (0, "run hold-1 was cancelled\n")


def test_waiting_ends_with_its_time(shop: str, ask: Ask) -> None:
    answer = ask("runs", "cancel", "hold-1", "--wait", "--timeout", "10ms")  # nobody works here
    assert (answer.status, answer.out) == (1, "run hold-1 is being cancelled\n")


def test_a_run_is_paused_and_resumed(shop: str, ask: Ask) -> None:
    with App(shop).sync() as app, app.worker():
        assert ask("runs", "pause", "hold-1").out == "run hold-1 is being paused\n"
        run = app.get("hold-1")
        with pytest.raises(Exception, match="is paused"):
            run.result(timeout="60s", raise_paused=True)
        assert ask("runs", "resume", "hold-1").out == "run hold-1 continues\n"
        run.signal(go, "now")
        assert run.result(timeout="60s") == "'now' of 3"


@workflow
async def waits_for_another() -> object:
    return await hold.options(id="below-1")()


def test_a_run_that_another_run_holds_is_shown_with_that_run(shop: str, ask: Ask) -> None:
    with App(shop).sync() as app:
        run = app.start(waits_for_another.options(id="above-1"))
        with app.worker():
            while "below-1" not in ask("runs", "list", "--all").out:
                pass
        ask("runs", "pause", "above-1")

        assert "paused (operator, held by run above-1)" in ask("runs", "show", "below-1").out
        listed = ask("runs", "list", "--parent", "above-1").out
        assert "paused (operator, held by run above-1)" in listed
        assert "paused (operator) " in ask("runs", "list", "--state", "paused").out
        assert ask("runs", "show", "below-1", "--json").thing["held_by"] == ["above-1"]
        for _ in range(2):
            resumed = ask("runs", "resume", "below-1")
            assert (resumed.status, resumed.out) == (
                0,
                "run below-1 is still paused, because it is also held by run above-1. "
                "Run: onward runs resume above-1\n",
            )
        assert ask("runs", "resume", "below-1", "--json").thing["held_by"] == ["above-1"]
        ask("runs", "resume", "above-1")
        assert run.state() != "paused"


def test_a_run_whose_effect_needs_a_verdict_stays_paused(shop: str, ask: Ask) -> None:
    answer = ask("runs", "resume", "pay-1")
    expected = "run pay-1 is still paused (reconciliation). Run: onward runs show pay-1\n"
    assert (answer.status, answer.out) == (0, expected)


def test_a_run_that_is_not_paused_is_said_to_be_so(shop: str, ask: Ask) -> None:
    answer = ask("runs", "resume", "hold-1", "--db", shop)
    assert (answer.status, answer.out) == (0, "run hold-1 is not paused: it is waiting\n")


@pytest.mark.parametrize("command", ["pause", "resume"])
def test_what_is_over_is_neither_paused_nor_resumed(command: str, shop: str, ask: Ask) -> None:
    assert ask("runs", command, "fail-1").status == 1


@pytest.mark.parametrize(
    ("words", "heard", "told"),
    [
        (("plain text",), "plain text", 'with the text "plain text"'),
        (("7",), 7, "with the number 7"),
        (("true",), True, "with true"),
        (("null",), None, ""),
        (('{"a": [1]}',), {"a": [1]}, 'with {"a": [1]}'),
        (("NaN",), "NaN", 'with the text "NaN"'),
        (("{",), "{", 'with the text "{"'),
        (("--text", "7"), "7", 'with the text "7"'),
        (("--json-value", "7"), 7, "with the number 7"),
        ((), None, ""),
    ],
)
def test_a_signal_carries_json_or_else_text(
    words: tuple[str, ...], heard: object, told: str, shop: str, ask: Ask
) -> None:
    answer = ask("runs", "signal", "hold-1", "go", *words)
    line = f"run hold-1 was sent signal go {told}".strip() + "\n"
    assert (answer.status, answer.out) == (0, line)
    with App(shop).sync() as app, app.worker(workflows=[hold]):
        assert app.get("hold-1").result(timeout="60s") == f"{heard!r} of 3"


def test_a_signal_of_one_message_id_is_delivered_once(shop: str, ask: Ask) -> None:
    for text in ("first", "second"):
        words = ("go", text, "--message-id", "m-1")
        assert ask("runs", "signal", "hold-1", *words).status == 0
    with App(shop).sync() as app, app.worker(workflows=[hold]):
        assert app.get("hold-1").result(timeout="60s") == "'first' of 3"


def test_a_signal_to_what_is_over_comes_too_late(shop: str, ask: Ask) -> None:
    answer = ask("runs", "signal", "fail-1", "go")
    assert (answer.status, answer.out) == (1, "")
    assert "signal 'go' was not delivered, because the run has already ended" in answer.err


def test_what_failed_is_retried_and_what_did_not_is_refused(shop: str, ask: Ask) -> None:
    answer = ask("runs", "retry", "fail-1")
    assert (answer.status, answer.out) == (0, "run fail-1 is being retried\n")
    assert state(ask, "fail-1") == "ready"
    assert ask("runs", "retry", "hold-1").status == 1


def test_a_fork_begins_with_an_edited_result(shop: str, ask: Ask) -> None:
    with App(shop).sync() as app, app.worker(workflows=[hold]):
        ask("runs", "signal", "hold-1", "go", "one")
        assert app.get("hold-1").result(timeout="60s") == "'one' of 3"
        words = ("--step", "weigh", "--result", "4", "--new-id", "hold-2", "--json")
        answer = ask("runs", "fork", "hold-1", *words)
        assert (answer.status, answer.thing["id"]) == (0, "hold-2")
        assert app.get("hold-2").result(timeout="60s") == "'one' of 4"


def test_a_fork_sends_an_uncertain_effect_again_only_if_it_is_told_to(shop: str, ask: Ask) -> None:
    words = ("runs", "fork", "pay-1", "--step", "weigh", "--new-id", "pay-2")
    answer = ask(*words)
    assert (answer.status, answer.out) == (1, "")
    assert "would resend effects that happened, or may have happened: charge (" in answer.err
    assert ask("runs", "show", "pay-2").status == 1
    assert ask(*words, "--resend").status == 0
    assert state(ask, "pay-2") == "ready"


def test_a_fork_without_a_result_runs_the_step_again(shop: str, ask: Ask) -> None:
    with App(shop).sync() as app, app.worker(workflows=[fail]):
        assert ask("runs", "fork", "fail-1", "--step", "weigh").status == 0
        with pytest.raises(RunFailed, match="lighter"):
            app.get("fail-1").result(timeout="60s")
    assert ask("runs", "show", "fail-1", "--json").thing["link"] == "forked_from"


@pytest.mark.parametrize(
    "words",
    [
        ("cancel",),
        ("cancel", "hold-1", "--timeout", "1s"),
        ("cancel", "hold-1", "--grace", "soon"),
        ("list", "--state", "asleep"),
        ("list", "--limit", "0"),
        ("fork", "hold-1", "--result", "1"),
        ("fork", "hold-1", "--step", "weigh", "--result", "{"),
        ("signal", "hold-1", "go", "text", "--json-value", "1"),
        ("signal", "hold-1", "go", "text", "--text", "text"),
        ("signal", "hold-1", "go", "--json-value", "{"),
    ],
)
def test_what_is_not_understood_changes_nothing(
    words: tuple[str, ...], shop: str, ask: Ask
) -> None:
    def seen() -> list[dict[str, Any]]:
        return ask("runs", "list", "--json").things

    before = seen()
    answer = ask("runs", *words)
    assert (answer.status, answer.out) == (2, "")
    assert "onward" in answer.err
    assert seen() == before
