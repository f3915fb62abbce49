"""Plain English: phrases that hide which component acts are kept out of code, SQL and docs."""

from __future__ import annotations

import re

import pytest

from tests.house.source import ROOT, files, shown

# Each pattern with what to write instead.
INSTEAD = {
    r"somebody|anybody|whoever": "the component that acts",
    r"nobody(?!\")": "no worker, no caller, nothing",
    r"whom": "the component that acts",
    r"(?:is|are|was|were|be|been|being) told": "receives, is called with, is reported to",
    r"what (?:came|comes|becomes?|became) of": "the result, the outcome, the fate",
    r"for ever": "indefinitely, always, or the real limit",
    r"mend(?:s|ed|ing)?": "fix",
    r"dearer": "slower, more expensive",
    r"thus|of its own accord": "so, by itself",
    r"belongs into": "belongs in",
    r"handed out": "returned, public",
    r"takes for": "treats as",
    r"postman|mailbox": "inbox",
    r"errands?": "engine call",
    r"chores?|upkeep": "maintenance",
    r"culprit|blame[sd]?": "the failed call, the failure origin",
    r"kin": "children",
    r"ears?": "subscription",
    r"stirs?|stirring": "wakes",
    r"strays?": "unclaimed signals",
    r"(?:into|in|out of|left) (?:its|a|the) (?:worker's )?hands": "claimed, owned, released",
    r"by a word of|a word of yours|somebody's word": "decision, verdict",
    r"in the like|shall": "must, will",
}


@pytest.mark.parametrize("pattern", INSTEAD)
def test_a_phrase_that_readers_stumble_over_is_not_used(pattern: str) -> None:
    wanted = re.compile(rf"\b(?:{pattern})\b", re.IGNORECASE)
    pages = [*files("docs", suffix=".md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    found = [
        f"{shown(path)}:{number}: {line.strip()}"
        for path in [*files("src"), *files("src", suffix=".sql"), *pages]
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if wanted.search(line)
    ]
    assert found == [], f"write instead: {INSTEAD[pattern]}"
