"""The mark of code: the same wherever the code is the same, and another where it is not."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from onward.runtime.worker.code import code_mark

SOURCE = """
async def flow(word):
    return word in {"a", "b", "c", "d"} and (lambda: 1)()
"""


def shipped(source: str) -> Any:
    """Return a function that is in no module whose source could be read."""
    names: dict[str, Any] = {"__name__": "nowhere"}
    exec(source, names)
    return names["flow"]


def test_a_declared_version_is_the_mark() -> None:
    one, other = shipped(SOURCE), shipped(SOURCE.replace("1", "2"))
    assert code_mark(one, "7") == code_mark(other, "7") != code_mark(one, "8")


def test_functions_of_one_module_have_one_mark() -> None:
    assert code_mark(shipped, None) == code_mark(test_a_declared_version_is_the_mark, None)


def test_code_without_a_source_is_marked_by_what_it_does() -> None:
    assert code_mark(shipped(SOURCE), None) == code_mark(shipped(SOURCE), None)
    for change in ('"e"', "2"):
        old = '"d"' if change == '"e"' else "1"
        changed = shipped(SOURCE.replace(old, change))
        assert code_mark(changed, None) != code_mark(shipped(SOURCE), None)


def test_what_has_no_code_of_its_own_has_a_mark() -> None:
    assert code_mark(len, None) == code_mark(print, None) != ""


def test_the_mark_is_the_same_in_every_process() -> None:
    code = (
        f"names = {{'__name__': 'nowhere'}}\nexec({SOURCE!r}, names)\n"
        "from onward.runtime.worker.code import code_mark\nprint(code_mark(names['flow'], None))"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1
