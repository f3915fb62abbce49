"""`onward check` replays open runs with new code, and names what does not fit."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onward import App
from tests.kit.deploys import all_of, write_module

if TYPE_CHECKING:
    from tests.cli.conftest import Answer, Ask

SHOP = """\
import asyncio
from onward import App, Signal, effect, step, workflow

app = App("shop.db")
go: Signal[None] = Signal("go")

@step
async def charge(cents: int) -> str:
    print("charged", file=open("charged", "a"))
    return f"charged {cents}"

@effect
async def mail(to: str) -> str:
    return f"mail to {to}"

@workflow
async def wrap(paper: str) -> str:
    return paper

@workflow
async def order(cents: int) -> str:
    receipt = await charge(cents)
    await mail("ada")
    await wrap("blue")
    await go.wait()
    return receipt

@workflow
async def other() -> None:
    await go.wait()
"""

FILL = """\
import asyncio, sys
import shop
from tests.kit.deploys import waits_for

async def main():
    shop.app._set_store(sys.argv[1], None)
    async with shop.app, shop.app.worker():
        for name, run in {
            "order-7": await shop.app.start(shop.order.options(id="order-7"), 500),
            "other-1": await shop.app.start(shop.other.options(id="other-1")),
        }.items():
            await waits_for(run, "go")

asyncio.run(main())
"""


def fill(folder: Path, url: str) -> None:
    (folder / "shop.py").write_text(SHOP)
    root = Path(__file__).parents[2]
    code = f"import sys; sys.path[:0] = ['.', {str(root)!r}]\n{FILL}"
    subprocess.run([sys.executable, "-c", code, url], cwd=folder, timeout=60, check=True)


@pytest.fixture(scope="session")
def _checked_shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checked")
    fill(folder, "shop.db")
    return folder


@pytest.fixture
def filled(_checked_shop: Path, tmp_path: Path) -> str:
    """A database with two open runs, whose code is in shop.py."""
    shutil.copytree(_checked_shop, tmp_path, dirs_exist_ok=True)
    return str(tmp_path / "shop.db")


def checked(process: Ask, url: str, before: str, after: str, *words: str) -> Answer:
    """Deploy a changed line, and check it."""
    assert before in SHOP
    write_module(Path("shop.py"), SHOP.replace(before, after))
    return process("check", "shop", "--db", url, *words)


def test_code_that_fits_is_checked_without_a_write_or_a_step(filled: str, process: Ask) -> None:
    Path("charged").unlink()
    answer = checked(process, filled, "return receipt", "return 'new ' + await charge(1)")
    assert (answer.status, answer.out) == (0, "2 open runs checked: all match the code.\n")
    assert not Path("charged").exists()


async def test_nothing_is_written(filled: str, process: Ask) -> None:
    async with App(filled) as app:
        before = await all_of(app), await app.runs()
    assert checked(process, filled, "charge(cents)", "charge(600)").status == 1
    async with App(filled) as app:
        assert (await all_of(app), await app.runs()) == before


@pytest.mark.parametrize(
    ("before", "after", "kind", "was", "now"),
    [
        ("charge(cents)", "charge(cents + 100)", "step", {"cents": 500}, {"cents": 600}),
        ('mail("ada")', 'mail("bob")', "effect", {"to": "ada"}, {"to": "bob"}),
        ('wrap("blue")', 'wrap("red")', "child", {"paper": "blue"}, {"paper": "red"}),
    ],
)
def test_changed_arguments_are_named_with_their_call_and_line(
    filled: str, process: Ask, before: str, after: str, kind: str, was: object, now: object
) -> None:
    answer = checked(process, filled, before, after, "--json")
    assert answer.status == 1
    [misfit] = answer.thing["misfits"]
    assert misfit["id"] == "order-7"
    assert misfit["kind"] == "arguments"
    assert misfit["recorded"]["kind"] == misfit["now"]["kind"] == kind
    assert misfit["recorded"]["arguments"] == was
    assert misfit["now"]["arguments"] == now
    line = SHOP[: SHOP.index(before)].count("\n") + 1
    assert (Path(misfit["file"]).name, misfit["line"]) == ("shop.py", line)


def test_people_read_the_difference_with_arguments_and_no_hashes(filled: str, process: Ask) -> None:
    answer = checked(process, filled, "charge(cents)", "charge(600)")
    assert answer.status == 1
    assert answer.out.splitlines()[:4] == [
        "run order-7 of order: the history has step 'charge' (:charge#1) with different arguments "
        "than the code passes now",
        '  - recorded: step charge {"cents": 500}',
        '  + now:      step charge {"cents": 600}',
        "  in shop.py, line 22: receipt = await charge(600)",
    ]
    assert "2 open runs checked: 1 does not match the code." in answer.out


@pytest.mark.parametrize(
    ("before", "after", "kind", "text"),
    [
        ('    await mail("ada")\n', "", "unread", "the history has effect 'mail'"),
        ("order(cents: int)", "order(cents: list[str])", "undecodable", "does not match"),
        ('await wrap("blue")', 'raise KeyError("blue")', "error", "raises KeyError"),
        ('await mail("ada")', "await asyncio.Event().wait()", "error", "raises Stuck"),
    ],
)
def test_other_differences_are_found(
    filled: str, process: Ask, before: str, after: str, kind: str, text: str
) -> None:
    answer = checked(process, filled, before, after, "--json")
    assert answer.status == 1
    [misfit] = answer.thing["misfits"]
    assert misfit["kind"] == kind
    assert text in misfit["text"]
    assert Path(misfit["file"]).name == "shop.py"


def test_runs_of_other_code_are_left_out_and_counted(filled: str, process: Ask) -> None:
    answer = checked(process, filled, "async def other()", "async def another()")
    assert (answer.status, answer.out) == (0, "1 open run checked: it matches the code.\n")
    assert answer.err == "Not checked: 1 run of other (not defined by this code).\n"


def test_a_step_that_waiting_code_has_not_called_may_still_be_called(
    filled: str, process: Ask
) -> None:
    answer = checked(process, filled, "receipt = await charge(cents)", "receipt = 'none'")
    assert answer.status == 0
    expected = "run order-7 continues; its code has not reached these recorded calls yet: :charge#1"
    assert expected in answer.err


def test_a_step_that_ended_code_has_not_called_is_noted(filled: str, process: Ask) -> None:
    body = SHOP.replace("receipt = await charge(cents)", "receipt = 'none'")
    body = body.replace("    await go.wait()\n    return", "    return")
    write_module(Path("shop.py"), body)
    answer = process("check", "shop", "--db", filled)
    assert answer.status == 0
    assert "run order-7 continues, but does not make these calls again: :charge#1" in answer.err


def test_a_workflow_and_a_number_of_runs_can_be_chosen(filled: str, process: Ask) -> None:
    one = checked(process, filled, "charge(cents)", "charge(600)", "--workflow", "other")
    assert (one.status, one.out) == (0, "1 open run checked: it matches the code.\n")
    newest = process("check", "shop", "--db", filled, "--limit", "1")
    assert (newest.status, newest.out) == (0, "1 open run checked: it matches the code.\n")


def test_histories_on_postgres_are_checked(postgres_url: str, process: Ask, tmp_path: Path) -> None:
    fill(tmp_path, postgres_url)
    answer = checked(process, postgres_url, 'mail("ada")', 'mail("bob")', "--json")
    assert answer.status == 1
    [misfit] = answer.thing["misfits"]
    assert misfit["recorded"]["arguments"] == {"to": "ada"}
    assert misfit["now"]["arguments"] == {"to": "bob"}
