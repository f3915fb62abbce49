"""The user's code: imports a module from the current folder, and finds its App and schedules."""

from __future__ import annotations

import importlib
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from onward.errors import BadInput
from onward.sdk.app import App
from onward.sdk.pipelines import process
from onward.sdk.schedule import Schedule, declare_all
from onward.sdk.sync import SyncApp
from onward.sdk.worker_context import defined

if TYPE_CHECKING:
    from types import ModuleType, TracebackType

_USUAL = "app"
_MAX_LISTED = 10


def load_app(target: str) -> App:
    """Import `MODULE[:NAME]` and return its App: the one named, else `app`, else the only one.

    The schedules at the top level of the module are declared by the workers of this process.

    Raises:
        BadInput: there is no such module, it cannot be imported, or it has no such App.
    """
    name, _, attribute = target.partition(":")
    module = import_module(name)
    app = _named(module, attribute) if attribute else _only(module)
    if not any(defined()) and not process.registered:
        raise BadInput(
            f"module {name!r}",
            "defines no workflow or pipeline and imports none",
            "In that module, import the modules that define your workflows",
        )
    declare_all(each for each in vars(module).values() if isinstance(each, Schedule))
    return app


def import_module(name: str) -> ModuleType:
    """Import a module, with the current folder first in the search path.

    Raises:
        BadInput: it is not there or raises an error, whose traceback is printed.
    """
    folder = str(Path.cwd())
    if not sys.path or sys.path[0] not in ("", folder):
        sys.path.insert(0, folder)
    _check_name(name)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            raise _not_found(name, error.name) from None
        raise _broken(name, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(name, error) from error


def _check_name(name: str) -> None:
    if all(part.isidentifier() for part in name.split(".")) and not name.endswith(".py"):
        return
    path = Path(name)
    dotted = ".".join(path.with_suffix("").parts) if path.suffix == ".py" else ""
    is_name = all(part.isidentifier() for part in dotted.split("."))
    advice = f"Use {dotted}" if is_name else "Write it as in an import, such as shop.tasks"
    raise BadInput(f"{name!r}", "is not the name of a module", advice)


def _not_found(name: str, missing: str) -> BadInput:
    parent, _, last = missing.rpartition(".")
    if hasattr(sys.modules.get(parent), last):
        return BadInput(f"{missing!r}", "is not a module", f"Use {parent}:{last}")
    place = Path.cwd().joinpath(*parent.split(".")) if parent else Path.cwd()
    here = _modules_in(place)
    found = f" (which contains {', '.join(here)})" if here else ""
    return BadInput(
        f"module {name!r}",
        f"cannot be imported: there is no {last!r} in {place}{found}, "
        "and no such package is installed",
        "Check the name, or run the command in the folder that contains your code",
    )


def _modules_in(folder: Path) -> list[str]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return []
    names = [
        path.stem
        for path in entries
        if path.suffix == ".py" or (path.is_dir() and any(path.glob("*.py")))
    ]
    known = [name for name in names if name.isidentifier() and not name.startswith("_")]
    return known[:_MAX_LISTED] + (["..."] if len(known) > _MAX_LISTED else [])


def _broken(name: str, error: BaseException) -> BadInput:
    """Print the traceback of an import from the first line of the user's code on."""
    trace = error.__traceback__
    while trace is not None and _is_machinery(trace):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))
    click.echo(text, nl=False, err=True)
    kind = type(error).__name__
    if isinstance(error, SystemExit):
        fact = f"exits when it is imported (status {error.code})"
        advice = 'Put code that should run only in a script under if __name__ == "__main__"'
        return BadInput(f"module {name!r}", fact, advice)
    return BadInput(
        f"module {name!r}", f"raised {kind} when it was imported", "Fix the error shown above"
    )


def _is_machinery(trace: TracebackType) -> bool:
    file = trace.tb_frame.f_code.co_filename
    return file == __file__ or file.startswith("<frozen") or file == importlib.__file__


def _named(module: ModuleType, attribute: str) -> App:
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if isinstance(found, App):
        return found
    apps = apps_of(module)
    fact = "does not exist" if found is None else f"is of type {type(found).__name__}, not App"
    advice = f"Apps in this module: {', '.join(apps)}" if apps else _advice(found)
    raise BadInput(f"{module.__name__}:{attribute}", fact, advice)


def _only(module: ModuleType) -> App:
    apps = apps_of(module)
    if _USUAL in apps:
        return apps[_USUAL]
    if len({id(app) for app in apps.values()}) == 1:
        return next(iter(apps.values()))
    what = f"module {module.__name__!r}"
    if apps:
        first = f"{module.__name__}:{next(iter(apps))}"
        advice = f"Pass one of them, such as {first}"
        raise BadInput(what, f"has several Apps: {', '.join(apps)}", advice)
    fact = f"has no App at its top level ({module.__file__})"
    raise BadInput(what, fact, _advice(getattr(module, _USUAL, None)))


def apps_of(module: ModuleType) -> dict[str, App]:
    """Return the Apps at the top level of a module, by name."""
    return {name: value for name, value in vars(module).items() if isinstance(value, App)}


def _advice(found: object) -> str:
    if isinstance(found, SyncApp):
        return "This command needs an App, not a SyncApp. Define one as well: app = App(...)"
    return 'Define an App at the top level of the module: app = App("onward.db")'
