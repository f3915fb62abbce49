"""`onward doctor`: is something wrong with the store, or with its runs and workers?"""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from onward.cli.command import DONE, NO, NO_DATABASE, Given, bare_command
from onward.cli.output import shown
from onward.cli.settings import load
from onward.engine.address import check_exists
from onward.engine.doctor import examine_file
from onward.engine.finding import Finding
from onward.engine.migration import plan_migration
from onward.errors import SchemaTooNew
from onward.sdk.app import App

if TYPE_CHECKING:
    import click

    from onward.cli.settings import Settings


def add_doctor(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @bare_command(root, "doctor", example="onward doctor --db postgresql://shop@db/shop")
    def doctor(given: Given) -> int:
        """Find problems with a store, its runs and its workers.

        Checks the schema, the settings on which durability depends, the invariants of all tables,
        the clock, leases, runs that no worker can take, uncertain effects, and sizes. Nothing is
        changed, and workers may run. Each finding comes with its meaning and the next command.

        Exits with 1 if there is a finding.
        """
        settings = load(given.flags, os.environ, Path.cwd())
        findings = asyncio.run(_examine(settings))
        facts = [asdict(finding) for finding in findings]
        given.out.things(facts, (), ())
        for finding in findings:
            given.out.say(
                shown(
                    f"{finding.kind}: {finding.text}.\n  {finding.meaning}.\n"
                    f"  Next: {finding.next}\n",
                    lines=True,
                )
            )
        if not findings:
            given.out.say("No problems found.")
        return NO if findings else DONE


async def _examine(settings: Settings) -> list[Finding]:
    await check_exists(settings.db, NO_DATABASE)
    try:
        plan = await plan_migration(settings.db)
    except SchemaTooNew as error:
        return [_schema(str(error), "Upgrade Onward on this machine: pip install -U onward")]
    if plan.before != plan.after:
        text = f"{plan.where} has schema {plan.before}, and this version needs {plan.after}"
        return [_schema(text, "onward migrate")]
    found = examine_file(settings.db)
    async with App(settings.db, namespace=settings.namespace) as app:
        return found + await app._engine.examine()


def _schema(text: str, advice: str) -> Finding:
    meaning = "Nothing else was checked. Workers that do not match the schema do not start"
    return Finding("schema", text.rstrip("."), meaning, advice)
