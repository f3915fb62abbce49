"""The page on tables names the tables of the migrations, and the planned ones."""

from __future__ import annotations

import re

from tests.docs.pages import ROOT

PAGE = (ROOT / "docs/internals/one-core.md").read_text()
MIGRATIONS = ROOT / "src/onward/store/sql/migrations"
TO_COME = "These tables are planned:"


def tables(text: str) -> set[str]:
    """Return the tables in the first cells of a part of the page."""
    cells = re.findall(r"^\| (`onward_[^|]*) \|", text, flags=re.M)
    return set(re.findall(r"onward_[a-z_]+", " ".join(cells)))


def made() -> set[str]:
    """Return the tables that the migrations create."""
    texts = [path.read_text() for path in sorted(MIGRATIONS.glob("*.sql"))]
    return set(re.findall(r"CREATE TABLE (onward_[a-z_]+)", "\n".join(texts)))


HERE, COMING = PAGE.split(TO_COME)


def test_the_tables_that_are_here_are_those_of_the_migrations() -> None:
    assert tables(HERE) == made()


def test_no_table_to_come_is_here_already() -> None:
    assert tables(COMING) & made() == set()


def test_every_table_that_the_page_names_is_listed() -> None:
    assert set(re.findall(r"onward_[a-z_]+", PAGE)) == tables(HERE) | tables(COMING)
