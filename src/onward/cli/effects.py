"""`onward effects`: the ledger, and the verdicts of operators."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, command, group
from onward.cli.effect_report import ATTEMPTS_HEAD, attempt_rows, effect_facts
from onward.cli.output import from_text
from onward.cli.user_code import import_module
from onward.cli.value import from_json
from onward.core.effect import Verdict
from onward.core.run import TERMINAL
from onward.engine.effect_info import effect_wait_text
from onward.sdk import effect as effect_module

if TYPE_CHECKING:
    from onward.cli.command import CommandContext
    from onward.engine.effect_views import EffectChoice, EffectInfo

SHORT = 12
"""How much of the id of an effect is shown in lists; the rest is hardly ever needed."""

HEAD = ("ID", "EFFECT", "STATE", "RUN", "SENT", "WAITS FOR", "SINCE")

_MEANINGS = {
    "approve": "send it",
    "reject": "never send it",
    "applied": "it happened",
    "not_applied": "it did not happen",
    "skip": "continue without it",
    "ask_again": "ask the reconciler",
}
_SEND_AGAIN = "send it again: its receiver deduplicates by key"


def _word(context: click.Context, parameter: click.Parameter, given: str) -> str:
    """Return a verdict as the ledger has it, written with hyphens or underscores."""
    word = given.replace("-", "_")
    if word not in {verdict.value for verdict in Verdict}:
        raise click.BadParameter(
            f"{given!r} is not a verdict. See --help for the verdicts.", context, parameter
        )
    return word


@group
def effects() -> None:
    """List effects that await your decision, and decide on them."""


_reason = click.option("--reason", required=True, metavar="TEXT", help="Recorded with the verdict.")
_version = click.option(
    "--version", type=int, metavar="N", help="Refuse if the effect's version is not N."
)
_by = click.option(
    "--by", metavar="NAME", help="Author of the decision; by default the current user."
)


# --- looking --------------------------------------------------------------------------------------


@command(effects, "list", example="onward effects list --all --limit 20")
@click.option(
    "--all", "settled_too", is_flag=True, help="Include settled effects; newest runs first."
)
@click.option("--run", metavar="ID", help="Only effects of this run, including settled ones.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@click.option(
    "--after",
    default="",
    metavar="ID",
    help="Continue after this id, the last one on the previous page.",
)
async def list_effects(
    context: CommandContext, *, settled_too: bool, run: str | None, limit: int, after: str
) -> int:
    """List effects that are not settled.

    These effects are waiting for a decision, for their next send, or for the reply to a call.
    """
    ledger = context.app.effects
    if after:
        after = (await context.engine.find_effect(after)).id
    if run is not None:
        found = await ledger.of(run)
    elif settled_too:
        found = await ledger.all(limit=limit, after=after)
    else:
        found = await ledger.pending(limit=limit, after=after)
    context.out.things([asdict(info) for info in found], HEAD, [_row(info) for info in found])
    if not found:
        context.out.say("There are no effects." if settled_too else "All effects are settled.")
    elif run is None and len(found) == limit:
        context.out.note(f"There may be more: --after {found[-1].id[:SHORT]}")
    return DONE


@command(effects, "show", example="onward effects show 3f2a9c")
@click.argument("effect_id", metavar="ID")
async def show(context: CommandContext, *, effect_id: str) -> int:
    """Show an effect and its possible verdicts.

    Prints the arguments, why the outcome is unknown, every send and every answer of the reconciler,
    when the effect will be sent or reconciled again, and the command for each verdict.
    """
    info = await context.engine.find_effect(effect_id)
    choices = await context.app.effects.choices(info.id)
    suggested = [_suggestion(context, info, choice) for choice in choices]
    context.out.thing(asdict(info) | {"choices": suggested}, effect_facts(info))
    if info.attempts:
        context.out.say("\nAttempts:")
        context.out.more(ATTEMPTS_HEAD, attempt_rows(info))
    if suggested:
        context.out.say("\nPossible verdicts:")
    for choice in suggested:
        when = "" if choice["since"] is None else f" (possible from {from_text(choice['since'])})"
        context.out.say(f"  {choice['meaning']}{when}:\n    {choice['command']}")
    return DONE


# --- saying ---------------------------------------------------------------------------------------


@command(
    effects,
    "resolve",
    example="onward effects resolve 3f2a9c applied --result '\"ch_7\"' --reason 'on the statement'",
)
@click.argument("effect_id", metavar="ID")
@click.argument("verdict", callback=_word, metavar="|".join(Verdict))
@_reason
@click.option(
    "--result", metavar="JSON", help="Return value of the call, or null if it returns nothing."
)
@click.option("--module", metavar="NAME", help="Check --result against the effect in this module.")
@_version
@_by
async def resolve(  # noqa: PLR0913 - each is an option of the command
    context: CommandContext,
    *,
    effect_id: str,
    verdict: Any,
    reason: str,
    result: str | None,
    module: str | None,
    version: int | None,
    by: str | None,
) -> int:
    """Decide on an uncertain effect.

    Its run continues with your verdict. applied: the effect happened and returned --result.
    not_applied: it did not happen, and is sent again. skip: the run continues without the effect.
    ask_again: Onward calls the reconciler or, without one, resends the effect if its key is still
    valid.
    """
    if result is not None and verdict != Verdict.APPLIED:
        raise click.UsageError("--result is valid only with the verdict 'applied'.")
    if result is None and verdict == Verdict.APPLIED:
        raise click.UsageError(
            "The verdict 'applied' needs --result JSON, or --result null if the call returns "
            "nothing."
        )
    value = None if result is None else from_json("--result", result)
    info = await context.engine.find_effect(effect_id)
    if module is not None:
        import_module(module)
    if verdict == Verdict.APPLIED and info.name not in effect_module.registered:
        context.out.note(
            "Only the JSON type of the result was checked. Use --module to check it against your "
            "code."
        )
    after = await context.app.effects.resolve(
        info.id, verdict, result=value, reason=reason, version=version, by=by
    )
    return _told(context, after)


@command(effects, "approve", example="onward effects approve 3f2a9c --reason 'checked the address'")
@click.argument("effect_id", metavar="ID")
@_reason
@_version
@_by
async def approve(
    context: CommandContext, *, effect_id: str, reason: str, version: int | None, by: str | None
) -> int:
    """Approve a planned effect.

    The effect is sent with exactly the arguments that `show` prints.
    """
    info = await context.engine.find_effect(effect_id)
    after = await context.app.effects.approve(info.id, reason=reason, version=version, by=by)
    return _told(context, after)


@command(effects, "reject", example="onward effects reject 3f2a9c --reason 'wrong customer'")
@click.argument("effect_id", metavar="ID")
@_reason
@_version
@_by
async def reject(
    context: CommandContext, *, effect_id: str, reason: str, version: int | None, by: str | None
) -> int:
    """Reject a planned effect.

    The effect is never sent, and its run gets NotApplied.
    """
    info = await context.engine.find_effect(effect_id)
    after = await context.app.effects.reject(info.id, reason=reason, version=version, by=by)
    return _told(context, after)


# --- how they are found and shown -----------------------------------------------------------------


def _row(info: EffectInfo) -> tuple[Any, ...]:
    times = f"{info.attempt}x" if info.attempt else None
    return (
        info.id[:SHORT],
        info.name,
        info.state,
        info.run if info.run_state not in TERMINAL else f"{info.run} ({info.run_state})",
        times,
        info.waits_for,
        info.updated_at,
    )


def _suggestion(context: CommandContext, info: EffectInfo, choice: EffectChoice) -> dict[str, Any]:
    """Return a choice with the command that makes it."""
    verb = f"{choice.verdict} {info.id}"
    if choice.verdict not in ("approve", "reject"):
        verb = f"resolve {info.id} {choice.verdict}"
    value = "null" if info.returns.startswith("None:") else "JSON"
    result = f" --result {value}" if choice.verdict == Verdict.APPLIED else ""
    return {
        "verdict": choice.verdict,
        "since": choice.since,
        "meaning": _meaning(info, choice.verdict),
        "command": context.out.suggested(
            f"onward effects {verb}{result} --reason TEXT --version {info.version}"
        ),
    }


def _meaning(info: EffectInfo, verdict: str) -> str:
    is_sent = verdict == Verdict.ASK_AGAIN and not info.can_be_asked
    return _SEND_AGAIN if is_sent else _MEANINGS[verdict]


def _told(context: CommandContext, info: EffectInfo) -> int:
    """Print an effect after a verdict."""
    wait = "" if info.waits_for is None else f" and is waiting for {effect_wait_text(info)}"
    said = f"{info.name} {info.id[:SHORT]} of run {info.run} is {info.state}{wait}"
    context.out.done(asdict(info), said)
    return DONE
