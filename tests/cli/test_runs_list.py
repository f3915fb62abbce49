"""`onward runs list`: what somebody started, families, tags and attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import onward
from onward import App, Retry, step, workflow
from onward.errors import RunFailed

if TYPE_CHECKING:
    from tests.cli.conftest import Ask


@workflow
async def pack(parcel: str) -> str:
    onward.current().attributes["parcel"] = parcel
    return parcel


@workflow
async def order(number: int) -> None:
    run = onward.current()
    run.attributes["customer"] = number
    run.attributes["note"] = str(number)
    await pack.options(id=f"parcel-{number}")("big")


@pytest.fixture
def db(url: str) -> str:
    """A database with two orders, each with a parcel, and one of them for Europe."""
    with App(url).sync() as app, app.worker(workflows=[order, pack]):
        app.run(order.options(id="order-1"), 1)
    with App(url).sync() as app, app.worker(workflows=[order, pack], tags=["eu"]):
        app.run(order.options(id="order-2", tags=["eu"]), 2)
    return url


def ids(ask: Ask, db: str, *words: str) -> set[str]:
    return {one["id"] for one in ask("runs", "list", "--db", db, "--json", *words).things}


def test_only_what_somebody_started_is_listed_and_the_rest_is_hinted_at(db: str, ask: Ask) -> None:
    answer = ask("runs", "list", "--db", db, "--json")
    assert [one["id"] for one in answer.things] == ["order-2", "order-1"]
    assert "Not shown: 2 runs that other runs started (use --all" in answer.err


def test_all_are_listed_when_asked_for_without_a_hint(db: str, ask: Ask) -> None:
    answer = ask("runs", "list", "--db", db, "--all", "--json")
    assert {one["id"] for one in answer.things} == {"order-1", "order-2", "parcel-1", "parcel-2"}
    assert answer.err == ""


def test_the_hint_is_about_those_that_were_asked_for(db: str, ask: Ask) -> None:
    answer = ask("runs", "list", "--db", db, "--name", "pack")
    assert (answer.status, answer.out) == (0, "No runs match.\n")
    assert "Not shown: 2 runs" in answer.err
    assert "Not shown" not in ask("runs", "list", "--db", db, "--state", "failed").err


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (("--root", "order-1"), {"order-1", "parcel-1"}),
        (("--parent", "order-1"), {"parcel-1"}),
        (("--parent", "order-1", "--state", "failed"), set()),
        (("--tag", "eu"), {"order-2"}),
        (("--attribute", "customer=2"), {"order-2"}),
        (("--attribute", "note=2"), {"order-2"}),
        (("--attribute", "customer=2", "--attribute", "note=1"), set()),
        (("--attribute", "parcel=big"), set()),
        (("--attribute", "parcel=big", "--all"), {"parcel-1", "parcel-2"}),
        (("--attribute", "parcel=big", "--root", "order-1"), {"parcel-1"}),
    ],
)
def test_runs_are_found_by(words: tuple[str, ...], found: set[str], db: str, ask: Ask) -> None:
    assert ids(ask, db, *words) == found


def test_a_family_is_found_by_the_beginning_of_an_id(db: str, ask: Ask) -> None:
    uid = ask("runs", "show", "order-1", "--db", db, "--json").thing["uid"]
    assert ids(ask, db, "--root", uid[:-1]) == {"order-1", "parcel-1"}


def test_a_family_of_nobody_is_an_answer(db: str, ask: Ask) -> None:
    answer = ask("runs", "list", "--db", db, "--root", "nobody")
    assert (answer.status, answer.out) == (1, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--attribute", "customer"), "Write NAME=VALUE"),
        (("--attribute", "=1"), "Write NAME=VALUE"),
        (("--tag", "two words"), "contains a space"),
        (("--root", "order-1", "--parent", "order-1"), "cannot be combined"),
    ],
)
def test_what_is_not_understood_is_told(
    words: tuple[str, ...], said: str, db: str, ask: Ask
) -> None:
    answer = ask("runs", "list", "--db", db, *words)
    assert (answer.status, answer.out) == (2, "")
    assert said in answer.err


def test_a_run_that_no_live_worker_can_take_says_why(url: str, ask: Ask) -> None:
    with App(url).sync() as app, app.worker(workflows=[pack]):
        app.start(order.options(id="order-1"), 1)
        app.run(pack.options(id="parcel"), "big")
        out = ask("runs", "list", "--db", url).out
        listed = ask("runs", "list", "--db", url, "--json").things
    assert "ready (no worker knows workflow 'order')" in out
    blocked = {one["id"]: one["blocked"] for one in listed}
    assert blocked == {"order-1": "no worker knows workflow 'order'", "parcel": None}


broken: set[str] = set()


@step(retry=Retry(attempts=1))
async def weigh() -> int:
    if broken:
        raise ValueError("lighter than nothing")
    return 7


@workflow
async def parcel() -> int:
    return await weigh()


@pytest.fixture
def retried(url: str) -> str:
    """A database with a run that failed and whose retry succeeded, and another that failed."""
    with App(url).sync() as app, app.worker(workflows=[parcel]):
        broken.add("scale")
        for name in ("parcel-1", "parcel-2"):
            with pytest.raises(RunFailed):
                app.run(parcel.options(id=name))
        broken.clear()
        app.retry("parcel-1").result(timeout="60s")
    return url


def test_a_run_whose_retry_succeeded_is_not_listed_as_failed(retried: str, ask: Ask) -> None:
    assert ids(ask, retried, "--state", "failed") == {"parcel-2"}
    assert ids(ask, retried, "--state", "succeeded") == {"parcel-1"}
    with App(retried).sync() as app:
        assert app.counts() == {"failed": 1, "succeeded": 1}


def test_a_run_that_was_retried_says_as_which_one(retried: str, ask: Ask) -> None:
    again, _, first = ask("runs", "list", "--db", retried, "--json").things
    assert (again["followed_by"], first["followed_by"]) == (None, again["uid"])
    assert (first["followed_link"], again["attempt"], first["attempt"]) == ("retry_of", 2, 1)

    lines = ask("runs", "list", "--db", retried).out.splitlines()
    assert lines[1].split()[:4] == ["parcel-1", "parcel", "2", "succeeded"]
    assert f" 1    failed (logic), retried as {again['uid']} " in lines[3]
    shown = ask("runs", "show", first["uid"], "--db", retried).out
    assert f"failed (logic), retried as {again['uid']}" in shown
    assert f"retry of {first['uid']}" in ask("runs", "show", "parcel-1", "--db", retried).out


def test_a_list_has_the_errors_of_runs(retried: str, ask: Ask) -> None:
    errors = [one["error"] for one in ask("runs", "list", "--db", retried, "--json").things]
    assert errors == [None, *["ValueError: lighter than nothing"] * 2]


def test_a_child_and_a_fork_name_other_runs_by_their_ids(db: str, ask: Ask) -> None:
    ask("runs", "fork", "order-1", "--new-id", "order-3", "--db", db)
    [fork] = ask("runs", "list", "--name", "order", "--state", "ready", "--db", db, "--json").things
    assert (fork["follows_id"], fork["link"]) == ("order-1", "forked_from")
    assert f"fork of {fork['follows']} (order-1)" in ask("runs", "show", "order-3", "--db", db).out
    assert ["parent", "order-1"] in [
        line.split() for line in ask("runs", "show", "parcel-1", "--db", db).out.splitlines()
    ]
