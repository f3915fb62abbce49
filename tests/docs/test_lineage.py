"""The lineage page is complete, and every test that it names exists."""

from typing import NamedTuple

import pytest

from tests.docs.named import NAMED, missing
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "lineage.md"
REASONS = ("Not kept: ", "Later: ")

BEHAVIOURS = [f"B{number}" for number in range(1, 91)]
FAULTS = [str(number) for number in range(1, 50)]
PROMISES = [f"D{number}" for number in range(1, 27)]
PLANNED = [
    *("P0.1", "P0.2", "P0.3", "P0.4"),
    *("P1.1", "P1.2", "P1.3", "P1.4"),
    *("P2.1", "P2.2", "P2.3", "P2.4"),
    "gates",
    *6 * ["PLAN-3"],
]
COMMANDS = [f"C{number}" for number in range(1, 10)]
SCHEDULES = [*(f"S{number}" for number in range(1, 10)), "K27", "K28", "K29"]
WORKERS = [f"W{number}" for number in range(1, 7)]
QUEUES = [*(f"Q{number}" for number in range(1, 5)), "K22", "K23", "K24", "K25", "K34", "K38"]
SERVER = [f"K{number}" for number in (*range(1, 9), 13, 19, 20, 21, 26, 32, 37)]
STATEMENTS = [f"A{number}" for number in range(1, 17)]
KNOWN_FAULTS = [f"W{number}" for number in range(1, 40)]
SUITES = [
    *("topic-store", "event-store", "handler-run-store", "handler-state-store", "mutation-store"),
    *("producer-schedule-store", "input-store", "input-ux", "topics-api", "phase-tracking"),
    *("handler-state-machine", "session-orchestration", "reconciliation"),
    *("indeterminate-resolution", "failure-handling", "schedule-utils", "workflow-validation"),
    *("maintainer", "transactions", "sandbox"),
]


class Row(NamedTuple):
    """A table row: the number, the behaviour of another system, and the answer of Onward."""

    number: str
    said: str
    here: str


def rows(text: str) -> list[Row]:
    cells = (line.strip("|").split(" | ") for line in text.splitlines() if line.startswith("| "))
    found = [Row(*(cell.strip() for cell in line)) for line in cells]
    return [row for row in found if row.number not in {"number", "test suite"}]


def test_everything_has_its_row() -> None:
    numbers = [row.number for row in rows(PAGE.read_text())]
    stent = BEHAVIOURS + FAULTS + PROMISES + PLANNED + COMMANDS
    kagzi = SCHEDULES + WORKERS + QUEUES + SERVER
    known = stent + kagzi + STATEMENTS + KNOWN_FAULTS
    assert numbers[: len(known)] == known
    assert list(dict.fromkeys(numbers[len(known) :])) == SUITES


@pytest.mark.parametrize("row", rows(PAGE.read_text()), ids=lambda row: row.number)
def test_a_row_names_a_test_or_gives_a_reason(row: Row) -> None:
    assert row.said
    assert NAMED.search(row.here) or row.here.startswith(REASONS)
    assert row.here.count("::") == len(NAMED.findall(row.here))


def test_every_named_test_exists() -> None:
    text = PAGE.read_text()
    assert len(NAMED.findall(text)) > 150
    assert missing(text) == []


def test_a_test_that_is_not_there_would_be_missed() -> None:
    assert missing("see `tests/docs/test_lineage.py::test_nothing`, `a.py::b`") == [
        "tests/docs/test_lineage.py::test_nothing"
    ]


def test_a_licence_and_a_type_marker_are_there() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert (ROOT / "src" / "onward" / "py.typed").exists()
