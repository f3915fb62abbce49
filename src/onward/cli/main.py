"""The entry point: all groups of commands, or how to install what they need."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and leave with its exit status."""
    # gRPC prints its own lines to stderr, in its own format; what matters is logged by Onward.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # gRPC would start its threads again in a forked process, whose files are being closed.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    try:
        group = commands()
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        sys.stderr.write(
            "onward: the command line needs the click package. "
            "Install it: pip install 'onward[cli]'\n"
        )
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):  # a replacement must take any text
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # see above
    group.main(arguments, prog_name="onward")


def commands() -> click.Group:
    """Return all commands. A new group is a file, and a line here."""
    from onward.cli.cache import cache
    from onward.cli.check import add_check
    from onward.cli.clock import add_clock
    from onward.cli.command import root
    from onward.cli.dead import dead
    from onward.cli.demo import add_demo
    from onward.cli.dev import add_dev
    from onward.cli.doctor import add_doctor
    from onward.cli.effects import effects
    from onward.cli.inputs import inputs
    from onward.cli.keys import keys
    from onward.cli.migrate import add_migrate
    from onward.cli.namespaces import namespaces
    from onward.cli.pipelines import pipelines
    from onward.cli.prune import add_prune
    from onward.cli.queues import queues
    from onward.cli.run_actions import runs
    from onward.cli.schedules import schedules
    from onward.cli.server import add_server
    from onward.cli.start import add_start
    from onward.cli.stats import add_stats, add_why
    from onward.cli.topics import topics
    from onward.cli.watch import add_watch
    from onward.cli.worker import add_worker
    from onward.cli.workers import workers

    group = root()
    operated = (cache, dead, effects, inputs, pipelines, queues, runs, schedules, topics, workers)
    for each in (*operated, keys, namespaces):
        group.add_command(each)
    for add in (
        add_check,
        add_clock,
        add_demo,
        add_dev,
        add_doctor,
        add_migrate,
        add_prune,
        add_server,
        add_start,
        add_stats,
        add_why,
        add_worker,
    ):
        add(group)
    add_watch(runs)
    return group
