"""Bulk actions of `onward runs`: filters instead of ids, previews, progress and refusals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from onward import App, Fatal, effect, workflow
from onward.cli import waiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.cli.conftest import Ask


@effect
async def apologise(to: str) -> None: ...


@workflow
async def charge(cents: int) -> int:
    raise Fatal(f"{cents} cents")


@workflow
async def saga(cents: int) -> int:
    await apologise("before")
    try:
        raise Fatal(f"{cents} cents")
    finally:
        await apologise("after")


@pytest.fixture
def db(tmp_path: Path) -> str:
    """A database with failed runs."""
    url = str(tmp_path / "onward.db")
    with App(url).sync() as app, app.worker(workflows=[charge, saga]):
        runs = [app.start(charge.options(id=f"charge-{n}"), n) for n in range(3)]
        runs.append(app.start(saga.options(id="saga-1"), 1))
        for run in runs:
            with pytest.raises(Exception, match="cents"):
                run.result()
    return url


@pytest.fixture
def worker(db: str) -> Iterator[None]:
    """A worker without any workflow of its own, in a thread."""
    with App(db).sync() as app, app.worker(workflows=[]):
        yield


def test_a_dry_run_shows_how_many_match(db: str, ask: Ask) -> None:
    answer = ask("runs", "retry", "--workflow", "charge", "--error", "Fatal", "--dry-run")
    first, head, *rows = answer.out.splitlines()
    assert answer.status == 0
    assert first == "Dry run of retry: 3 runs match. Nothing was changed."
    assert head.split() == ["ID", "NAME", "STATE", "ERROR", "CREATED"]
    assert [row.split()[0] for row in rows] == ["charge-2", "charge-1", "charge-0"]
    thing = ask("runs", "discard", "--all", "--dry-run", "--json").thing
    assert (thing["action"], thing["count"], len(thing["sample"])) == ("discard", 4, 4)
    assert len(ask("dead", "list", "--json").things) == 4


@pytest.mark.usefixtures("worker")
def test_runs_that_match_are_retried_by_any_worker(db: str, ask: Ask) -> None:
    answer = ask("runs", "retry", "--name", "charge", "--json")
    assert answer.status == 0
    assert (answer.thing["done"], answer.thing["refused"]) == (3, 0)
    assert [one["id"] for one in ask("dead", "list", "--json").things] == ["saga-1"]
    shown = ask("runs", "list", "--name", "onward.bulk", "--json").thing
    assert (shown["id"], shown["state"]) == (answer.thing["bulk"], "succeeded")


@pytest.mark.usefixtures("worker")
def test_refusals_are_listed_with_the_option_that_overrides_them(db: str, ask: Ask) -> None:
    answer = ask("runs", "fork", "--name", "saga", "--step", "apologise", "--json")
    assert answer.status == 1
    assert answer.thing["by_error"] == {"would_resend": 1}
    text = ask("runs", "fork", "--name", "saga", "--step", "apologise").out
    assert "0 done, 1 refused." in text
    assert "--resend" in text
    done = ask("runs", "fork", "--name", "saga", "--step", "apologise", "--resend")
    assert (done.status, done.out.splitlines()[-1]) == (0, "1 done, 0 refused.")


@pytest.mark.usefixtures("worker")
def test_dead_letters_are_discarded_in_bulk(db: str, ask: Ask) -> None:
    words = ["--reason", "a test", "--by", "ada"]
    assert ask("runs", "discard", "charge-1", *words).out == "run charge-1 is discarded\n"
    answer = ask("runs", "discard", "--all", *words)
    assert answer.out.splitlines()[-1] == "3 done, 0 refused."
    assert ask("dead", "list", "--json").things == []


def test_open_runs_are_chosen_by_filters_too(db: str, ask: Ask) -> None:
    assert ask("dead", "replay", "charge-1", "charge-2").status == 0
    for verb in ("pause", "cancel"):
        thing = ask("runs", verb, "--name", "charge", "--state", "ready", "--dry-run", "--json")
        assert thing.thing["count"] == 2
    assert ask("runs", "resume", "--all", "--dry-run", "--json").thing["count"] == 0


def test_a_bulk_action_can_be_left_to_itself(db: str, ask: Ask) -> None:
    answer = ask("runs", "retry", "--all", "--no-wait", "--bulk-id", "fix-1", "--json")
    assert answer.thing == {"bulk": "fix-1", "action": "retry", "count": 4}
    again = ask("runs", "retry", "--all", "--no-wait", "--bulk-id", "fix-1")
    assert again.out == "bulk retry fix-1 was started: 4 runs match\n"
    assert len(ask("runs", "list", "--name", "onward.bulk", "--json").things) == 1


def test_a_bulk_action_without_runs_needs_no_worker(db: str, ask: Ask) -> None:
    answer = ask("runs", "cancel", "--name", "nobody")
    assert (answer.status, answer.out) == (0, "Bulk cancel: 0 runs match. Nothing was changed.\n")
    thing = ask("runs", "pause", "--name", "nobody", "--json").thing
    assert (thing["bulk"], thing["total"], thing["done"], thing["refused"]) == (None, 0, 0, 0)
    assert ask("runs", "list", "--name", "onward.bulk", "--json").things == []


def test_a_command_waits_for_a_bulk_action_no_longer_than_it_is_told(db: str, ask: Ask) -> None:
    words = ("runs", "retry", "--name", "charge", "--bulk-id", "fix-1", "--timeout", "10ms")
    answer = ask(*words)
    assert answer.status == 1
    assert "The bulk action has not ended yet" in answer.out
    assert "onward runs show fix-1" in answer.out
    thing = ask(*words, "--json").thing
    assert (thing["bulk"], thing["count"], thing["ended"]) == ("fix-1", 3, False)
    with App(db).sync() as app, app.worker(workflows=[]):
        assert app.get("fix-1").result().done == 3


def test_a_bulk_action_that_no_worker_carries_out_says_so(
    db: str, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting, "NO_WORKER_SECONDS", 0.0)
    answer = ask("runs", "retry", "--all", "--bulk-id", "fix-1", "--timeout", "500ms")
    assert "No worker serves queue 'default': run fix-1 will begin when one does." in answer.err


@pytest.mark.parametrize(
    "words",
    [
        ["retry"],
        ["retry", "charge-1", "--name", "charge"],
        ["discard", "charge-1", "--dry-run"],
        ["fork", "--name", "charge", "--new-id", "x"],
        ["fork", "charge-1", "charge-2"],
        ["retry", "charge-1", "--timeout", "1s"],
        ["cancel", "charge-1", "--timeout", "1s"],
        ["cancel", "--all", "--wait"],
        ["cancel", "--all", "--no-wait", "--timeout", "1s"],
    ],
    ids=" ".join,
)
def test_ids_and_filters_are_not_mixed(words: list[str], ask: Ask, db: str) -> None:
    answer = ask("runs", *words)
    assert answer.status == 2
    texts = ("Pass", "cannot be combined", "requires")
    assert any(text in answer.err for text in texts)


@pytest.mark.parametrize(
    "words",
    [["retry", "--all"], ["cancel", "open-1", "--wait"], ["cancel", "--all"]],
    ids=" ".join,
)
def test_a_wrong_timeout_is_refused_before_anything_is_done(
    words: list[str], ask: Ask, db: str
) -> None:
    with App(db).sync() as app:
        app.start(charge.options(id="open-1"), 7)
    answer = ask("runs", *words, "--timeout", "soon")
    assert answer.status == 2
    assert "'soon'" in answer.err
    assert ask("runs", "show", "open-1", "--json").thing["state"] == "ready"
    assert ask("runs", "list", "--name", "onward.bulk", "--json").things == []


def test_a_start_with_a_wrong_timeout_starts_nothing(ask: Ask, db: str) -> None:
    answer = ask("start", "charge", '{"cents": 1}', "--id", "new", "--wait", "--timeout", "soon")
    assert (answer.status, "'soon'" in answer.err) == (2, True)
    assert ask("runs", "list", "--id", "new", "--json").things == []
