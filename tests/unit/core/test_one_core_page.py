"""The page that maps the seed systems names only tables and machines that there are."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

PAGE = Path(__file__).parents[3] / "docs" / "internals" / "one-core.md"
TEXT = PAGE.read_text(encoding="utf-8")
SECTIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
TABLES, SEEDS = SECTIONS[0], SECTIONS[1:]


def rows(section: str) -> list[list[str]]:
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_table_that_is_named_is_in_the_list_of_tables() -> None:
    listed = {name for row in rows(TABLES) for name in re.findall(r"onward_\w+", row[0])}
    named = {name for seed in SEEDS for name in re.findall(r"onward_\w+", seed)}

    assert len(listed) > 20
    assert named - listed == set()


def test_every_machine_that_is_named_is_a_module_of_the_core() -> None:
    for row in [*rows(TABLES), *(row for seed in SEEDS for row in rows(seed))]:
        for machine in re.findall(r"`(\w+)`", row[2]):
            assert importlib.import_module(f"onward.core.{machine}").__doc__


def test_every_object_of_the_three_systems_has_a_place_or_a_reason() -> None:
    assert [seed.splitlines()[0] for seed in SEEDS] == ["Stent", "Kagzi", "Keep.AI"]
    for row in (row for seed in SEEDS for row in rows(seed)):
        assert len(row) == 4, row
        assert row[1], row
        assert "not kept" not in row[1] or row[3], row
