"""Reads signatures and Google-style docstrings, and renders them as Markdown."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECTIONS = ("Args", "Attributes", "Returns", "Yields", "Raises", "Example")
SECTION = re.compile(rf"^({'|'.join(SECTIONS)}):$", re.MULTILINE)
ITEM = re.compile(r"^(\*{0,2}[\w.]+): (.*)$")
MAX_LINE = 88


class Docstring(NamedTuple):
    """A docstring in parts: the text, and the sections by name."""

    text: str
    sections: dict[str, str]


def parse(documented: object) -> Docstring:
    """Return the docstring of an object in parts."""
    parts = SECTION.split(inspect.getdoc(documented) or "")
    bodies = {name: inspect.cleandoc("\n" + body) for name, body in _pairs(parts[1:])}
    return Docstring(parts[0].strip(), bodies)


def _pairs(parts: list[str]) -> Iterator[tuple[str, str]]:
    yield from zip(parts[::2], parts[1::2], strict=True)


def items(section: str) -> dict[str, str]:
    """Return the items of a section such as `Args`: their texts by name, each in one line."""
    found: dict[str, str] = {}
    name = ""
    for line in section.splitlines():
        begun = ITEM.match(line)
        if begun:
            name = begun[1]
            found[name] = begun[2]
        else:
            found[name] += f" {line.strip()}"
    return found


def render(documented: object, *, has_call: bool = True) -> list[str]:
    """Return the paragraphs of a docstring: its text, then its sections.

    Without a call that users make, such as a constructor, its arguments are left out.
    """
    text, sections = parse(documented)
    paragraphs = [_with_fences(text)] if text else []
    for name, body in sections.items():
        if name == "Args" and not has_call:
            continue
        if name == "Example":
            language = "pycon" if body.startswith(">>>") else "python"
            paragraphs.append(f"```{language}\n{body}\n```")
        elif name in ("Returns", "Yields"):
            paragraphs.append(f"**{name}:** {' '.join(body.split())}")
        else:
            listed = "\n".join(f"- `{each}`: {said}" for each, said in items(body).items())
            paragraphs.append(f"**{name}**\n\n{listed}")
    return paragraphs


def _with_fences(text: str) -> str:
    """Return the text with its indented blocks as blocks of code."""
    paragraphs = text.split("\n\n")
    return "\n\n".join(
        f"```python\n{inspect.cleandoc(chr(10) + each)}\n```" if each.startswith("    ") else each
        for each in paragraphs
    )


# --- signatures -----------------------------------------------------------------------------------


def signature(name: str, function: Callable[..., Any], *, skip: int = 0) -> str:
    """Return a call as one writes its definition, without the first `skip` parameters.

    A name that begins with `@` is that of a decorator, whose type says nothing.
    """
    shape = inspect.signature(function)
    parameters = list(shape.parameters.values())[skip:]
    keyword = "async " if inspect.iscoroutinefunction(inspect.unwrap(function)) else ""
    gives = _annotation(shape.return_annotation)
    end = ")" if gives in ("", "None") or name.startswith("@") else f") -> {gives}"
    parts = list(_parameters(parameters))
    line = f"{keyword}{name}({', '.join(parts)}{end}"
    if len(line) <= MAX_LINE:
        return line
    return f"{keyword}{name}(\n" + "".join(f"    {part},\n" for part in parts) + end


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    star_is_due = True
    for n, each in enumerate(parameters):
        if each.kind is inspect.Parameter.KEYWORD_ONLY and star_is_due:
            yield "*"
            star_is_due = False
        if each.kind is inspect.Parameter.VAR_POSITIONAL:
            star_is_due = False
        yield _parameter(each)
        after = parameters[n + 1 : n + 2]
        is_positional = each.kind is inspect.Parameter.POSITIONAL_ONLY
        if is_positional and not (after and after[0].kind is inspect.Parameter.POSITIONAL_ONLY):
            yield "/"


def _parameter(given: inspect.Parameter) -> str:
    said = _annotation(given.annotation)
    text = str(given.replace(annotation=given.empty, default=given.empty))
    if said and not said.endswith((".args", ".kwargs")):
        text += f": {said}"
    if given.default is inspect.Parameter.empty:
        return text
    return text + (" = " if said else "=") + _default(given.default)


def _default(value: object) -> str:
    if inspect.isfunction(value):
        return str(value.__name__)
    # Anything else may show the machine on which the page is made, such as `os.environ`.
    is_plain = value is None or type(value) in (bool, int, float, str, tuple)
    return repr(value).replace("'", '"') if is_plain else "..."


def _annotation(given: Any) -> str:
    if given is inspect.Parameter.empty:
        return ""
    text = given if isinstance(given, str) else inspect.formatannotation(given)
    return re.sub(r"\b_(uuid|random)\.", "", text)
