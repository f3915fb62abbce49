"""The options by which commands choose runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import click

from onward.cli.value import named

if TYPE_CHECKING:
    from collections.abc import Callable

Command = TypeVar("Command", bound="Callable[..., Any]")


def choosing(*, failures: bool) -> Callable[[Command], Command]:
    """Give a command the options that choose runs; with `failures`, also by what has failed."""
    options = [
        click.option(
            "--name", "--workflow", "name", metavar="NAME", help="Only runs of this workflow."
        ),
        click.option("--queue", metavar="NAME", help="Only runs of this queue."),
        click.option("--tag", metavar="TAG", help="Only runs with this tag."),
        click.option(
            "--attribute",
            "attributes",
            metavar="NAME=VALUE",
            multiple=True,
            callback=named,
            help="Filter by attribute (scans; slow on large stores).",
        ),
    ]
    if failures:
        options[1:1] = [
            click.option("--error", metavar="TYPE", help="Only runs with this type of error."),
            click.option(
                "--failed-step", metavar="NAME", help="Only runs that failed in this call."
            ),
            click.option(
                "--since",
                metavar="TIME",
                help="Only runs that ended at most this long ago, such as 1h.",
            ),
        ]

    def given(work: Command) -> Command:
        for option in reversed(options):
            work = option(work)
        return work

    return given
