"""`onward effects`: what waits for somebody, and what operators say."""

from __future__ import annotations

import json
import shlex
import sqlite3
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from onward import App
from onward.cli.command import _again
from onward.errors import RunPaused
from tests.cli.shop import spam

if TYPE_CHECKING:
    from pathlib import Path

    from onward.handles import SyncRun
    from tests.cli.conftest import Ask

CHARGE_WITH_CODE = ("--module", "tests.cli.shop")


def key(ask: Ask, name: str) -> str:
    """Return the id of the only effect of a name."""
    [found] = [
        one["id"] for one in ask("effects", "list", "--all", "--json").things if one["name"] == name
    ]
    return str(found)


def test_the_list_has_what_is_not_settled(shop: str, ask: Ask) -> None:
    found = {one["name"]: one for one in ask("effects", "list", "--json").things}
    assert {name: (one["state"], one["waits_for"]) for name, one in found.items()} == {
        "charge": ("indeterminate", "verdict"),
        "mail": ("planned", "approval"),
        "ship": ("needs_reconcile", "reconciler"),
    }


def test_people_get_a_table(shop: str, ask: Ask) -> None:
    head, *rows = ask("effects", "list").out.splitlines()
    assert head.split() == ["ID", "EFFECT", "STATE", "RUN", "SENT", "WAITS", "FOR", "SINCE"]
    [charge] = [row for row in rows if "charge" in row]
    assert charge.startswith(key(ask, "charge")[:12])
    assert charge.split()[1:6] == ["charge", "indeterminate", "pay-1", "1x", "verdict"]


def test_settled_ones_are_listed_when_asked_for(shop: str, ask: Ask) -> None:
    ask("effects", "reject", key(ask, "mail"), "--reason", "no")
    assert "mail" not in ask("effects", "list").out
    assert "mail" in ask("effects", "list", "--all").out


def test_the_effects_of_one_run_can_be_listed(shop: str, ask: Ask) -> None:
    [one] = ask("effects", "list", "--run", "pay-1", "--json").things
    assert one["name"] == "charge"


@pytest.mark.parametrize("how", [(), ("--all",)])
def test_a_long_list_comes_by_pages(how: tuple[str, ...], shop: str, ask: Ask) -> None:
    every = ask("effects", "list", *how, "--json").things
    seen = []
    after: tuple[str, ...] = ()
    for _ in every:
        page = ask("effects", "list", *how, "--json", "--limit", "1", *after)
        assert f"--after {page.thing['id'][:12]}" in page.err
        seen.append(page.thing["id"])
        after = ("--after", page.thing["id"][:12])
    assert seen == [one["id"] for one in every]
    assert ask("effects", "list", *how, "--limit", "1", *after).status == 0


def test_an_empty_list_is_no_failure(shop: str, ask: Ask) -> None:
    answer = ask("effects", "list", "--namespace", "other")
    assert (answer.status, answer.out) == (0, "All effects are settled.\n")


def test_show_says_what_was_sent_to_whom_and_why_it_is_unknown(shop: str, ask: Ask) -> None:
    charge = key(ask, "charge")
    out = ask("effects", "show", charge[:6]).out
    facts = dict(line.split("  ", 1) for line in out.partition("\n\n")[0].splitlines())
    facts = {name.strip(): value.strip() for name, value in facts.items()}
    assert facts["effect"] == "charge"
    assert facts["id"].startswith(charge)
    assert facts["arguments"] == '{"card": "4242", "cents": 500}'
    assert facts["why"] == "ConnectionError: the line went dead"
    assert facts["sent"] == f"once (limit: 3); the send began no later than {facts['changed']}"
    assert facts["reconciler"] == "none"
    assert facts["not applied"].startswith("valid only from 2")
    assert "next" not in facts


def test_show_says_when_the_reconciler_is_asked_again(shop: str, ask: Ask) -> None:
    out = ask("effects", "show", key(ask, "ship")).out
    assert "ask_carrier: answered once" in out
    assert "reconciled at 2" in out


def test_show_lists_every_send_and_every_question(shop: str, ask: Ask) -> None:
    out = ask("effects", "show", key(ask, "ship")).out
    head, send, question, *_ = out.partition("Attempts:\n")[2].splitlines()
    assert head.split() == ["ATTEMPT", "BEGAN", "TOOK", "OUTCOME", "ERROR"]
    assert (send[:6], send.split()[-2:]) == ("send 1", ["unknown", "ConnectionError"])
    assert (question[:11], question.split()[-2:]) == ("reconcile 1", ["unknown", "-"])


def test_the_attempts_are_in_the_json(shop: str, ask: Ask) -> None:
    [effect] = ask("effects", "show", key(ask, "ship"), "--json").things
    told = [(each["kind"], each["outcome"], each["error"]) for each in effect["attempts"]]
    assert told == [("send", "unknown", "ConnectionError"), ("reconcile", "unknown", None)]
    assert effect["reconciler"] == "ask_carrier"


def test_an_effect_that_was_not_sent_has_no_attempts(shop: str, ask: Ask) -> None:
    assert "Attempts:" not in ask("effects", "show", key(ask, "mail")).out


