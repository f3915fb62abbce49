"""`onward pipelines`, `topics` and `inputs`: what operators see of pipelines, and do to them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from onward import App
from onward.errors import Precondition
from onward.pipelines import Consumer, Input, Pipeline, PrepareContext, Prepared, ProducerContext
from tests.kit.watching import until

if TYPE_CHECKING:
    from tests.cli.conftest import Ask

mail = Pipeline("mail")
received = mail.topic("mail.received", str)
added = mail.topic("mail.added", str, max_pending=5, max_age="1h")


@mail.producer(every="1h", publishes=[received])
async def poll(ctx: ProducerContext, state: None) -> None: ...


@mail.consumer(subscribes=[received], publishes=[added])
class AddRow(Consumer[None, None]):
    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
        events = [each for each in await ctx.peek(received) if each.payload != "wait"]
        if any(event.payload == "break" for event in events):
            raise ValueError("it is broken")
        if any(event.payload == "lock" for event in events):
            raise Precondition("the sheet is locked")
        return Prepared(reserve=events)

    async def next(self, ctx: object, prepared: object, outcome: object) -> None: ...


@mail.consumer(subscribes=[added])
class Count(Consumer[None, None]):
    async def prepare(self, ctx: PrepareContext, state: None) -> Prepared[None]:
        return Prepared()


async def fill(url: str, *payloads: str) -> None:
    """Publish an event for each payload, and let a worker take what it can."""
    app = App(url)
    async with app:
        for number, payload in enumerate(payloads, 1):
            source = Input("inbox", "email", str(number), f"Mail {payload}")
            await app.publish(received, payload, id=f"mail-{number}", input=source)
        async with app.worker(pipelines=[mail]):
            await until(lambda: _is_settled(app))


async def _is_settled(app: App) -> bool:
    [info] = await app.pipelines.list()
    is_idle = all(each.state == "idle" for each in info.handlers)
    return info.state == "blocked" or is_idle


@pytest.fixture
def empty(url: str, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database that commands find, without any pipelines."""
    monkeypatch.setenv("ONWARD_DB", url)
    assert ask("migrate").status == 0
    return url


@pytest.fixture
def db(empty: str) -> str:
    """A database with one event that was consumed, and one that waits."""
    asyncio.run(fill(empty, "hello", "wait"))
    return empty


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("pipelines", "list"), "There are no pipelines.\n"),
        (("topics", "list"), "There are no topics.\n"),
        (("inputs", "list"), "No inputs match.\n"),
        (("inputs", "counts"), "There are no inputs.\n"),
    ],
)
@pytest.mark.usefixtures("empty")
def test_an_empty_list_says_so(words: tuple[str, ...], said: str, ask: Ask) -> None:
    assert ask(*words) == (0, said, "")
    assert ask(*words, "--json") == (0, "", "")


# --- pipelines ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("db")
def test_a_pipeline_is_listed_and_shown(ask: Ask) -> None:
    [listed] = ask("pipelines", "list", "--json").things
    shown = ask("pipelines", "show", "mail", "--json").thing

    assert (listed["name"], listed["state"], listed["is_parallel"]) == ("mail", "active", False)
    assert {each["name"] for each in shown["handlers"]} == {
        "mail.poll",
        "mail.AddRow",
        "mail.Count",
    }
    counts = {each["name"]: each["counts"] for each in shown["topic_counts"]}
    assert counts["mail.received"] == {
        "mail.AddRow": {"pending": 1, "reserved": 0, "consumed": 1, "skipped": 0}
    }


@pytest.mark.usefixtures("db")
def test_people_get_a_table_and_a_graph(ask: Ask) -> None:
    head, row = ask("pipelines", "list").out.splitlines()
    shown = ask("pipelines", "show", "mail").out

    assert head.split() == ["PIPELINE", "STATE", "MODE", "QUEUE", "HANDLERS", "PENDING"]
    assert row.split() == ["mail", "active", "serial", "default", "3", "1"]
    assert (
        "producer mail.poll\n"
        "└─ mail.received: 2 published\n"
        "   └─ consumer mail.AddRow: 1 pending, 0 reserved, 1 consumed, 0 skipped\n"
        "      └─ mail.added: 0 published\n"
        "         └─ consumer mail.Count: 0 pending, 0 reserved, 0 consumed, 0 skipped\n"
    ) in shown


