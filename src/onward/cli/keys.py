"""`onward keys`: API keys for the clients and workers of a server."""

from __future__ import annotations

import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from onward.cli.command import DONE, command, for_each, group
from onward.core.access import ROLES, SCOPES, role_scopes
from onward.core.instant import duration
from onward.engine.access.administration import GRACE, administration_of
from onward.sdk.operator import this_user

if TYPE_CHECKING:
    from onward.cli.command import CommandContext
    from onward.cli.output import Output
    from onward.core.instant import Duration
    from onward.engine.access.administration import Administration
    from onward.engine.access.views import ApiKeyInfo, CreatedKey

HEAD = ("ID", "NAME", "NAMESPACE", "ROLE OR SCOPES", "STATE", "CREATED", "BY", "EXPIRES", "USED")
PEPPER = "ONWARD_PEPPER"

_expires = click.option(
    "--expires", metavar="LENGTH", help="How long the key is valid, such as 90d or 12h."
)


@group
def keys() -> None:
    """Create, list, revoke and rotate API keys of a server.

    A key belongs to one namespace, and its scopes determine what it allows there.
    """


@command(
    keys,
    "create",
    example="onward keys create --name laptop --role app --expires 90d",
    migrates=True,
)
@click.option("--name", metavar="TEXT", required=True, help="What the key is for.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice(list(ROLES)),
    help="A set of scopes; may be repeated.",
)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    help=f"A single scope; may be repeated. One of: {', '.join(SCOPES)}.",
)
@_expires
async def create(
    context: CommandContext,
    *,
    name: str,
    roles: tuple[str, ...],
    scopes: tuple[str, ...],
    expires: str | None,
) -> int:
    """Create a key for a namespace, and print it once.

    Only a hash of the key is stored. The namespace `default` is created with its first key; create
    others with `onward namespaces create`.
    """
    if not (roles or scopes):
        raise click.UsageError("Pass --role or --scope.")
    wanted = frozenset(scopes).union(*map(role_scopes, roles))
    made = await _administration(context).create_key(
        context.engine.namespace, name, wanted, by=this_user(), expires_in=_length(expires)
    )
    show_key(context.out, made)
    return DONE


@command(keys, "list", example="onward keys list --all")
@click.option("--all", "everywhere", is_flag=True, help="List the keys of all namespaces.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=1000, show_default=True)
@click.option("--after", metavar="ID", default="", help="Continue after this key.")
async def list_keys(context: CommandContext, *, everywhere: bool, limit: int, after: str) -> int:
    """List the keys of a namespace, without their secrets."""
    namespace = None if everywhere else context.engine.namespace
    found = await _administration(context).keys(namespace, limit=limit, after=after)
    context.out.things([asdict(info) for info in found], HEAD, [_row(info) for info in found])
    if not found:
        context.out.say("There are no keys. Create one: onward keys create --name NAME --role ROLE")
    elif len(found) == limit:
        context.out.note(f"There may be more: --after {found[-1].id}")
    return DONE


@command(keys, "revoke", example="onward keys revoke mfzwizlomrsx")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
async def revoke(context: CommandContext, *, ids: tuple[str, ...]) -> int:
    """Revoke keys permanently.

    Within 5 seconds, servers refuse the keys and close the streams that use them.
    """

    async def act(key_id: str) -> bool:
        info = await _administration(context).revoke(key_id)
        context.out.done(asdict(info), f"key {info.id} ({info.name}): revoked.")
        return True

    return await for_each(context, ids, act)


@command(keys, "rotate", example="onward keys rotate mfzwizlomrsx --grace 1h")
@click.argument("key_id", metavar="ID")
@click.option(
    "--grace",
    metavar="LENGTH",
    default=f"{GRACE // duration('1h')}h",
    show_default=True,
    help="How long the old key can still be used.",
)
@_expires
async def rotate(context: CommandContext, *, key_id: str, grace: str, expires: str | None) -> int:
    """Replace a key with a new one that has the same scopes.

    The old key stays valid until the grace period ends. Without --expires, the new key is valid for
    as long as the old one was.
    """
    made = await _administration(context).rotate(
        key_id, by=this_user(), grace=duration(grace), expires_in=_length(expires)
    )
    show_key(context.out, made)
    return DONE


def _administration(context: CommandContext) -> Administration:
    return administration_of(context.engine, os.environ.get(PEPPER))


def _length(text: str | None) -> Duration | None:
    return None if text is None else duration(text)


def show_key(out: Output, made: CreatedKey) -> None:
    """Print a new key, alone on stdout, so that it can be put into a variable or a file."""
    out.done(asdict(made.info) | {"key": made.key.reveal()}, made.key.reveal())
    info = made.info
    out.note(
        f"key {info.id} ({info.name}) for namespace {info.namespace}: {_rights(info)}.\n"
        "This is the only time it is shown. Pass it to clients as ONWARD_KEY."
    )


def _rights(info: ApiKeyInfo) -> str:
    """Return the role that a key has, or else its scopes."""
    for role, scopes in ROLES.items():
        if scopes == frozenset(info.scopes):
            return role
    return ", ".join(info.scopes)


def _row(info: ApiKeyInfo) -> tuple[Any, ...]:
    return (
        info.id,
        info.name,
        info.namespace,
        _rights(info),
        info.state,
        info.created_at,
        info.created_by,
        info.expires_at,
        info.last_used_at,
    )