def test_show_offers_the_verdicts_that_are_possible(shop: str, ask: Ask) -> None:
    def offered(name: str) -> dict[str, object]:
        shown = ask("effects", "show", key(ask, name), "--json").thing
        return {choice["verdict"]: choice["since"] for choice in shown["choices"]}

    assert offered("mail") == {"approve": None, "reject": None, "skip": None}
    assert list(offered("charge")) == ["applied", "not_applied", "skip"]
    assert list(offered("ship")) == ["applied", "not_applied", "skip", "ask_again"]
    assert offered("charge")["not_applied"] is not None  # it is too early


def test_an_offered_command_works_as_it_is_printed(shop: str, ask: Ask) -> None:
    shown = ask("effects", "show", key(ask, "charge"), "--db", shop, "--json").thing
    [command] = [one["command"] for one in shown["choices"] if one["verdict"] == "applied"]
    assert command.startswith(f"onward --db {shop} effects resolve ")
    program, *words = shlex.split(command.replace("JSON", "'\"ch_7\"'").replace("TEXT", "'seen'"))
    assert program == "onward"
    assert ask(*words).status == 0


def test_an_effect_that_returns_nothing_is_offered_null_as_its_result(shop: str, ask: Ask) -> None:
    with closing(sqlite3.connect(shop)) as connection, connection:
        connection.execute("UPDATE onward_effect SET returns = 'None: null'")
    shown = ask("effects", "show", key(ask, "charge"), "--json").thing
    [command] = [one["command"] for one in shown["choices"] if one["verdict"] == "applied"]
    assert "--result null --reason TEXT" in command


def test_an_offered_command_holds_no_password() -> None:
    assert "secret" not in _again({"db": "postgresql://me:secret@host/shop", "namespace": None})


def test_show_says_which_operator_settled_an_effect(shop: str, ask: Ask) -> None:
    charge = key(ask, "charge")
    said = ("skip", "--reason", "lost", "--by", "ada")
    ask("effects", "resolve", charge, *said)
    assert "settled by  operator ada\n" in ask("effects", "show", charge).out
    shown = ask("effects", "show", charge, "--json").thing
    assert (shown["settled_by"], shown["decided_by"]) == ("operator", "ada")


def test_a_settled_effect_offers_nothing(shop: str, ask: Ask) -> None:
    charge = key(ask, "charge")
    ask(
        "effects",
        "resolve",
        charge,
        "applied",
        "--result",
        '"ch_7"',
        "--reason",
        "on the statement",
    )
    answer = ask("effects", "show", charge)
    assert "Possible verdicts" not in answer.out
    assert "applied, by " in answer.out
    assert "on the statement" in answer.out


def test_applied_keeps_the_result(shop: str, ask: Ask) -> None:
    words = ("applied", "--result", '"ch_7"', "--reason", "seen", "--by", "ada")
    answer = ask("effects", "resolve", key(ask, "charge"), *words, "--json")
    one = answer.thing
    assert (answer.status, one["state"], one["result"], one["decided_by"], one["decided_why"]) == (
        0,
        "applied",
        "ch_7",
        "ada",
        "seen",
    )


def test_applied_without_a_result_is_refused_with_the_next_move(shop: str, ask: Ask) -> None:
    charge = key(ask, "charge")
    answer = ask("effects", "resolve", charge, "applied", "--reason", "seen")
    assert answer.status == 2
    assert "--result JSON, or --result null if the call returns nothing" in " ".join(
        answer.err.split()
    )
    assert ask("effects", "show", charge, "--json").thing["state"] == "indeterminate"


def test_a_result_of_another_kind_is_refused_without_the_code(shop: str, process: Ask) -> None:
    charge = key(process, "charge")
    words = ("applied", "--result", "null", "--reason", "seen")
    answer = process("effects", "resolve", charge, *words)
    assert answer.status == 1
    assert "the result is a JSON null, but effect 'charge' returns str" in answer.err
    assert process("effects", "show", charge, "--json").thing["state"] == "indeterminate"


def test_a_result_that_does_not_fit_the_annotation_is_refused(shop: str, ask: Ask) -> None:
    charge = key(ask, "charge")
    words = ("applied", "--result", "[1]", "--reason", "seen", *CHARGE_WITH_CODE)
    assert ask("effects", "resolve", charge, *words).status == 2
    assert ask("effects", "show", charge, "--json").thing["state"] == "indeterminate"


def test_a_module_that_cannot_be_imported_is_named(shop: str, ask: Ask) -> None:
    words = ("applied", "--result", "1", "--reason", "seen", "--module", "no.such.code")
    answer = ask("effects", "resolve", key(ask, "charge"), *words)
    assert answer.status == 2
    assert "module 'no.such.code' cannot be imported" in answer.err