@pytest.mark.parametrize("verb", ["show", "trigger", "pause", "resume"])
@pytest.mark.usefixtures("db")
def test_an_unknown_pipeline_is_an_answer(verb: str, ask: Ask) -> None:
    answer = ask("pipelines", verb, "nothing")
    assert (answer.status, answer.out) == (1, "")
    assert "there is no pipeline 'nothing'" in answer.err


@pytest.mark.usefixtures("db")
def test_producers_are_triggered(ask: Ask) -> None:
    answer = ask("pipelines", "trigger", "mail", "--producer", "poll")
    assert (answer.status, answer.out) == (0, "mail.poll will run soon\n")
    assert ask("pipelines", "trigger", "mail", "--json").thing["producers"] == ["mail.poll"]
    assert ask("pipelines", "trigger", "mail", "--producer", "AddRow").status == 1


@pytest.mark.usefixtures("db")
def test_a_pipeline_is_paused_and_resumed(ask: Ask) -> None:
    assert ask("pipelines", "pause", "mail").out == "mail is paused\n"
    assert ask("pipelines", "list", "--json").thing["state"] == "paused"
    refused = ask("pipelines", "trigger", "mail")
    assert (refused.status, refused.out) == (1, "")
    assert "is paused" in refused.err

    assert ask("pipelines", "resume", "mail").out == "mail is active\n"
    assert ask("pipelines", "list", "--json").thing["state"] == "active"


@pytest.mark.usefixtures("db")
def test_all_pipelines_are_paused_and_resumed(ask: Ask) -> None:
    assert ask("pipelines", "pause", "--all").status == 0
    assert ask("pipelines", "list", "--json").thing["state"] == "paused"
    assert ask("pipelines", "resume", "--all").status == 0
    assert ask("pipelines", "list", "--json").thing["state"] == "active"


@pytest.mark.parametrize("verb", ["pause", "resume"])
@pytest.mark.usefixtures("db")
def test_pipelines_are_named_or_all_of_them_are_meant(verb: str, ask: Ask) -> None:
    assert ask("pipelines", verb).status == 2
    assert ask("pipelines", verb, "mail", "--all").status == 2


def test_what_blocks_a_pipeline_is_shown_with_what_to_do(empty: str, ask: Ask) -> None:
    asyncio.run(fill(empty, "break"))

    listed = ask("pipelines", "list", "--json").thing
    shown = ask("pipelines", "show", "mail").out
    resumed = ask("pipelines", "resume", "mail")

    assert listed["state"] == "blocked"
    [blocked] = [each for each in listed["handlers"] if each["state"] == "blocked"]
    assert f"mail.AddRow: {blocked['why']}. Next: {blocked['next']}" in shown
    assert resumed.out.startswith("mail is active; retried: ")


def test_a_handler_whose_run_is_paused_is_shown_as_paused(empty: str, ask: Ask) -> None:
    asyncio.run(fill(empty, "lock"))

    listed = ask("pipelines", "list", "--json").thing
    [handler] = [each for each in listed["handlers"] if each["name"] == "mail.AddRow"]
    run = handler["run"]

    assert (listed["state"], handler["state"]) == ("blocked", "paused")
    line = f"mail.AddRow: run {run} is paused (precondition). Next: onward why {run}\n"
    assert line in ask("pipelines", "show", "mail").out
    assert f"run {run} is paused (precondition)" in ask("pipelines", "list").out


@pytest.mark.usefixtures("db")
def test_a_run_of_a_consumer_is_shown_with_its_phase(ask: Ask) -> None:
    run = ask("runs", "list", "--json").things[-1]
    shown = ask("runs", "show", run["id"]).out

    assert "consumer  mail.AddRow\nstate     succeeded\nphase     committed\n" in shown
    assert "arguments" not in shown


