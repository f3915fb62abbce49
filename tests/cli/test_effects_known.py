"""`onward effects` on those whose receiver knows the key, and how often they are sent."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward import App, Retry, effect, workflow
from tests.kit.watching import until_state

if TYPE_CHECKING:
    from tests.cli.conftest import Ask

HOURLY = Retry(attempts=20, delay="1h", max_delay="1h")


async def lost() -> str:
    raise ConnectionError("no answer")


repeating = effect(name="repeating", idempotency_window="24h", retry=HOURLY)(lost)
used_up = effect(name="used up", idempotency_window="24h", retry=Retry(attempts=1))(lost)
too_late = effect(name="too late", idempotency_window="1h", retry=HOURLY)(lost)
unlimited = effect(name="unlimited", retry=Retry(attempts=None))(lost)

STATES = {
    repeating: "waiting",
    used_up: "paused",
    too_late: "paused",
    unlimited: "paused",
}


@workflow
async def calls(which: str) -> str:
    return await {each.name: each for each in STATES}[which]()


@pytest.fixture
def _uncertain(_in_a_folder_of_its_own: None) -> None:
    """Leave one of each behind."""

    async def fill() -> None:
        async with App("onward.db") as app, app.worker():
            for each, state in STATES.items():
                await until_state(await app.start(calls.options(id=each.name), each.name), state)

    asyncio.run(fill())


def facts(ask: Ask, run: str) -> dict[str, str]:
    """Return what `show` says of the effect of a run."""
    [one] = ask("effects", "list", "--run", run, "--json").things
    out = ask("effects", "show", one["id"]).out
    found = dict(line.split("  ", 1) for line in out.partition("\n\n")[0].splitlines())
    return {name.strip(): value.strip() for name, value in found.items()}


pytestmark = pytest.mark.usefixtures("_uncertain")


def test_the_list_says_what_they_wait_for(ask: Ask) -> None:
    found = {one["name"]: one for one in ask("effects", "list", "--json").things}
    assert {name: (one["state"], one["waits_for"]) for name, one in found.items()} == {
        "repeating": ("needs_reconcile", "next send"),
        "used up": ("indeterminate", "verdict"),
        "too late": ("indeterminate", "verdict"),
        "unlimited": ("indeterminate", "verdict"),
    }
    assert (found["repeating"]["tries"], found["unlimited"]["tries"]) == (20, None)
    assert (found["repeating"]["known_until"] is None, found["unlimited"]["known_until"]) == (
        False,
        None,
    )


def test_show_says_how_often_it_was_sent_and_when_it_is_again(ask: Ask) -> None:
    told = facts(ask, "repeating")
    assert "the send began no later than 2" in told["sent"]
    assert told["sent"].startswith("once (limit: 20); ")
    assert told["receiver"].startswith("remembers the key until 2")
    assert told["next"].startswith("sent again at 2")
    assert told["why"] == "ConnectionError: no answer"
    assert "reconciler" not in told


def test_show_says_why_it_is_not_sent_again_by_itself(ask: Ask) -> None:
    assert facts(ask, "used up")["next"] == "not sent again automatically: no attempts are left"
    assert facts(ask, "too late")["next"] == (
        "not sent again automatically: the key may expire before the call arrives"
    )
    assert "next" not in facts(ask, "unlimited")


def test_show_names_no_limit_where_there_is_none(ask: Ask) -> None:
    told = facts(ask, "unlimited")
    assert "the send began no later than 2" in told["sent"]
    assert "limit" not in told["sent"]
    assert told["reconciler"] == "none"
    assert "receiver" not in told


@pytest.mark.parametrize("run", ["repeating", "used up"])
def test_asking_again_is_offered_as_a_send_and_counts(run: str, ask: Ask) -> None:
    [one] = ask("effects", "list", "--run", run, "--json").things
    shown = ask("effects", "show", one["id"], "--json").thing
    [again] = [choice for choice in shown["choices"] if choice["verdict"] == "ask_again"]
    assert again["meaning"] == "send it again: its receiver deduplicates by key"

    answer = ask("effects", "resolve", one["id"], "ask_again", "--reason", "it is back")

    assert answer.status == 0
    assert "is needs_reconcile and is waiting for its next send" in answer.out
