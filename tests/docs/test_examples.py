"""Each example runs with one command, ends, and continues after it was killed."""

import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.docs.pages import ROOT

EXAMPLES = ROOT / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.py"))
MAX_LINES = 90
MAX_SECONDS = 60

Run = Callable[[str], str]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs an example to its end and returns its output."""

    def run(name: str) -> str:
        answer = subprocess.run(
            command(name),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        assert _is_as_logged(answer.stderr), answer.stderr
        return answer.stdout

    return run


def _is_as_logged(err: str) -> bool:
    """Return whether stderr has warnings of Onward alone, about failures that an example makes."""
    events = set(re.findall(r"^(\w+\.\w+): (?:run|worker)=", err, re.MULTILINE))
    known = {"step.retried", "step.failed", "effect.uncertain", "effect.waits", "run.paused"}
    begins_well = re.match(r"\w+\.\w+: (?:run|worker)=", err) is not None
    return not err or (events <= known | {"worker.dead"} and begins_well)


def command(name: str) -> list[str]:
    return [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py")]


def kill_when_it_says(words: str, name: str, folder: Path) -> str:
    """Start an example, kill it as soon as it has printed the words, and return its output."""
    said = ""
    with subprocess.Popen(command(name), cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            if words in line:
                process.send_signal(signal.SIGKILL)
                break
        said += process.stdout.read()
        process.wait(MAX_SECONDS)
    assert words in said
    return said


def test_hello_greets_and_shows_its_history(run: Run) -> None:
    assert re.fullmatch(
        r"run [\w-]+ started\n"
        r"HELLO, WORLD!\n"
        r"  1  step   greet  succeeded\n"
        r"  2  timer  sleep  succeeded\n"
        r"  3  step   shout  succeeded\n",
        run("hello"),
    )


def test_a_saga_undoes_what_it_did_last_first(run: Run) -> None:
    said = run("saga").splitlines()
    assert [line.strip() for line in said if "order-2" in line] == [
        "order-2: reserved a shell",
        "order-2: charged 900 cents",
        "order-2: gave 900 cents back",
        "looked up: order-2: gave 900 cents back",
        "order-2: released the shell",
        "order-2: called off: no ship goes to Atlantis",
    ]
    assert "order-1: on its way" in said


@pytest.mark.timeout(2 * MAX_SECONDS)
@pytest.mark.parametrize("words", ["order-1: charged", "order-2: gave"])
def test_a_saga_that_is_killed_goes_on_and_does_nothing_twice(
    run: Run, tmp_path: Path, words: str
) -> None:
    kill_when_it_says(words, "saga", tmp_path)
    after = run("saga")
    assert "order-1: on its way" in after
    assert "order-2: called off: no ship goes to Atlantis" in after
    assert "order-1: reserved" not in after  # it was settled before the charge began
    done = [line.partition(" ")[2] for line in (tmp_path / "saga.world").read_text().splitlines()]
    assert sorted(done) == [
        "order-1: charged 2500 cents",
        "order-1: reserved a teapot",
        "order-1: shipped to Peru",
        "order-2: charged 900 cents",
        "order-2: gave 900 cents back",
        "order-2: released the shell",
        "order-2: reserved a shell",
    ]


def test_a_saga_that_is_over_is_not_done_again(run: Run) -> None:
    run("saga")
    assert run("saga") == ("order-1: on its way\norder-2: called off: no ship goes to Atlantis\n")


def test_a_payment_whose_answer_is_lost_is_found_and_made_once(run: Run) -> None:
    assert run("payment").splitlines() == [
        "    charging Ada's card",
        "    charging Ada's card",
        "    gateway: the card is charged",
        "    asking the gateway: were 2500 cents taken from Ada's card?",
        "teapot is packed, charge 1: 2500 cents from Ada's card",
        "the ledger: charge was sent 2 times, and is applied",
        "the gateway's books: 1 charge",
    ]


@pytest.mark.timeout(2 * MAX_SECONDS)
@pytest.mark.parametrize("words", ["charging Ada's card", "the card is charged"])
def test_a_payment_that_is_killed_is_made_once(run: Run, tmp_path: Path, words: str) -> None:
    kill_when_it_says(words, "payment", tmp_path)
    has_arrived = (tmp_path / "payment.gateway").exists()
    after = run("payment")
    assert after.endswith("\nthe gateway's books: 1 charge\n")
    assert ("    charging" in after) != has_arrived  # sent again only if nothing had happened


def test_a_webhook_that_nobody_knows_about_does_what_the_operator_says(run: Run) -> None:
    said = run("webhook").splitlines()
    assert Counter(line for line in said if "sending" in line) == {
        "    sending 'order 7 is paid' to the warehouse": 1,
        "    sending 'order 7 is paid' to the bank": 2,  # after the verdict that it got nothing
        "    sending 'order 7 is paid' to the museum": 1,
    }
    assert [line for line in said if not line.startswith((" ", "operator"))] == [
        "the warehouse has it, says Ada",
        "the bank said thanks",
        "the museum may or may not know",
    ]


def test_a_mail_goes_out_as_it_was_approved_or_not_at_all(run: Run) -> None:
    assert run("mail_approval").splitlines() == [
        "may this go out? Dear Ada, your teapot is on its way.",
        "    mail to Ada: Dear Ada, your teapot is on its way.",
        "Ada has mail",
        "the ledger: approve by Joan, 'reads well'",
        "may this go out? Dear Grace, we owe you one million.",
        "Grace gets no mail",
        "the ledger: reject by Joan, 'we do not'",
    ]


def test_a_batch_has_a_result_for_every_item(run: Run) -> None:
    said = run("batch")
    assert said.endswith("\n    3 failed\n2,700 sent\n  297 sent abroad\n")


@pytest.mark.timeout(2 * MAX_SECONDS)
def test_a_batch_that_is_killed_goes_on(run: Run, tmp_path: Path) -> None:
    before = kill_when_it_says("is sent", "batch", tmp_path)
    after = run("batch")
    assert after.endswith("\n    3 failed\n2,700 sent\n  297 sent abroad\n")
    sent = Counter(re.findall(r"letter \S+ of", before + after))
    assert len(sent) == 6
    assert all(count <= 2 for count in sent.values())  # twice: sent, and killed before the record


def test_an_approval_is_given_refused_or_asked_of_the_next(run: Run) -> None:
    said = run("approval").splitlines()
    assert "7.00 paid for tea, said Ada" in said
    assert "nothing paid for a yacht, said Grace" in said
    assert "  to the boss: may we spend 15.00 on a plant?" in said
    assert said[-1] == "no answer about a plant, so nothing is paid"


def test_an_agent_answers_after_two_rounds_of_tools(run: Run) -> None:
    said = run("agent").splitlines()
    tools = [line.split()[1:] for line in said[:-2]]
    assert Counter(name for name, _, _ in tools) == {"model": 3, "weather": 2, "fares": 2}
    assert ["fares", "attempt", "2"] in tools
    assert said[-2:] == [
        "Lima: it is warmer there, and the flight is 120 more.",
        "48 tokens were read",
    ]


def test_reminders_come_day_by_day_until_they_are_stopped(run: Run) -> None:
    said = run("reminders").splitlines()
    days = [int(day) for day in re.findall(r"^  day (\d+): water", "\n".join(said), re.MULTILINE)]
    assert days == list(range(1, len(days) + 1))
    assert len(days) >= 7
    assert said[-2].endswith(": we are on holiday")
    assert said[-1] == "2 runs in all, one a week"


@pytest.mark.timeout(2 * MAX_SECONDS)
def test_reminders_that_are_killed_skip_no_day(run: Run, tmp_path: Path) -> None:
    before = kill_when_it_says("day 3", "reminders", tmp_path)
    after = run("reminders")
    days = [int(day) for day in re.findall(r"day (\d+): water", before + after)]
    assert sorted(set(days)) == list(range(1, max(days) + 1))
    assert len(days) <= max(days) + 1  # one may have been said, and not yet be on record


@pytest.mark.parametrize("name", NAMES)
def test_an_example_is_short_and_says_how_it_is_run(name: str) -> None:
    text = (EXAMPLES / f"{name}.py").read_text()
    assert len(text.splitlines()) <= MAX_LINES
    assert f"\npython examples/{name}.py" in text


def test_the_list_of_examples_is_complete() -> None:
    listed = re.findall(r"`python examples/(\w+)\.py", (EXAMPLES / "README.md").read_text())
    assert sorted([*listed, "demo"]) == NAMES  # listed as `make demo`