# --- topics ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("db")
def test_topics_are_listed_with_counts(ask: Ask) -> None:
    things = {each["name"]: each for each in ask("topics", "list", "--json").things}
    head, *rows = ask("topics", "list").out.splitlines()

    assert things["mail.received"]["published"] == 2
    limits = things["mail.added"]["max_pending"], things["mail.added"]["max_age"]
    assert limits == (5, "1h")
    assert head.split()[-4:] == ["PENDING", "RESERVED", "CONSUMED", "SKIPPED"]
    assert rows[1].split() == ["mail.received", "mail", "2", "mail.AddRow", "1", "0", "1", "0"]


@pytest.mark.usefixtures("db")
def test_pending_events_are_shown_and_others_by_id(ask: Ask) -> None:
    [pending] = ask("topics", "peek", "mail.received", "--json").things
    assert (pending["id"], pending["payload"]) == ("mail-2", "wait")

    [consumed] = ask("topics", "peek", "mail.received", "--id", "mail-1", "--json").things
    assert consumed["deliveries"][0]["state"] == "consumed"
    assert "mail.AddRow pending" in ask("topics", "peek", "mail.received").out

    none = ask("topics", "peek", "mail.added")
    assert (none.status, none.out) == (1, "")
    assert none.err == "No events of mail.added match.\n"
    assert ask("topics", "peek", "nothing").status == 1


@pytest.mark.usefixtures("db")
def test_events_are_skipped_and_replayed(ask: Ask) -> None:
    skipped = ask("topics", "skip", "mail.received", "mail-2", "--reason", "a test")
    assert (skipped.status, skipped.out) == (0, "1 delivery is skipped\n")
    again = ask("topics", "skip", "mail.received", "mail-2", "--reason", "a test", "--json")
    assert (again.status, again.thing["skipped"]) == (1, 0)

    both = ask("topics", "replay", "mail.received", "mail-1", "mail-2", "--json")
    assert (both.status, both.thing["replayed"]) == (0, 2)
    counts = ask("topics", "list", "--json").things[1]["counts"]["mail.AddRow"]
    assert (counts["pending"], counts["consumed"], counts["skipped"]) == (2, 0, 0)


@pytest.mark.usefixtures("db")
def test_one_consumer_can_be_meant(ask: Ask) -> None:
    words = ("topics", "replay", "mail.received", "mail-1", "--consumer")
    assert ask(*words, "mail.AddRow").status == 0
    assert ask(*words, "mail.Nothing").status == 1


# --- inputs ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("db")
def test_inputs_are_listed_filtered_and_counted(ask: Ask) -> None:
    newest, oldest = ask("inputs", "list", "--json").things
    assert (newest["title"], newest["state"]) == ("Mail wait", "pending")
    assert (oldest["title"], oldest["state"]) == ("Mail hello", "done")

    words = ("inputs", "list", "--pipeline", "mail", "--source", "inbox", "--text", "hello")
    [done] = ask(*words, "--state", "done", "--json").things
    assert done["external_id"] == "1"
    assert ask("inputs", "list", "--state", "stale", "--json").things == []

    counts = ask("inputs", "counts", "--json").thing
    assert (counts["pending"], counts["done"], counts["skipped"]) == (1, 1, 0)
    assert "Mail wait" in ask("inputs", "list").out


@pytest.mark.usefixtures("db")
def test_an_input_is_shown_with_what_it_caused(ask: Ask) -> None:
    _, oldest = ask("inputs", "list", "--json").things
    shown = ask("inputs", "show", oldest["id"])
    report = ask("inputs", "show", oldest["id"], "--json").thing

    assert report["input"]["title"] == "Mail hello"
    assert [event["id"] for event in report["events"]] == ["mail-1"]
    assert "mail.received  mail-1  mail.AddRow  consumed" in shown.out
    assert "No effects." in shown.out
    assert ask("inputs", "show", "nothing").status == 1


@pytest.mark.usefixtures("db")
def test_an_input_is_skipped(ask: Ask) -> None:
    newest, oldest = ask("inputs", "list", "--json").things

    skipped = ask("inputs", "skip", newest["id"], "--reason", "a test", "--json")
    late = ask("inputs", "skip", oldest["id"], "--reason", "a test", "--json")

    assert (skipped.status, skipped.thing["skipped"]) == (0, 1)
    assert (late.status, late.thing["done"]) == (1, 1)
    assert ask("inputs", "list", "--state", "skipped", "--json").things[0]["id"] == newest["id"]
