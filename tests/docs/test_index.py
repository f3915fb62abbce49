"""The index leads to every page."""

from tests.docs.pages import ROOT, links, pages

INDEX = ROOT / "docs" / "index.md"
# Pages of a folder whose own list the index names.
LISTED = (ROOT / "docs" / "adr",)


def test_the_index_leads_to_every_page_of_the_docs() -> None:
    named = {(INDEX.parent / target.partition("#")[0]).resolve() for target in links(INDEX)}
    docs = [page for page in pages() if page.is_relative_to(INDEX.parent) and page != INDEX]
    missing = [page for page in docs if page not in named and page.parent not in LISTED]
    assert missing == []
