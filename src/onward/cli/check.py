"""`onward check`: would the open runs continue with this code? Run it before a deploy."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, NO, Given, bare_command
from onward.cli.output import shown
from onward.cli.progress import progress
from onward.cli.user_code import load_app
from onward.cli.worker import override_store
from onward.engine.address import check_exists
from onward.engine.migration import plan_migration
from onward.engine.server_address import is_server
from onward.errors import BadInput
from onward.sdk.deploy_check import check_open_runs

if TYPE_CHECKING:
    from onward.runtime.body.divergence import Place
    from onward.sdk.app import App
    from onward.sdk.deploy_check import CheckedRun

_NO_DATABASE = "Specify the deployment's database in the code, or with --db"
_NEXT = (
    "Change the code to match, mark the change with onward.patched, or fork or cancel each run "
    "that does not match. A worker with this code would pause such runs."
)


def add_check(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @bare_command(root, "check", example="onward check shop.tasks --workflow order")
    @click.argument("target", metavar="MODULE[:APP]")
    @click.option("--workflow", metavar="NAME", help="Only the runs of one workflow.")
    @click.option(
        "--limit", type=click.IntRange(1), metavar="N", help="Only the newest N runs. Default: all."
    )
    def check(given: Given, target: str, workflow: str | None, limit: int | None) -> int:
        """Check that open runs can continue with your code.

        Imports MODULE as `onward worker` does and replays the histories of its open runs. Nothing
        is written and no step is executed: a replay ends at the first call that has no recorded
        result. Run the command in the folder that contains the new code, before you deploy.

        Exits with 1 if a run would be paused or fail. For each such run, it prints the recorded
        call, the call that the code makes now, its line, and the arguments of both.
        """
        with redirect_stdout(sys.stderr):
            app = load_app(target)
        override_store(app, given)
        return asyncio.run(_check(given, app, workflow, limit))


async def _check(given: Given, app: App, workflow: str | None, limit: int | None) -> int:
    if is_server(app._url):
        raise BadInput(
            "onward check",
            "needs the database, and this App connects to a server",
            "Pass the server's database: --db postgresql://user@host/database",
        )
    await check_exists(app._url, _NO_DATABASE)
    plan = await plan_migration(app._url)
    if plan.before != plan.after:
        raise BadInput(
            plan.where,
            f"has schema {plan.before}, but this version of Onward needs {plan.after}",
            "Run onward migrate first: it is safe while workers of the previous version run",
        )
    checked: list[CheckedRun] = []
    async with app:
        uids = await app._engine.begun_runs(name=workflow, limit=limit)
        with progress(given.out, "Replaying open runs", len(uids)) as advance:
            async for run in check_open_runs(app, uids):
                checked.append(run)
                advance()
    _print(given, checked)
    return NO if any(run.misfit is not None for run in checked) else DONE


def _print(given: Given, checked: list[CheckedRun]) -> None:
    replayed = [run for run in checked if run.skipped is None]
    misfits = [run for run in replayed if run.misfit is not None]
    skipped = Counter((run.name, str(run.skipped)) for run in checked if run.skipped is not None)
    unread = [
        run for run in replayed if run.misfit is None and run.rehearsal and run.rehearsal.unread
    ]
    if given.out.as_json:
        given.out.thing(
            {
                "checked": len(replayed),
                "fits": not misfits,
                "misfits": [_as_json(run) for run in misfits],
                "unread": [
                    {
                        "id": run.id,
                        "uid": run.uid,
                        "workflow": run.name,
                        "calls": _unread(run),
                        "has_ended": _has_ended(run),
                    }
                    for run in unread
                ],
                "skipped": [
                    {"workflow": name, "reason": reason, "runs": count}
                    for (name, reason), count in skipped.items()
                ],
            },
            {},
        )
        return
    for run in misfits:
        given.out.say(_text(run) + "\n")
    for run in unread:
        calls = ", ".join(_unread(run))
        fact = "continues; its code has not reached these recorded calls yet"
        if _has_ended(run):
            fact = "continues, but does not make these calls again"
        given.out.note(f"run {run.id} {fact}: {calls}")
    for (name, reason), count in skipped.items():
        those = "1 run" if count == 1 else f"{count} runs"
        given.out.note(f"Not checked: {those} of {name} ({reason}).")
    runs = "1 open run" if len(replayed) == 1 else f"{len(replayed)} open runs"
    if not misfits:
        fact = "it matches the code" if len(replayed) == 1 else "all match the code"
        given.out.say(f"{runs} checked: {fact}.")
        return
    fact = "1 does" if len(misfits) == 1 else f"{len(misfits)} do"
    given.out.say(f"{runs} checked: {fact} not match the code. {_NEXT}")


def _unread(run: CheckedRun) -> list[str]:
    return [] if run.rehearsal is None else list(run.rehearsal.unread)


def _has_ended(run: CheckedRun) -> bool:
    return run.rehearsal is not None and run.rehearsal.has_ended


def _as_json(run: CheckedRun) -> dict[str, Any]:
    misfit = run.misfit
    assert misfit is not None
    was, asked, place = misfit.recorded, misfit.asked, misfit.place
    return {
        "id": run.id,
        "uid": run.uid,
        "workflow": run.name,
        "kind": misfit.kind,
        "text": misfit.text,
        "recorded": None
        if was is None
        else {
            "kind": was.kind,
            "name": was.name,
            "identity": was.identity,
            "arguments": run.recorded_args,
        },
        "now": None
        if asked is None
        else {"kind": asked.kind, "name": asked.name, "arguments": run.asked_args},
        "file": None if place is None else place.file,
        "line": None if place is None else place.line,
    }


def _text(run: CheckedRun) -> str:
    """Return the difference as people read it."""
    misfit = run.misfit
    assert misfit is not None
    lines = [f"run {run.id} of {run.name}: {misfit.text}"]
    if misfit.recorded is not None:
        was, now = misfit.recorded, misfit.asked
        lines.append(f"  - recorded: {was.kind} {was.name}{_arguments(run.recorded_args)}")
        made = "nothing" if now is None else f"{now.kind} {now.name}{_arguments(run.asked_args)}"
        lines.append(f"  + now:      {made}")
    if misfit.place is not None:
        lines.append(f"  in {_place(misfit.place)}")
    return shown("\n".join(lines), lines=True)


def _arguments(arguments: Any) -> str:
    return "" if arguments is None else f" {json.dumps(arguments, ensure_ascii=False)}"


def _place(place: Place) -> str:
    """Return a line of code, with a path as short as possible."""
    try:
        file = str(Path(place.file).relative_to(Path.cwd()))
    except ValueError:
        file = place.file
    return str(place._replace(file=file))
