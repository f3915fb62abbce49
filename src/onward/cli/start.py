"""`onward start`: starts a run, by the name of its workflow."""

from __future__ import annotations

import inspect
import json
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, NO, command
from onward.cli.user_code import import_module
from onward.cli.value import from_json
from onward.cli.waiting import check_timeout, is_over
from onward.codec import Arguments, encode
from onward.codec.names import check_name
from onward.core.instant import duration
from onward.core.run import RunState, in_words
from onward.engine.starting import StartOptions, new_run
from onward.errors import BadInput, Conflict, Undecodable
from onward.sdk.workflow import Workflow

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from onward.cli.command import CommandContext
    from onward.model.runs import NewRun, Started
    from onward.sdk.app import App
    from onward.sdk.run import Run


def add_start(root: click.Group) -> None:
    """Add the command, which is in no group."""

    @command(root, "start", example="""onward start order '{"cents": 500}' --id order-7""")
    @click.argument("name", metavar="WORKFLOW")
    @click.argument("arguments", metavar="[JSON]", default="{}")
    @click.option(
        "--id",
        "run_id",
        metavar="ID",
        help="Your id for the run; a second start returns the same run.",
    )
    @click.option("--queue", metavar="NAME", help="A queue. Default: the workflow's, or 'default'.")
    @click.option(
        "--priority", type=int, metavar="N", help="Higher values start first. Default: 0."
    )
    @click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag; may be repeated.")
    @click.option("--delay", metavar="DURATION", help="How long to wait before the run starts.")
    @click.option("--module", metavar="MODULE", help="Your module, to check the arguments against.")
    @click.option(
        "--wait", is_flag=True, help="Wait until the run has ended, and print its result."
    )
    @click.option(
        "--timeout",
        metavar="TIME",
        callback=check_timeout,
        help="Wait no longer than this, such as 30s.",
    )
    async def start(
        context: CommandContext,
        *,
        name: str,
        arguments: str,
        module: str | None,
        wait: bool,
        timeout: str | None,
        **options: Any,
    ) -> int:
        """Start a run.

        JSON is an object with the arguments by name. The arguments are not checked unless --module
        names your code: a worker pauses a run whose arguments are wrong. With --module, a JSON
        list passes them in order.

        Exits with 1 if the id belongs to a run with different arguments or, with --wait, if the run
        has not succeeded.
        """
        if timeout is not None and not wait:
            raise click.UsageError("--timeout requires --wait.")
        given = from_json("JSON", arguments)
        if not isinstance(given, dict | list):
            raise click.BadParameter("expected an object or a list of values.", param_hint="JSON")
        chosen = _options(**options)
        if module:
            started = await _start_checked(context.app, name, given, chosen, module)
        else:
            started = await start_by_name(context.app, name, given, chosen)
        return await _report(context, started, chosen.get("id", started.uid), timeout, wait=wait)


async def start_by_name(app: App, name: str, arguments: Any, options: dict[str, Any]) -> Started:
    """Start a run of a workflow whose code is not here.

    Args:
        app: The app, which is open.
        name: The name of the workflow.
        arguments: Its arguments by name.
        options: `id`, `queue`, `priority`, `tags`, `delay`, as for `Workflow.options`.

    Raises:
        BadInput: the arguments have no names.
        Conflict: the id belongs to a run with other arguments.
    """
    run = _unchecked(name, arguments, dict(options))
    uid = app._engine.new_uid()
    with _other_advice():
        return await app._engine.start(run._replace(uid=uid, id=run.id or uid), "return")


@contextmanager
def _other_advice() -> Iterator[None]:
    """Give a refused start advice that a command can follow."""
    try:
        yield
    except Conflict as error:
        error.advice = "Choose another id"
        raise


