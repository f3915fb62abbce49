"""A file in which a process notes what it was promised, line by line, so that it survives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import TracebackType


class Notes:
    """Writes lines that are out of the process as soon as they are written."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("ab", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, *words: object) -> None:
        self._file.write(" ".join(map(str, words)).encode() + b"\n")


def read(file: Path) -> Iterator[list[str]]:
    """Yield the words of each line that was written whole."""
    if file.exists():
        for line in file.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield line.decode().split()