@pytest.mark.parametrize(
    ("name", "verdict", "state"),
    [
        ("charge", "skip", "skipped"),
        ("ship", "ask_again", "needs_reconcile"),
        ("ship", "ask-again", "needs_reconcile"),
    ],
)
def test_a_verdict_counts(name: str, verdict: str, state: str, shop: str, ask: Ask) -> None:
    answer = ask("effects", "resolve", key(ask, name), verdict, "--reason", "so it is", "--json")
    assert (answer.status, answer.thing["state"]) == (0, state)
    assert answer.thing["verdict"] == verdict.replace("-", "_")


def test_too_early_a_verdict_is_refused_with_the_time_from_which_it_counts(
    shop: str, ask: Ask
) -> None:
    answer = ask("effects", "resolve", key(ask, "charge"), "not_applied", "--reason", "no trace")
    assert answer.status == 1
    assert "the call may still arrive until 2" in answer.err


def test_a_verdict_on_what_has_changed_since_is_refused(shop: str, ask: Ask) -> None:
    charge = key(ask, "charge")
    words = ("skip", "--reason", "old news", "--version", "1", "--json")
    answer = ask("effects", "resolve", charge, *words)
    assert (answer.status, json.loads(answer.err)["error"]) == (1, "verdict_refused")
    assert ask("effects", "show", charge, "--json").thing["state"] == "indeterminate"


def test_approving_lets_it_go_and_only_once(shop: str, ask: Ask) -> None:
    mail = key(ask, "mail")
    first = ask("effects", "approve", mail, "--reason", "fine", "--json")
    assert (first.status, first.thing["needs_approval"]) == (0, False)
    assert ask("effects", "approve", mail, "--reason", "fine").status == 1


def test_rejecting_settles_it(shop: str, ask: Ask) -> None:
    answer = ask("effects", "reject", key(ask, "mail"), "--reason", "spam", "--json")
    assert (answer.status, answer.thing["state"]) == (0, "failed")


@pytest.mark.parametrize(
    "words",
    [
        ("resolve", "{}", "applied"),
        ("resolve", "{}", "perhaps", "--reason", "x"),
        ("resolve", "{}", "skip", "--reason", "x", "--result", "1"),
        ("resolve", "{}", "applied", "--reason", "x", "--result", "{no json"),
        ("resolve", "{}", "skip", "--reason", " "),
        ("approve", "{}"),
    ],
)
def test_a_verdict_that_is_not_understood_changes_nothing(
    words: tuple[str, ...], shop: str, ask: Ask
) -> None:
    charge = key(ask, "charge")
    before = ask("effects", "show", charge, "--json").thing["version"]
    assert ask("effects", *(word.replace("{}", charge) for word in words)).status == 2
    assert ask("effects", "show", charge, "--json").thing["version"] == before


@pytest.mark.parametrize("given", ["ffffffffffffffffffffffffffffffff", "nothing like an id", ""])
def test_an_effect_that_is_not_there_is_an_answer(given: str, shop: str, ask: Ask) -> None:
    answer = ask("effects", "show", given)
    assert (answer.status, answer.out) == (1, "")
    assert f"there is no effect {given!r} in namespace 'default'" in answer.err


def test_an_abbreviation_of_several_is_refused_by_name(ask: Ask) -> None:
    with App("onward.db").sync() as app, app.worker():
        run = app.start(spam)  # so many that two begin with the same digit
        run_is_paused(run)
    ids = [one["id"] for one in ask("effects", "list", "--json").things]
    assert len(ids) == 17
    [(digit, _), *_] = Counter(each[0] for each in ids).most_common()
    answer = ask("effects", "approve", digit, "--reason", "whichever")
    assert answer.status == 1
    assert f"{digit!r} is not a complete effect id" in answer.err
    assert next(each for each in sorted(ids) if each[0] == digit) in answer.err
    assert not any(one["attempt"] for one in ask("effects", "list", "--json").things)


def run_is_paused(run: SyncRun[Any]) -> None:
    with pytest.raises(RunPaused):
        run.result(timeout="60s", raise_paused=True)


def test_what_others_wrote_never_reaches_the_terminal_as_it_is(shop: str, ask: Ask) -> None:
    out = ask("effects", "show", key(ask, "ship")).out
    assert r"\x1b[31mred\x9b2J" in out
    assert "\x1b" not in out
    assert "\x9b" not in out


def test_json_is_plain_ascii(shop: str, ask: Ask) -> None:
    out = ask("effects", "show", key(ask, "ship"), "--json").out
    assert out.isascii()
    assert out.strip().isprintable()


def test_the_code_is_found_in_the_current_folder(shop: str, process: Ask, tmp_path: Path) -> None:
    (tmp_path / "my_effects.py").write_text(
        "from onward import effect\n"
        "@effect\n"
        "async def charge(card: str, cents: int) -> int: return 1\n"
    )
    [charge] = [
        one["id"] for one in process("effects", "list", "--json").things if one["name"] == "charge"
    ]
    words = ("applied", "--reason", "seen", "--module", "my_effects", "--result")
    refused = process("effects", "resolve", charge, *words, '"text"')
    assert refused.status == 2
    assert "Traceback" not in refused.err
    assert process("effects", "resolve", charge, *words, "7").status == 0
