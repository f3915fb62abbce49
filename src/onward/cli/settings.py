"""Where a command finds its settings: flags, then the environment, then a file, then defaults.

The file is the nearest one, from the current folder upwards: `onward.toml`, or a `pyproject.toml`
with a table `[tool.onward]`. A database file that it names lies beside it.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, NamedTuple

from onward.core.retention import read_retention
from onward.engine.address import resolved
from onward.errors import BadInput

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from onward.core.retention import Retention

DEFAULTS = {"db": "onward.db", "namespace": "default"}
"""Every setting that can be given by flag, environment and file, with its default."""

RETENTION = "retention"
"""A setting of the environment and of files: how long `onward prune` keeps runs."""

WORKER, SERVER = "worker", "server"
"""The tables of a file with the options of `onward worker` and of `onward server`."""


class Settings(NamedTuple):
    """What a command works with."""

    db: str
    namespace: str


def variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"ONWARD_{name.upper()}"


def load(flags: Mapping[str, str | None], environment: Mapping[str, str], folder: Path) -> Settings:
    """Return the settings for a command that is run in a folder.

    Raises:
        BadInput: the file cannot be understood.
    """
    given = {name: flags.get(name) or environment.get(variable(name)) for name in DEFAULTS}
    if not all(given.values()):
        in_file = _from_file(folder)
        given = {name: given[name] or in_file.get(name) or DEFAULTS[name] for name in DEFAULTS}
    return Settings(**{name: str(value) for name, value in given.items()})


def load_retention(environment: Mapping[str, str], folder: Path) -> Retention | None:
    """Return how long runs are kept, such as "succeeded=7d failed=off"; None if it is "off".

    Raises:
        BadInput: it cannot be understood.
    """
    text = environment.get(variable(RETENTION)) or _from_file(folder).get(RETENTION) or ""
    if text == _OFF:
        return None
    if text and "=" not in text:
        return read_retention(text)
    pairs = [pair.partition("=") for pair in text.replace(",", " ").split()]
    return read_retention({name: None if kept == _OFF else kept for name, _, kept in pairs})


_OFF = "off"


def is_debugging(environment: Mapping[str, str]) -> bool:
    """Return whether `ONWARD_DEBUG` asks for tracebacks."""
    return environment.get(variable("debug"), "0") not in ("", "0")


def _from_file(folder: Path) -> dict[str, str]:
    """Return the settings of the nearest file."""
    found, path = _nearest(folder)
    plain = {name: value for name, value in found.items() if name not in (WORKER, SERVER)}
    return _checked(plain, path)


def table_of(name: str, folder: Path) -> dict[str, Any]:
    """Return a table of the nearest file: the options of a command, as written there.

    Raises:
        BadInput: the file cannot be understood.
    """
    found, path = _nearest(folder)
    table = found.get(name, {})
    if not isinstance(table, dict):
        raise BadInput(f"{name} in {path}", "is not a table", f"Write [{name}]")
    return table


def _nearest(folder: Path) -> tuple[dict[str, Any], Path]:
    """Return the settings of the nearest file as they stand there, and its path."""
    for place in (folder, *folder.parents):
        for path, table in ((place / "onward.toml", ()), (place / "pyproject.toml", _TABLE)):
            found = _table(path, table)
            if isinstance(found, dict):
                return found, path
            if found is not None:
                raise BadInput(
                    str(path), "has a tool.onward that is not a table", "Write [tool.onward]"
                )
    return {}, folder


_TABLE = ("tool", "onward")


def _table(path: Path, table: tuple[str, ...]) -> Any:
    """Return a table of a file, or None if file or table is not there."""
    try:
        found: Any = tomllib.loads(path.read_text("utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, UnicodeError, tomllib.TOMLDecodeError) as error:
        raise BadInput(
            str(path), f"cannot be read ({error})", "Fix the file, or use --db"
        ) from error
    for name in table:
        found = found.get(name) if isinstance(found, dict) else None
    return found


def _checked(found: dict[str, Any], path: Path) -> dict[str, str]:
    for name, value in found.items():
        if name not in (*DEFAULTS, RETENTION):
            known = ", ".join((*DEFAULTS, RETENTION, f"[{WORKER}]", f"[{SERVER}]"))
            raise BadInput(f"{name} in {path}", "is not a known setting", f"Use one of: {known}")
        if not isinstance(value, str):
            raise BadInput(f"{name} in {path}", "is not a string", f'Write {name} = "..."')
    settings: dict[str, str] = dict(found)
    if "db" in settings:
        settings["db"] = resolved(settings["db"], path.parent)
    return settings
