"""Development checks of a workflow body: calls that a replay would not repeat raise an error.

`sys.setprofile` reports every call of a C function before it happens, also those that a library
makes. That is slow, and complete: it does not matter how a function was imported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from onward.errors import NotInBody
from onward.runtime.body import runloop
from onward.runtime.body.forbidden import CHANCE, NEW_RANDOM, rule_of, rule_through
from onward.system.libraries import is_library

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

    from onward.runtime.body.forbidden import Rule

ALLOWED = (
    *("importlib", "linecache", "logging", "traceback", "warnings"),
    *("loguru", "opentelemetry", "sentry_sdk", "structlog"),
    *("bdb", "debugpy", "hypothesis", "pdb", "pydevd"),
)
"""Modules in which, and in whose calls, everything is allowed: they only observe the body."""

_OWN = ("onward", "asyncio")
_ORIGIN_DEPTH = 1  # `unawaited` reports the lines that made coroutines


class BodyGuard:
    """Checks the code of bodies while it runs.

    Args:
        allowed: Names of modules, with their submodules, in which everything is allowed.
    """

    def __init__(self, allowed: Sequence[str] = ()) -> None:
        self._allowed = (*ALLOWED, *allowed)

    def run(self, code: Callable[[], None]) -> None:
        """Run the code of a body."""
        before, depth = sys.getprofile(), sys.get_coroutine_origin_tracking_depth()
        sys.set_coroutine_origin_tracking_depth(_ORIGIN_DEPTH)
        sys.setprofile(self._see)
        try:
            code()
        finally:
            sys.setprofile(before)
            sys.set_coroutine_origin_tracking_depth(depth)

    def _see(self, frame: FrameType, event: str, arg: Any) -> None:
        """Raise if a call that is about to happen is forbidden. Python then stops to report."""
        if event == "c_call":
            found = rule_of(arg)
            if found is not None:
                self._check(frame, *found)
        elif event == "call" and frame.f_code is NEW_RANDOM and frame.f_locals.get("x") is None:
            self._check(frame.f_back, "random.Random", CHANCE)

    def _check(self, frame: FrameType | None, name: str, rule: Rule) -> None:
        frames: list[FrameType] = []
        while frame is not None and _module(frame) != runloop.__name__:
            frames.append(frame)
            frame = frame.f_back
        if frame is None or any(_is_in(_module(each), self._allowed) for each in frames):
            return  # it is not called by a body, or only observes it
        mine = next((n for n, each in enumerate(frames) if not _is_library(each)), len(frames) - 1)
        if mine < 0 or any(_is_in(_module(each), _OWN) for each in frames[: mine + 1]):
            return
        if mine > 0:
            called = frames[mine - 1]
            rule = rule_through(_module(called), rule)
            name = f"{_module(called)}.{called.f_code.co_qualname}"
            name = name.removesuffix(".__init__").replace("random.Random.", "random.")
        raise NotInBody(f"{name}() at {_line(frames[mine])}", rule.fact, rule.advice)


def _line(frame: FrameType) -> str:
    return f"{frame.f_code.co_filename}:{frame.f_lineno} in {frame.f_code.co_name}"


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_in(module: str, names: Sequence[str]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in names)


def _is_library(frame: FrameType) -> bool:
    # In a checkout of Onward its files are not in a folder of libraries.
    return is_library(frame.f_code.co_filename) or _is_in(_module(frame), ("onward",))
