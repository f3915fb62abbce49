"""Which Python files of a project have changed, found by looking at them again and again."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_SKIPPED = ("node_modules", "site-packages", "__pycache__")


class SourceWatch:
    """Looks at the Python files below some folders."""

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = list(folders)
        self._seen = self._look()

    def changed(self) -> list[Path]:
        """Return the files that were changed, added or removed since the last call."""
        before, self._seen = self._seen, self._look()
        paths = before.keys() | self._seen.keys()
        return sorted(path for path in paths if before.get(path) != self._seen.get(path))

    def _look(self) -> dict[Path, int]:
        return dict(found for folder in self._folders for found in _files(folder))


def folders_of(module: str) -> list[Path]:
    """Return the current folder, and that of a module's package if it is elsewhere."""
    here = Path.cwd()
    try:
        found = find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        found = None
    if found is None or found.origin is None:
        return [here]
    # A single file may lie among everything that is installed.
    package = Path(found.origin).resolve().parent
    is_package = found.submodule_search_locations is not None
    return [here, package] if is_package and not package.is_relative_to(here.resolve()) else [here]


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_skipped(Path(place, name))]
        for name in names:
            path = Path(place, name)
            if path.suffix == ".py":
                try:
                    yield path, path.stat().st_mtime_ns
                except OSError:  # it was removed meanwhile
                    continue


def _is_skipped(folder: Path) -> bool:
    is_hidden = folder.name.startswith(".")
    return is_hidden or folder.name in _SKIPPED or (folder / "pyvenv.cfg").exists()
