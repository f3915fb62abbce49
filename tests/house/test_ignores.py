"""A checker is silenced for one rule at a time, and with the reason beside it."""

import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.house.source import files, shown

SILENCER = re.compile(r"#\s*(?:type:\s*ignore|pragma:\s*no\s*cover)")
REASONED = re.compile(
    r"#\s*type:\s*ignore\[[a-z, -]+\]\s+#\s*\w+.*\w|#\s*pragma: no cover\s+#\s*\w+.*\w"
)


def unreasoned(code: str) -> Iterator[int]:
    """Yield the lines on which a checker is silenced without a rule or without a reason."""
    for token in tokenize.generate_tokens(io.StringIO(code).readline):
        silences = token.type == tokenize.COMMENT and SILENCER.search(token.string)
        if silences and not REASONED.search(token.string):
            yield token.start[0]


@pytest.mark.parametrize(
    "code",
    [
        "x = 1  # type: ignore",
        "x = 1  # type: ignore[arg-type]",
        "x = 1  # type: ignore  # the stubs are wrong",
        "x = 1  # pragma: no cover",
    ],
)
def test_a_silencer_without_rule_or_reason_is_seen(code: str) -> None:
    assert list(unreasoned(code)) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "x = 1  # type: ignore[arg-type]  # the stubs lack this argument",
        "x = 1  # type: ignore[arg-type, misc]  # a dataclass in every subclass",
        "x = 'a # type: ignore in a text'",
        "x = 1  # a comment",
    ],
)
def test_a_silencer_with_rule_and_reason_is_let_through(code: str) -> None:
    assert list(unreasoned(code)) == []


def test_the_sources_silence_nothing_without_a_reason() -> None:
    found = [
        f"{shown(path)}:{line}" for path in files("src") for line in unreasoned(path.read_text())
    ]
    assert found == []
