"""Migrations to the schema of this code: numbered steps, forward only.

The schema's number is a row of `onward_meta`. Each migration and its number are one transaction,
under a lock that keeps two processes from migrating at once.
"""

from __future__ import annotations

from onward.errors import SchemaTooNew
from onward.store.statements import migrations


def known() -> int:
    """Return the number of the schema that this code knows."""
    return len(migrations())


def missing(found: int, where: str) -> list[tuple[int, str]]:
    """Return the migrations that a database with schema `found` still needs, with their numbers.

    Raises:
        SchemaTooNew: a newer Onward has been here.
    """
    if found > known():
        raise SchemaTooNew(where, found, known())
    return list(enumerate(migrations(), start=1))[found:]
