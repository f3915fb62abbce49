"""Write the API reference from signatures and docstrings.

python tools/write_reference.py            writes docs/reference/
python tools/write_reference.py --check    exits with 1 if a page there is stale
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from enum import Enum
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onward import handles

sys.path.insert(0, str(Path(__file__).parents[1]))
from tools.docstrings import parse, render, signature
from tools.generated_page import keep_folder
from tools.reference_pages import (
    ACTORS,
    BRIEF,
    CONSTRUCTED,
    DECORATORS,
    ERRORS,
    ERRORS_HEAD,
    INTERNAL,
    PAGES,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tools.reference_pages import Page

FOLDER = Path(__file__).parent.parent / "docs" / "reference"

# A name with a capital or a dot, or a call: `step` alone may be a parameter.
CODE = re.compile(r"`(?:onward\.(?:telemetry\.)?(\w+)|([A-Z]\w+(?:\.\w+)?)|(\w+)\(\))`")


# --- what is where --------------------------------------------------------------------------------


def heading(documented: Any) -> str:
    """Return the heading of a class or function; no two have the same anchor."""
    name: str = _name(documented)
    return f"class {name}" if inspect.isclass(documented) else name


def _name(documented: Any) -> str:
    return str(getattr(documented, "__name__", None) or documented.name)


def links() -> dict[str, str]:
    """Return page and anchor for every documented name."""
    found: dict[str, str] = {}
    for page, (_, _, groups) in PAGES.items():
        for documented in (each for group in groups.values() for each in group):
            title = heading(documented)
            found[_name(documented)] = f"{page}#{title.lower().replace(' ', '-')}"
            if inspect.isclass(documented):
                for name, _ in members(documented):
                    full = f"{documented.__name__}.{name}"
                    found[full] = f"{page}#{full.lower().replace('.', '')}"
    return found | {name: f"errors.md#{name.lower()}" for name in ERRORS}


def members(kind: type) -> list[tuple[str, Any]]:
    """Return the public methods and properties of a class as they are defined, its own first."""
    found: dict[str, Any] = {}
    for base in [each for each in kind.__mro__ if each.__module__.startswith("onward")]:
        for name, value in vars(base).items():
            if name.startswith("_") or {name, f"{kind.__name__}.{name}"} & INTERNAL:
                continue
            if inspect.isroutine(value) or isinstance(value, property):
                found.setdefault(name, value)
    return list(found.items())


# --- rendering ------------------------------------------------------------------------------------


def entry(documented: Any) -> Iterator[str]:
    """Yield the paragraphs about a class or function."""
    yield f"### {heading(documented)}"
    if not inspect.isclass(documented):
        yield from _call(documented)
        return
    if documented in CONSTRUCTED:
        yield fenced(signature(documented.__name__, documented.__init__, skip=1))
    yield from render(documented, has_call=documented in CONSTRUCTED)
    if not {"Args", "Attributes"} & parse(documented).sections.keys():
        yield from _fields(documented)
    if documented in (handles.SyncApp, handles.SyncRun):
        yield _sync_methods(documented)
    for name, member in [] if documented in BRIEF else members(documented):
        yield from _member(documented, name, member)


def _call(documented: Any) -> Iterator[str]:
    is_decorator = documented in DECORATORS
    function = _function(documented)
    if not inspect.isfunction(documented):  # a pytest fixture: tests name it, and get its value
        gives: str = inspect.signature(function).return_annotation
        value = gives.removeprefix("Iterator[").removesuffix("]") if "Iterator[" in gives else gives
        yield fenced(f"{_name(documented)}: {value}")
        yield from render(function)
        return
    name = f"@{_name(documented)}" if is_decorator else _name(documented)
    yield fenced(signature(name, function, skip=1 if is_decorator else 0))
    yield from render(function)


def fenced(code: str) -> str:
    """Return a block of Python code."""
    return f"```python\n{code}\n```"


def _function(documented: Any) -> Any:
    """Return the function in a pytest fixture, or the function itself."""
    return inspect.unwrap(getattr(documented, "__wrapped__", documented))


shown: dict[Any, str] = {}
"""Where a method was documented first: steps and workflows share some."""


def _member(kind: type, name: str, member: Any) -> Iterator[str]:
    full = f"{kind.__name__}.{name}"
    yield f"#### {full}"
    if shown.setdefault(member, full) != full:
        yield f"See `{shown[member]}`."
        return
    if isinstance(member, property):
        getter: Any = member.fget
        gives = inspect.signature(getter).return_annotation
        yield fenced(f"{name}: {gives}")
        yield from render(member)
        return
    function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
    yield fenced(signature(name, function, skip=0 if isinstance(member, staticmethod) else 1))
    yield from render(function)


def _fields(kind: Any) -> Iterator[str]:
    """Yield the fields of a dataclass with their types, or the members of an enum."""
    if issubclass(kind, Enum):
        said = attribute_docs(kind)
        listed = [
            f"- `{name}`" + (f": {said[name]}" if name in said else "") for name in names(kind)
        ]
    elif dataclasses.is_dataclass(kind):
        listed = [f"- `{field.name}: {field.type}`" for field in dataclasses.fields(kind)]
    else:
        return
    if not listed:
        return
    yield "**Attributes**\n\n" + "\n".join(listed)


def names(kind: type[Enum]) -> list[str]:
    """Return the names of an enum's members."""
    return [f"{kind.__name__}.{member.name}" for member in kind]