def _options(
    run_id: str | None,
    queue: str | None,
    priority: int | None,
    tags: tuple[str, ...],
    delay: str | None,
) -> dict[str, Any]:
    given = {
        "id": run_id,
        "queue": queue,
        "priority": priority,
        "tags": tags or None,
        "delay": delay,
    }
    return {name: value for name, value in given.items() if value is not None}


async def _start_checked(
    app: App, name: str, given: Any, options: dict[str, Any], module: str
) -> Started:
    """Start a run as the code would."""
    workflow = _find(name, module)
    shape = workflow.definition.shape
    try:
        args, kwargs = shape.decode(encode(_by_name(workflow, given)))
    except (TypeError, Undecodable) as misfit:
        fact = misfit.fact if isinstance(misfit, Undecodable) else str(misfit)
        advice = "Pass the arguments as an object by name, or as a list in order"
        raise BadInput(f"JSON does not fit {shape.call_text}:", fact, advice) from None
    with _other_advice():
        _, started = await app._start(workflow.options(**options), args, kwargs)
    return started


def _by_name(workflow: Workflow[..., Any], given: Any) -> Any:
    """Return arguments by name, also those that are a list in order.

    Raises:
        TypeError: the list has more items than there are parameters.
    """
    if not isinstance(given, list):
        return given
    names = list(inspect.signature(workflow.fn).parameters)
    if len(given) > len(names):
        raise TypeError(f"the list has {len(given)} items for {len(names)} parameters")
    return dict(zip(names, given, strict=False))


def _find(name: str, module: str) -> Workflow[..., Any]:
    """Return a workflow that a module defines or imports, with the options of its decorator."""
    import_module(module)
    defined = [value for loaded in list(sys.modules.values()) for value in _workflows(loaded)]
    for workflow in defined:
        if workflow.name == name:
            return workflow
    names = ", ".join(sorted({workflow.name for workflow in defined})) or "none"
    raise BadInput(f"workflow {name!r}", f"is not defined by {module}", f"It defines: {names}")


def _workflows(module: ModuleType) -> list[Workflow[..., Any]]:
    return [each for each in list(vars(module).values()) if isinstance(each, Workflow)]


def _unchecked(name: str, given: Any, options: dict[str, Any]) -> NewRun:
    """Return a run by its name alone."""
    if isinstance(given, list):
        raise BadInput(
            "a list of arguments",
            "needs --module, because the parameter names are not known without your code",
            """Pass the arguments by name instead: '{"cents": 500}'""",
        )
    delay = duration(options.pop("delay", 0))
    chosen = StartOptions(**options, delay=delay)
    return new_run(
        "", check_name(name, "the workflow"), Arguments("JSON", given, {}, is_sorted=False), chosen
    )


async def _report(
    context: CommandContext, started: Started, run_id: str, timeout: str | None, *, wait: bool
) -> int:
    """Print that a run was started and, if the command waits for it, how it ended."""
    text = "was started" if started.created else f"already exists: it {in_words(started.state)}"
    if wait:
        if not context.out.as_json:
            context.out.note(f"run {run_id} {text}")
        return await _wait(context, await context.app.get(run_id), timeout)
    thing = {"id": run_id, "uid": started.uid, "created": started.created}
    context.out.done(thing, f"run {run_id} {text}")
    return DONE


async def _wait(context: CommandContext, run: Run[Any], timeout: str | None) -> int:
    """Wait until a run is over, and print its result or how it stands."""
    await is_over(context, run, timeout, or_paused=True)
    report = await context.engine.report((await context.engine.newest(run.id)).uid)
    info = report.info
    context.out.done(
        {"id": info.id, "uid": info.uid, "state": info.state, "result": report.result,
         "error": info.error},
        f"run {info.id} {in_words(info.state)}"
        + (f": {_json(report.result)}" if info.state == RunState.SUCCEEDED else "")
        + (f": {info.error}" if info.error else ""),
        lines=True,
    )  # fmt: skip
    return DONE if info.state == RunState.SUCCEEDED else NO


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
