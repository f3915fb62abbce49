"""The mark of a workflow's code: it changes with its module, and with the version of Onward.

A run that did not fit its history under one mark may be tried again under another.
"""

from __future__ import annotations

import inspect
import sys
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from onward.core.digest import digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

MARK_CHARS = 12


def code_mark(fn: Callable[..., Any], version: str | None) -> str:
    """Return the mark of a function's code; with a declared version it is that version's."""
    if version is not None:
        return digest("version", version, _engine())[:MARK_CHARS]
    mark = _mark_of_module(fn.__module__)
    if mark is not None:
        return mark
    own = getattr(fn, "__code__", None)
    parts = [repr(type(fn))] if own is None else _parts(own)
    return digest(*parts, _engine())[:MARK_CHARS]


@cache
def _engine() -> str:
    """Return the version of Onward, which may read what an older one could not."""
    try:
        return metadata.version("onward")
    except metadata.PackageNotFoundError:  # run from its source
        return ""


@cache
def _mark_of_module(name: str) -> str | None:
    module = sys.modules.get(name)
    try:
        source = None if module is None else inspect.getsource(module)
    except (OSError, TypeError):  # typed in by hand, or there is no source
        source = None
    return None if source is None else digest(source, _engine())[:MARK_CHARS]


def _parts(code: CodeType) -> list[str]:
    parts = [code.co_code.hex(), *code.co_names]
    for constant in code.co_consts:
        if inspect.iscode(constant):
            parts += _parts(constant)
        elif isinstance(constant, frozenset):  # in each process it has another order
            parts += sorted(map(repr, constant))
        else:
            parts.append(repr(constant))
    return parts
