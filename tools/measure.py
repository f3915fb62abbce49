"""Measures the code: sizes, how far a step travels, import cycles, shared SQL, public names.

python -m tools.measure           # a table
python -m tools.measure --json    # the same figures for a comparison before and after a change
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import json
import statistics
import sys
from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import onward
from onward import App, step, workflow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SOURCE = Path(onward.__file__).parent
STEPS = 200


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure the code of Onward.")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args()
    figures = {
        "layers": layers(),
        "step": asyncio.run(step_path()),
        "type_only_cycles": [sorted(cycle) for cycle in cycles()],
        "sql": sql(),
        "front_door": len(onward.__all__),
    }
    if asked.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures)


# --- sizes ----------------------------------------------------------------------------------------


def layers() -> dict[str, dict[str, int]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        found[parts[0] if len(parts) > 1 else "(front)"].append(path)
    return {layer: _sizes(paths) for layer, paths in found.items()}


def _sizes(paths: list[Path]) -> dict[str, int]:
    files = [len(path.read_text().splitlines()) for path in paths]
    functions = sorted(_function_lengths(paths)) or [0]
    return {
        "files": len(files),
        "lines": sum(files),
        "longest_file": max(files),
        "functions": len(functions),
        "median_function": round(statistics.median(functions)),
        "longest_function": functions[-1],
    }


def _function_lengths(paths: list[Path]) -> Iterator[int]:
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield (node.end_lineno or node.lineno) - node.lineno + 1


# --- the path of a step ---------------------------------------------------------------------------


@step
async def nothing() -> None:
    """Do nothing."""


@workflow
async def many(count: int) -> None:
    for _ in range(count):
        await nothing()


async def step_path() -> dict[str, float]:
    """Count the calls into Onward's own code that one more step of a run costs, on SQLite."""
    counts = []
    for steps in (STEPS, 2 * STEPS):
        async with App(":memory:") as app, app.worker():
            await app.run(many, 1)
            seen = Calls()
            sys.setprofile(seen)
            try:
                await app.run(many, steps)
            finally:
                sys.setprofile(None)
            counts.append((seen.calls, seen.changes, len(seen.files)))
    (calls, changes, _), (more_calls, more_changes, files) = counts
    return {
        "calls": round((more_calls - calls) / STEPS, 1),
        "changes_of_file": round((more_changes - changes) / STEPS, 1),
        "files": files,
    }


class Calls:
    """Counts Python calls in Onward's code on the loop's thread, and changes from file to file."""

    def __init__(self) -> None:
        self.calls = self.changes = 0
        self.files: set[str] = set()
        self._last = ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        if event == "call" and file.startswith(str(SOURCE)):
            self.calls += 1
            self.files.add(file)
            self.changes += file != self._last
            self._last = file


# --- cycles among modules, also by imports for types alone ----------------------------------------


def cycles() -> list[set[str]]:
    """Return the groups of modules that import each other, if only for their types."""
    graph = {name: set(_imports(path)) for name, path in _modules().items()}
    return [group for group in _components(graph) if len(group) > 1]


@cache
def _modules() -> dict[str, Path]:
    paths = (path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    return {".".join(path.relative_to(SOURCE.parent).with_suffix("").parts): path for path in paths}


def _imports(path: Path) -> Iterator[str]:
    known = _modules()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("onward"):
            names = [node.module, *(f"{node.module}.{name.name}" for name in node.names)]
            yield from (name for name in names if name in known)


def _components(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the strongly connected components: modules that reach each other."""
    reach = {name: _reached(graph, name) for name in graph}
    groups: list[set[str]] = []
    for name in sorted(graph):
        if not any(name in group for group in groups):
            groups.append({name} | {other for other in reach[name] if name in reach[other]})
    return groups


def _reached(graph: dict[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = [start]
    while todo:
        for name in graph.get(todo.pop(), ()):
            if name not in found:
                found.add(name)
                todo.append(name)
    return found


# --- SQL ------------------------------------------------------------------------------------------


def sql() -> dict[str, Any]:
    folder = SOURCE / "store" / "sql"
    parts = {
        "shared": list(folder.glob("*.sql")),
        "sqlite": list((folder / "sqlite").glob("*.sql")),
        "postgres": list((folder / "postgres").glob("*.sql")),
    }
    counts = {
        part: sum(path.read_text().count("-- name:") for path in paths)
        for part, paths in parts.items()
    }
    return {**counts, "shared_percent": round(100 * counts["shared"] / sum(counts.values()))}


def show(figures: dict[str, Any]) -> None:
    for layer, sizes in figures["layers"].items():
        print(f"{layer:12}", "  ".join(f"{name} {size}" for name, size in sizes.items()))
    print("one step:   ", figures["step"])
    print("cycles:     ", [len(cycle) for cycle in figures["type_only_cycles"]])
    print("statements: ", figures["sql"])
    print("front door: ", figures["front_door"])


if __name__ == "__main__":
    main()
