"""`onward namespaces`: the tenants of a server."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, command, group
from onward.engine.access.administration import administration_of

if TYPE_CHECKING:
    from onward.cli.command import CommandContext
    from onward.engine.access.views import NamespaceInfo

HEAD = ("NAMESPACE", "TITLE", "STATE", "CREATED")


@group
def namespaces() -> None:
    """Create, list, enable and disable namespaces of a server.

    An App that opens the database itself can use any namespace without creating it.
    """


@command(
    namespaces,
    "create",
    example="onward namespaces create shop --title 'The web shop'",
    migrates=True,
)
@click.argument("name")
@click.option("--title", metavar="TEXT", default="", help="What the namespace is for.")
async def create(context: CommandContext, *, name: str, title: str) -> int:
    """Create a namespace, so that keys can be created for it."""
    info = await administration_of(context.engine).create_namespace(name, title)
    context.out.done(asdict(info), f"namespace {info.name}: created.")
    return DONE


@command(namespaces, "list", example="onward namespaces list")
@click.option("--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True)
@click.option("--after", metavar="NAME", default="", help="Continue after this namespace.")
async def list_namespaces(context: CommandContext, *, limit: int, after: str) -> int:
    """List the namespaces of a server, sorted by name."""
    found = await administration_of(context.engine).namespaces(limit=limit, after=after)
    context.out.things([asdict(info) for info in found], HEAD, [_row(info) for info in found])
    if not found:
        context.out.say("There are no namespaces. Create one: onward namespaces create NAME")
    elif len(found) == limit:
        context.out.note(f"There may be more: --after {found[-1].name}")
    return DONE


@command(namespaces, "enable", example="onward namespaces enable shop")
@click.argument("name")
async def enable(context: CommandContext, *, name: str) -> int:
    """Let clients start runs and publish events again."""
    info = await administration_of(context.engine).enable(name, enabled=True)
    context.out.done(asdict(info), f"namespace {info.name}: enabled.")
    return DONE


@command(namespaces, "disable", example="onward namespaces disable shop")
@click.argument("name")
async def disable(context: CommandContext, *, name: str) -> int:
    """Refuse new runs and events from a server's clients.

    Open runs continue and end normally. Servers apply the change within 5 seconds.
    """
    info = await administration_of(context.engine).enable(name, enabled=False)
    context.out.done(asdict(info), f"namespace {info.name}: disabled. Its open runs continue.")
    return DONE


def _row(info: NamespaceInfo) -> tuple[Any, ...]:
    return info.name, info.title, "enabled" if info.enabled else "disabled", info.created_at