def attribute_docs(kind: type) -> dict[str, str]:
    """Return the texts that stand below the attributes of a class."""
    [body] = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    found: dict[str, str] = {}
    for before, after in pairwise(body.body):
        if isinstance(before, ast.Assign) and isinstance(after, ast.Expr):
            target, text = before.targets[0], after.value
            if isinstance(target, ast.Name) and isinstance(text, ast.Constant):
                found[f"{kind.__name__}.{target.id}"] = str(text.value)
    return found


def _sync_methods(kind: type) -> str:
    other = {handles.SyncApp: "App", handles.SyncRun: "Run"}[kind]
    names = ", ".join(f"`{other}.{name}`" for name, _ in members(kind))
    return f"It has these methods, called without `await`: {names}."


def linked(text: str, page: str, targets: dict[str, str]) -> str:
    """Return a paragraph in which names that the reference documents are links."""
    if text.startswith(("#", "```")):
        return text

    def link(found: re.Match[str]) -> str:
        target = targets.get(found[1] or found[2] or found[3])
        if target is None:
            return found[0]
        return f"[{found[0]}]({target.removeprefix(page)})"

    return CODE.sub(link, text)


# --- errors ---------------------------------------------------------------------------------------


def error_entries() -> Iterator[str]:
    """Yield the paragraphs about all errors, grouped by who must act."""
    yield "# Reference: errors"
    yield ERRORS_HEAD
    yield _table_of_codes()
    listed: set[str] = {"OnwardError"}
    for actor, (base, meaning) in ACTORS.items():
        yield f"## {actor}"
        yield meaning
        for name, kind in sorted(ERRORS.items(), key=lambda item: item[1] is not base):
            if issubclass(kind, base) and name not in listed:
                listed.add(name)
                yield from _error(name, kind)
    assert listed == set(ERRORS), f"no group has {set(ERRORS) - listed}"


def _table_of_codes() -> str:
    rows = [
        f"| `{kind.code}` | `{name}` | {actor.lower()} |"
        for actor, (base, _) in ACTORS.items()
        for name, kind in sorted(ERRORS.items(), key=lambda item: item[1].code)
        if issubclass(kind, base)
    ]
    return "\n".join(["| code | error | what to do |", "|---|---|---|", *rows])


def _error(name: str, kind: Any) -> Iterator[str]:
    yield f"### {name}"
    yield from render(kind)
    facts = [f"Code `{kind.code}`"]
    if dataclasses.is_dataclass(kind):
        facts.append("fields " + ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind)))
    caught = [base.__name__ for base in kind.__mro__[1:] if base.__module__ == "builtins"]
    caught = [base for base in caught if base not in ("Exception", "BaseException", "object")]
    if caught:
        facts.append(f"`except {caught[0]}` catches it too")
    yield "; ".join(facts) + "."


# --- pages ----------------------------------------------------------------------------------------


def pages() -> dict[str, str]:
    """Return the text of every page by file name."""
    targets = links()
    found = {name: _page(name, paragraphs_of(page), targets) for name, page in PAGES.items()}
    return found | {"errors.md": _page("errors.md", error_entries(), targets)}


def paragraphs_of(page: Page) -> Iterator[str]:
    """Yield the paragraphs of a page."""
    yield f"# {page.title}"
    yield page.head
    for title, group in page.groups.items():
        yield f"## {title}"
        for documented in group:
            yield from entry(documented)


def _page(name: str, paragraphs: Iterable[str], targets: dict[str, str]) -> str:
    made = "<!-- Generated by tools/write_reference.py from docstrings: run `make docs`. -->"
    texts = [linked(text, name, targets) for text in paragraphs]
    return "\n\n".join([made, *texts]) + "\n"


if __name__ == "__main__":
    sys.exit(keep_folder("Write the API reference from docstrings.", FOLDER, pages))
