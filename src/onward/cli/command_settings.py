"""Options of a command from the environment and the settings file: flags > variables > file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from onward.cli.settings import DEFAULTS, SERVER, WORKER, table_of, variable
from onward.errors import BadInput

_NOT_HERE = {*DEFAULTS, "as_json", "help"}


class ConfiguredCommand(click.Command):
    """A command whose options can also be given by variable, and in a table of a file.

    With the table `worker`, `--stall-limit` is `ONWARD_WORKER_STALL_LIMIT`, and `stall_limit` in
    the file. An option that may be repeated is a list in the file, and words in the variable.
    """

    table: str

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for key, option in self.settings().items():
            option.envvar = variable(f"{self.table}_{key}")

    def settings(self) -> dict[str, click.Option]:
        """Return the options by the names that they have in a file."""
        options = [each for each in self.params if isinstance(each, click.Option)]
        return {_key(each): each for each in options if each.name not in _NOT_HERE}

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        extra.setdefault("default_map", self._from_file())
        return super().make_context(info_name, args, parent, **extra)

    def _from_file(self) -> dict[str, Any]:
        known = self.settings()
        try:
            table = table_of(self.table, Path.cwd())
        except BadInput as error:
            raise click.UsageError(str(error)) from None
        for key in table:
            if key not in known:
                raise click.UsageError(
                    f"{key} is not an option of [{self.table}] in the settings file. "
                    f"Use one of: {', '.join(known)}."
                )
        return {str(known[key].name): value for key, value in table.items()}


class WorkerCommand(ConfiguredCommand):
    """`onward worker`."""

    table = WORKER


class DevCommand(WorkerCommand):
    """`onward dev`: the options of its worker, and flags of its own that are only typed."""

    def settings(self) -> dict[str, click.Option]:
        own = ("grpc", "parent")
        return {key: option for key, option in super().settings().items() if key not in own}


class ServerCommand(ConfiguredCommand):
    """`onward server`."""

    table = SERVER


def _key(option: click.Option) -> str:
    return option.opts[0].lstrip("-").replace("-", "_")
