"""The tables of scopes and roles on the security page are those of the code."""

from __future__ import annotations

import re

from onward.core.access import ROLES, ROOT, SCOPES
from tests.docs.pages import ROOT as REPOSITORY

PAGE = (REPOSITORY / "docs/guides/security.md").read_text()


def rows(head: str) -> dict[str, str]:
    """Return the rows of the table with this head."""
    table = PAGE.partition(f"| {head} |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", table, flags=re.M))


def test_every_scope_is_on_the_page_with_what_it_allows() -> None:
    assert rows("scope | allows you to") == SCOPES


def test_every_role_is_on_the_page_with_its_scopes() -> None:
    listed = rows("role | scopes")
    assert listed.pop("admin") == "all but `root`"
    assert ROLES["admin"] == frozenset(SCOPES) - {ROOT}
    assert listed == {
        role: ", ".join(f"`{scope}`" for scope in sorted(scopes))
        for role, scopes in ROLES.items()
        if role != "admin"
    }
