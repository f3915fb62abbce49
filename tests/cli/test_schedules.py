"""`onward schedules`: rules that start runs, as operators see and change them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Ask

NIGHTLY = ("nightly", "report", "--cron", "0 2 * * *", "--zone", "Europe/Berlin")


@pytest.fixture
def db(url: str, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database that commands find, without any schedules."""
    monkeypatch.setenv("ONWARD_DB", url)
    assert ask("migrate").status == 0
    return url


@pytest.fixture
def nightly(db: str, ask: Ask) -> str:
    assert ask("schedules", "create", *NIGHTLY, "--arg", "region=EU").status == 0
    return "nightly"


def test_a_created_schedule_is_listed_and_shown(nightly: str, ask: Ask) -> None:
    [listed] = ask("schedules", "list", "--json").things
    shown = ask("schedules", "show", nightly, "--json").thing

    assert (listed["name"], listed["workflow"], listed["state"]) == ("nightly", "report", "active")
    assert listed["arguments"] == {"region": "EU"}
    assert listed["next_at"].endswith(("T02:00:00+01:00", "T02:00:00+02:00"))
    assert (len(shown["preview"]), shown["slots"]) == (3, [])


def test_people_get_tables(nightly: str, ask: Ask) -> None:
    ask("schedules", "trigger", nightly)

    head, row = ask("schedules", "list").out.splitlines()
    shown = ask("schedules", "show", nightly).out

    assert head.split() == ["NAME", "WORKFLOW", "WHEN", "ZONE", "STATE", "NEXT", "OPEN"]
    assert row.startswith("nightly  report    0 2 * * *")
    assert "when       0 2 * * * (Europe/Berlin)" in shown
    assert "triggered" in shown


def test_a_database_without_schedules_says_so(db: str, ask: Ask) -> None:
    assert ask("schedules", "list").out == "There are no schedules.\n"


def test_a_dry_run_creates_nothing(db: str, ask: Ask) -> None:
    answer = ask("schedules", "create", *NIGHTLY, "--dry-run", "--json")

    assert (answer.status, len(answer.things)) == (0, 5)
    assert ask("schedules", "list", "--json").things == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--cron", "0 2 * *"), "not a cron expression"),
        (("--cron", "0 2 * * *", "--zone", "Mars"), "not a time zone"),
        (("--every", "10ms"), "shorter than a second"),
        (("--every", "soon"), "is not a valid duration"),
        ((), "neither cron= nor every="),
        (("--every", "1h", "--cron", "@daily"), "both cron= and every="),
        (("--every", "1h", "--jitter", "2d"), "longer than a day"),
        (("--every", "1h", "--max-catch-up", "0"), "max_catch_up=0"),
    ],
)
def test_what_cannot_be_done_is_refused(
    words: tuple[str, ...], said: str, shop: str, ask: Ask
) -> None:
    answer = ask("schedules", "create", "x", "report", *words)

    assert (answer.status, said in answer.err) == (2, True)
    assert ask("schedules", "list", "--json").things == []


def test_arguments_are_checked_against_code(shop: str, ask: Ask) -> None:
    hourly = ("--every", "1h", "--module", "tests.cli.shop")

    answer = ask("schedules", "create", "x", "pay", *hourly, "--arg", "nonsense=1")

    assert answer.status == 2
    assert "schedule 'x' cannot call its workflow: pay()" in answer.err


def test_a_pause_and_its_end_are_shown(nightly: str, ask: Ask) -> None:
    assert ask("schedules", "pause", nightly).out == "nightly is paused\n"
    assert ask("schedules", "show", nightly, "--json").thing["state"] == "paused"
    assert ask("schedules", "resume", nightly).out.startswith("nightly is active, next at ")


def test_a_name_that_is_unknown_is_the_answer_no(nightly: str, ask: Ask) -> None:
    answer = ask("schedules", "pause", "nope", nightly)

    assert (answer.status, answer.out) == (1, "nightly is paused\n")
    assert "there is no schedule 'nope'" in answer.err


def test_a_trigger_starts_a_run(nightly: str, ask: Ask) -> None:
    started = ask("schedules", "trigger", nightly, "--json").thing

    assert started["run"].startswith("nightly@")
    [run] = ask("runs", "list", "--json").things
    assert (run["id"], run["name"]) == (started["run"], "report")
    [slot] = ask("schedules", "slots", nightly, "--json").things
    assert (slot["disposition"], slot["run"]) == ("triggered", started["run"])


def test_a_backfill_can_be_tried_first(nightly: str, ask: Ask) -> None:
    span = ("2026-01-01T00:00Z", "2026-01-04T00:00Z")

    tried = ask("schedules", "backfill", nightly, *span, "--dry-run", "--json")
    assert ask("runs", "list", "--json").things == []
    done = ask("schedules", "backfill", nightly, *span)

    assert [slot["run"] for slot in tried.things] == [
        f"nightly@2026-01-0{day}T02:00+01:00" for day in (1, 2, 3)
    ]
    assert "3 runs would start." in tried.err
    assert "3 runs started." in done.err
    assert len(ask("runs", "list", "--json").things) == 3


@pytest.mark.parametrize("start", ["2026-01-01T00:00", "yesterday"])
def test_a_time_without_a_zone_is_refused(start: str, nightly: str, ask: Ask) -> None:
    answer = ask("schedules", "backfill", nightly, start, "2026-02-01T00:00Z")

    assert (answer.status, "Write it like" in answer.err) == (2, True)


def test_a_preview_begins_where_one_says(nightly: str, ask: Ask) -> None:
    when = ("--after", "2026-03-27T12:00Z", "--count", "2")

    slots = ask("schedules", "preview", nightly, *when, "--json").things

    assert [slot["at"] for slot in slots] == [
        "2026-03-28T02:00:00+01:00",
        "2026-03-29T03:00:00+02:00",
    ]


def test_settings_are_changed(nightly: str, ask: Ask) -> None:
    words = ("--every", "90s", "--overlap", "coalesce", "--arg", "region=US")

    changed = ask("schedules", "update", nightly, *words, "--json").thing

    assert (changed["cron"], changed["every"], changed["overlap"]) == (None, "1m30s", "coalesce")
    assert changed["arguments"] == {"region": "US"}
    assert ask("schedules", "update", nightly).status == 2


def test_a_schedule_is_deleted(nightly: str, ask: Ask) -> None:
    assert ask("schedules", "delete", nightly, "--dry-run").out == "nightly would be deleted\n"
    assert ask("schedules", "delete", nightly).out == "nightly was deleted\n"
    assert ask("schedules", "delete", nightly).status == 1
