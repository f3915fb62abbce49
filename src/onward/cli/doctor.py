"""`onward doctor`: is something wrong with the store, or with its runs and workers?"""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onward.cli.command import DONE, NO, NO_DATABASE, Given, bare_command
from onward.cli.output import shown
from onward.cli.progress import progress
from onward.cli.settings import load
from onward.engine.address import check_exists
from onward.engine.doctor import SECTIONS, conclude
from onward.engine.finding import Finding
from onward.engine.health_findings import examine_file
from onward.engine.migration import plan_migration
from onward.engine.server_address import is_server
from onward.errors import SchemaTooNew
from onward.errors.root import count_text
from onward.sdk.app import App

if TYPE_CHECKING:
    from onward.cli.output import Output
    from onward.cli.settings import Settings
    from onward.engine.doctor import Part


def add_doctor(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @bare_command(root, "doctor", example="onward doctor --db postgresql://shop@db/shop")
    @click.option(
        "--full", is_flag=True, help="Check the invariants of all runs. This can take a long time."
    )
    def doctor(given: Given, *, full: bool) -> int:
        """Find problems with a store, its runs and its workers.

        Checks the schema, the settings on which durability depends, the invariants of the tables,
        the clock, leases, runs that no worker can take, uncertain effects, and sizes. The command
        changes nothing, and workers can keep running. Each finding comes with an explanation and
        the command to run next.

        The invariants are checked for a few thousand open runs and the newest runs, so the command
        is fast on a large store. With --full, they are checked for all runs.

        Exits with 1 if there is a finding.
        """
        settings = load(given.flags, os.environ, Path.cwd())
        findings, note = asyncio.run(_examine(settings, given.out, is_full=full))
        facts = [asdict(finding) for finding in findings]
        given.out.things(facts, (), ())
        for finding in findings:
            given.out.say(
                shown(
                    f"{finding.kind}: {finding.text}.\n  {finding.meaning}.\n"
                    f"  Next: {given.out.suggested(finding.next)}\n",
                    lines=True,
                )
            )
        if not findings:
            given.out.say("No problems found.")
        if note:
            given.out.say(given.out.suggested(note))
        return NO if findings else DONE


async def _examine(
    settings: Settings, out: Output, *, is_full: bool
) -> tuple[list[Finding], str | None]:
    """Return what is wrong, and what was not looked at."""
    found: list[Finding] = []
    if not is_server(settings.db):  # which has looked at its database when it started
        await check_exists(settings.db, NO_DATABASE)
        wrong = await _wrong_schema(settings.db)
        if wrong is not None:
            return [wrong], None
        found = examine_file(settings.db)
    parts: list[Part] = []
    total = None if is_full else len(SECTIONS)
    async with App(settings.db, namespace=settings.namespace) as app:
        with progress(out, "Examining", total) as advance:
            while not parts or parts[-1].position is not None:
                begin = parts[-1].position if parts else None
                parts.append(await app._engine.examine(begin, is_full=is_full))
                advance()
    runs = sum(part.runs for part in parts)
    note = None
    if not all(part.is_all for part in parts):
        checked = count_text(runs, "run")
        note = f"Invariants were checked for {checked}. To check all runs: onward doctor --full"
    return found + conclude(parts), note


async def _wrong_schema(url: str) -> Finding | None:
    try:
        plan = await plan_migration(url)
    except SchemaTooNew as error:
        return _schema(str(error), "Upgrade Onward on this machine: pip install -U onward")
    if plan.before == plan.after:
        return None
    text = f"{plan.where} has schema {plan.before}, but this version needs {plan.after}"
    return _schema(text, "onward migrate")


def _schema(text: str, advice: str) -> Finding:
    meaning = "Nothing else was checked. Workers that do not match the schema do not start"
    return Finding("schema", text.rstrip("."), meaning, advice)
