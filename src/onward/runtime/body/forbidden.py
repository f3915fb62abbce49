"""Calls that have no place in a workflow body, and what to use instead.

Only functions written in C are listed: everything else ends at one of them, however it was
imported. They are named by the object that they are bound to, which for most is a module.
"""

from __future__ import annotations

import random
import socket
from datetime import date
from types import BuiltinFunctionType, ModuleType
from typing import NamedTuple


class Rule(NamedTuple):
    """Why a call has no place in a body, and what to do."""

    fact: str
    advice: str


_DIFFERS = "returns a different value in every replay"
_BLOCKS = "blocks every run on its worker"

CLOCK = Rule(_DIFFERS, "Use onward.now()")
CHANCE = Rule(_DIFFERS, "Use onward.random()")
_UUID = Rule(_DIFFERS, "Use onward.uuid()")
_SECRET = Rule(_DIFFERS, "Call it in a step")
_SLEEP = Rule(_BLOCKS, "Use await onward.sleep(...)")
_IO = Rule(f"{_BLOCKS}, and would happen again in every replay", "Call it in a step")
_THREAD = Rule("starts a thread in every replay, and the run does not wait for it", "Use a step")
_PROCESS = Rule("starts a process in every replay", "Call it in a step")

_BY_MODULE: dict[str, dict[str, Rule]] = {
    "time": {
        **dict.fromkeys(("time", "monotonic", "perf_counter", "clock_gettime"), CLOCK),
        **dict.fromkeys(("time_ns", "monotonic_ns", "perf_counter_ns", "clock_gettime_ns"), CLOCK),
        "sleep": _SLEEP,
    },
    "posix": {
        **dict.fromkeys(("urandom", "getrandom"), _SECRET),
        **dict.fromkeys(("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"), _PROCESS),
        "open": _IO,
    },
    "nt": {"urandom": _SECRET, "open": _IO, "system": _PROCESS},
    "_uuid": dict.fromkeys(("generate_time_safe", "UuidCreate"), _UUID),
    "_io": {"open": _IO},
    "builtins": {"input": _IO},
    "_socket": dict.fromkeys(("getaddrinfo", "gethostbyname", "getnameinfo"), _IO),
    "_sqlite3": {"connect": _IO},
    "sqlite3": {"connect": _IO},
    "_thread": dict.fromkeys(("start_new_thread", "start_joinable_thread"), _THREAD),
    "_posixsubprocess": {"fork_exec": _PROCESS},
    "_winapi": {"CreateProcess": _PROCESS},
}
_BY_CALLER = {"uuid": _UUID, "random": CHANCE}
"""What to use instead depends on the module that draws random bytes."""

_NOW = frozenset({"now", "today", "utcnow"})
_CONNECT = frozenset({"connect", "connect_ex"})
NEW_RANDOM = random.Random.__init__.__code__
"""Makes a generator, which differs in every replay if it is given no seed."""

_SHARED_RANDOM = random._inst  # behind random.random and the others


def rule_of(function: object) -> tuple[str, Rule] | None:
    """Return the name of a C function and the rule against it, if there is one."""
    if not isinstance(function, BuiltinFunctionType):
        return None
    owner, name = function.__self__, function.__name__
    if isinstance(owner, ModuleType):
        module = owner.__name__
        rule = _BY_MODULE.get("_io" if module == "io" else module, {}).get(name)
        return None if rule is None else (_NAMES.get((module, name), f"{module}.{name}"), rule)
    if isinstance(owner, type):
        if name in _NOW and issubclass(owner, date):
            return f"datetime.{owner.__name__}.{name}", CLOCK
        return None
    if owner is _SHARED_RANDOM:
        return f"random.{name}", CHANCE
    if name in _CONNECT and isinstance(owner, socket.SocketType):
        return f"socket.{name}", _IO
    return None


def rule_through(module: str, rule: Rule) -> Rule:
    """Return the rule for a call that reaches a forbidden one through a module of Python's."""
    return _BY_CALLER.get(module, rule) if rule is _SECRET else rule


_NAMES = {
    ("_io", "open"): "open",
    ("io", "open"): "open",
    ("builtins", "input"): "input",
    ("posix", "urandom"): "os.urandom",
    ("posix", "getrandom"): "os.getrandom",
    ("posix", "system"): "os.system",
    ("posix", "fork"): "os.fork",
    ("posix", "open"): "os.open",
    ("_socket", "getaddrinfo"): "socket.getaddrinfo",
    ("_socket", "gethostbyname"): "socket.gethostbyname",
    ("_sqlite3", "connect"): "sqlite3.connect",
}
