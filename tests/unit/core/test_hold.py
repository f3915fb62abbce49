"""What holds a run: every source counts once, and its last message decides."""

from __future__ import annotations

import pytest

from onward.core.hold import read_sources, sources_after
from onward.core.inbox import MessageKind

PAUSE, RESUME = MessageKind.PAUSE, MessageKind.RESUME


@pytest.mark.parametrize(
    ("changes", "left"),
    [
        ([], ("a",)),
        ([(PAUSE, "b")], ("a", "b")),
        ([(PAUSE, "a")], ("a",)),
        ([(RESUME, "a")], ()),
        ([(RESUME, "b")], ("a",)),
        ([(PAUSE, "b"), (RESUME, "a")], ("b",)),
        ([(PAUSE, "b"), (RESUME, "b")], ("a",)),
        ([(RESUME, "a"), (PAUSE, "a")], ("a",)),
        ([(PAUSE, "b"), (PAUSE, "b"), (RESUME, "b"), (RESUME, "a")], ()),
    ],
)
def test_a_run_is_held_until_every_source_lets_it_go(
    changes: list[tuple[MessageKind, str]], left: tuple[str, ...]
) -> None:
    assert sources_after(("a",), changes) == left


@pytest.mark.parametrize(("text", "sources"), [("", ()), ("a", ("a",)), ("a b", ("a", "b"))])
def test_the_sources_of_a_row_are_read(text: str, sources: tuple[str, ...]) -> None:
    assert read_sources(text) == sources
