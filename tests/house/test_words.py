"""One word a concept: the words that say nothing, or something else, are kept out of `src`."""

import ast
import re
from collections.abc import Iterator

from tests.house.source import PACKAGE, ROOT, files, shown, tree

# A module of this name has no subject, so everything ends up in it.
EMPTY_NAMES = {
    "base", "common", "helper", "helpers", "lib", "manager", "managers", "misc", "models", "shared",
    "tools", "types", "util", "utils",
}  # fmt: skip

# What we say instead stands beside each word; the glossary is in docs/index.md.
OTHER_WORDS = {
    "activity": "step",
    "cfg": "the setting's own name",
    "helper": "what it does",
    "manager": "what it does",
    "mgr": "what it does",
    "ms": "an instant or duration in microseconds, without a unit in its name",
    "orchestration": "workflow",
    "timestamp": "instant, or when it happened: created_at, due",
    "ts": "instant, or when it happened: created_at, due",
    "util": "what it does",
}

BRANDED = {
    "OnwardError",
    "OnwardServer",
}  # the root of all errors is told apart from others' by its name alone


def defined(module: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield (line, name) for everything that the module gives a name to."""
    for node in ast.walk(module):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name):
                yield node.lineno, name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name


def words(name: str) -> list[str]:
    """Split `a_run`, `ARun` and `A_RUN` alike, and take the plural off."""
    parts = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)
    lower = [part.lower() for part in parts]
    return [word if word in OTHER_WORDS else word.removesuffix("s") for word in lower]


def test_words_are_found_in_every_spelling() -> None:
    assert words("RunManagers") == ["run", "manager"]
    assert words("_lease_MS") == ["lease", "ms"]
    assert words("created_at") == ["created", "at"]


def test_no_module_has_a_name_without_a_subject() -> None:
    named = {shown(path): path.stem.strip("_") for path in files("src")}
    named |= {shown(path.parent): path.parent.name for path in files("src")}
    assert {path for path, name in named.items() if name in EMPTY_NAMES} == set()


def test_names_use_the_words_of_the_glossary() -> None:
    wrong = [
        f"{shown(path)}:{line} {name}: not {word!r} but {OTHER_WORDS[word]}"
        for path in files("src")
        for line, name in defined(tree(path))
        for word in words(name)
        if word in OTHER_WORDS
    ]
    assert wrong == []


def test_no_class_carries_the_brand() -> None:
    branded = {
        node.name
        for path in files("src")
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ClassDef) and node.name.lower().startswith("onward")
    }
    assert branded == BRANDED


def test_every_room_says_what_it_is_for() -> None:
    rooms = {path.parent for path in files("src")} - {PACKAGE.parent}
    assert rooms, "no room was found"
    silent = [
        shown(room)
        for room in sorted(rooms)
        if not (door := room / "__init__.py").exists() or not ast.get_docstring(tree(door))
    ]
    assert silent == []


def test_every_module_says_what_it_is_for() -> None:
    python = files("src", "tests", "tools", "benchmarks", "examples")
    silent = [
        shown(path)
        for path in python
        if path.read_text().strip() and not ast.get_docstring(tree(path))
    ]
    assert silent == []


def test_what_is_left_to_do_names_its_issue() -> None:
    mark = re.compile(r"#\s*(TODO|FIXME|XXX)\b(?!\(#\d+\))")
    found = [
        f"{shown(path)}:{number}"
        for path in files("src", "tests", "tools", "benchmarks", "examples")
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if mark.search(line)
    ]
    assert found == []


def test_no_file_names_somebodys_machine() -> None:
    place = re.compile(r"(?<![\w.~$}-])/(?:root|home|Users|work)/\w")
    texts = [*ROOT.glob("*.md"), ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / ".ci" / "run"]
    texts += files("src", "tests", "tools", "benchmarks", "examples")
    texts += files("src", suffix=".sql") + files("docs", "changes", suffix=".md")
    named = [shown(path) for path in texts if path.is_file() and place.search(path.read_text())]
    assert named == []


def test_no_two_public_classes_have_one_name() -> None:
    places: dict[str, list[str]] = {}
    for path in files("src"):
        for node in tree(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{shown(path)}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
