"""`onward migrate`: creates the schema of a database, or brings it up to date."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onward.cli.command import DONE, Given, bare_command
from onward.cli.settings import load
from onward.engine import migration

if TYPE_CHECKING:
    from onward.engine.migration import Migration


def add_migrate(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @bare_command(root, "migrate", example="onward migrate --db postgresql://owner@host/shop")
    @click.option("--dry-run", is_flag=True, help="Show what would be done, without doing it.")
    def migrate(given: Given, *, dry_run: bool) -> int:
        """Create the schema of a database, or bring it up to date.

        An App does this when it is opened, if its database role is allowed to. Use this command if
        your web app and workers connect as a role that may not create tables: run it with an
        address whose role owns the schema, before you start the new version. You can do this while
        workers of the previous version are running.
        """
        url = load(given.flags, os.environ, Path.cwd()).db
        act = migration.plan_migration if dry_run else migration.migrate
        done = asyncio.run(act(url))
        given.out.done(
            {"store": done.where, "from": done.before, "to": done.after, "dry_run": dry_run},
            _text(done, dry_run=dry_run),
        )
        return DONE


def _text(done: Migration, *, dry_run: bool) -> str:
    if done.before == done.after:
        return f"{done.where} has schema {done.after}: nothing to do."
    if done.before == 0:
        verb = "would be created" if dry_run else "was created"
        return f"{done.where}: schema {done.after} {verb}."
    verb = "would be migrated" if dry_run else "was migrated"
    return f"{done.where}: the schema {verb} from {done.before} to {done.after}."
