"""Errors: a tree by who must act, stable codes, messages that help, and no loss on the way."""

import inspect
import pickle
import re
import shlex
import subprocess
import sys
from dataclasses import Field, fields, is_dataclass
from typing import Any

import click
import pytest

from onward import errors
from onward.cli.main import commands
from onward.errors import OnwardError

# `Any`, as most but not all errors are dataclasses.
ALL: list[Any] = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, OnwardError) and not kind.__name__.startswith("_")
]
RAISED = [kind for kind in ALL if is_dataclass(kind)]

# Codes are stored and matched on by others: none of these may ever change or go.
CODES = {
    "BadInput": "bad_input",
    "BadPipeline": "bad_pipeline",
    "BadStoreUrl": "bad_store_url",
    "Conflict": "conflict",
    "Forbidden": "forbidden",
    "InvariantBroken": "invariant_broken",
    "LeaseLost": "lease_lost",
    "NamespaceDisabled": "namespace_disabled",
    "NotFound": "not_found",
    "NotOpen": "not_open",
    "PayloadTooLarge": "payload_too_large",
    "PipelineBlocked": "pipeline_blocked",
    "RateLimited": "rate_limited",
    "SchemaTooNew": "schema_too_new",
    "StoreUnusable": "store_unusable",
    "TopicFull": "topic_full",
    "Unauthenticated": "unauthenticated",
    "Unavailable": "unavailable",
    "Undecodable": "undecodable",
    "Unencodable": "unencodable",
    "WriteRefused": "write_refused",
}

MOVES = {
    "Await", "Catch", "Check", "Choose", "Drop", "Fork", "Keep", "Let", "Move", "Publish",
    "Restart",
    "Restore", "Resume", "See", "Start", "Try", "Upgrade", "Use", "Widen",
}  # fmt: skip

CARRY = """
import pickle, sys
errors = pickle.load(sys.stdin.buffer)
sys.stdout.buffer.write(pickle.dumps([(str(error), error) for error in errors]))
"""


def an_error(kind: Any) -> OnwardError:
    """Make one whose fields can be told apart in its message."""
    values = {field.name: a_value(field, 100 + n) for n, field in enumerate(fields(kind))}
    error = kind(**values)
    assert isinstance(error, OnwardError)
    return error


def a_value(field: Field[Any], number: int) -> Any:
    match field.type:
        case "int":
            return number
        case "tuple[str, ...]":
            return (f"<{field.name}>. Check it",)
    return f"<{field.name}>"


def values_of(error: Any) -> dict[str, object]:
    return {field.name: getattr(error, field.name) for field in fields(error)}


def last_sentence(text: str) -> str:
    return re.split(r"(?<=\.)\s+", text)[-1]


def across_a_process_border(sent: list[OnwardError]) -> list[tuple[str, OnwardError]]:
    answer = subprocess.run(
        [sys.executable, "-c", CARRY],
        input=pickle.dumps(sent),
        capture_output=True,
        timeout=60,
        check=True,
    )
    told: list[tuple[str, OnwardError]] = pickle.loads(answer.stdout)
    return told


def test_every_error_has_a_code_of_its_own_made_from_its_name() -> None:
    codes = {kind.__name__: kind.code for kind in ALL if kind is not OnwardError}
    assert codes == {name: re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower() for name in codes}


def test_no_code_that_was_ever_used_has_changed() -> None:
    codes = {kind.__name__: kind.code for kind in ALL}
    assert CODES.items() <= codes.items()


@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)
def test_a_message_names_every_field(kind: type[OnwardError]) -> None:
    error = an_error(kind)
    told = {name: value for name, value in values_of(error).items() if not isinstance(value, tuple)}
    told |= {
        text: text
        for value in values_of(error).values()
        if isinstance(value, tuple)
        for text in value
    }
    missing = [name for name, value in told.items() if str(value) not in str(error)]
    assert missing == []


@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)
def test_a_message_ends_with_the_next_move(kind: type[OnwardError]) -> None:
    error = an_error(kind)
    advice = values_of(error).get("advice")
    last = last_sentence(str(error))
    assert last.rstrip(".") == advice or last.split()[0] in MOVES or "please" in last


@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)
def test_a_message_ends_with_a_full_stop_though_its_advice_has_none(
    kind: type[OnwardError],
) -> None:
    ends_with_a_command = kind in (errors.RunFailed, errors.VerdictRefused)  # as it is to be copied
    assert str(an_error(kind)).endswith(".") is not ends_with_a_command


@pytest.mark.parametrize(
    "advice",
    ["Install it: pip install 'onward[postgres]'", "List the schedules: onward schedules list"],
)
def test_a_command_at_the_end_of_a_message_can_be_copied(advice: str) -> None:
    assert str(errors.StoreUnusable("the store", "is not there", advice)).endswith(advice)


@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)
def test_a_message_has_single_full_stops_though_others_end_theirs(kind: Any) -> None:
    texts = {"fact", "error", "advice"}
    values = {
        field.name: f"<{field.name}>." if field.name in texts else a_value(field, 1)
        for field in fields(kind)
    }
    told = str(kind(**values))
    assert ".." not in told.replace("...", "")
    assert ". ." not in told


@pytest.mark.parametrize("reason", ["approval", "reconciliation", "divergence", "operator"])
def test_a_pause_names_a_command_that_helps_with_its_reason(reason: str) -> None:
    told = str(errors.RunPaused("order 7", reason, "it stands still."))
    words = shlex.split(re.sub(r".*onward ", "onward ", told).removesuffix(" (or cancel it)."))
    assert words[-1] == "order 7"
    find_command(words[1:-1])


def test_only_a_pause_for_an_effect_says_to_list_effects() -> None:
    listed = "onward effects list --run r1"
    assert listed in str(errors.RunPaused("r1", "approval"))
    by_handler = str(errors.RunPaused("r1", "approval", "NeedsApproval: a manager must agree"))
    assert listed not in by_handler
    assert "onward runs resume r1" in by_handler


def find_command(words: list[str]) -> None:
    """See that there is such a command, which takes these options."""
    command: Any = commands()
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in parameter.opts}
    assert set(words) <= known


@pytest.mark.parametrize("kind", RAISED, ids=lambda kind: kind.__name__)
def test_a_repr_shows_the_type_and_every_field(kind: type[OnwardError]) -> None:
    error = an_error(kind)
    shown = ", ".join(f"{name}={value!r}" for name, value in values_of(error).items())
    assert repr(error) == f"{kind.__name__}({shown})"


def test_errors_cross_a_process_border_whole() -> None:
    sent = [an_error(kind) for kind in RAISED]
    for error in sent:
        error.add_note(f"a note on {error.code}")

    for error, (told, back) in zip(sent, across_a_process_border(sent), strict=True):
        assert told == str(back) == str(error)
        assert type(back) is type(error)
        assert values_of(back) == values_of(error)
        assert back.args == error.args
        assert back.__notes__ == error.__notes__


def test_the_tree_in_the_docstring_is_the_tree_of_classes() -> None:
    assert errors.__doc__ is not None
    assert drawn_parents(errors.__doc__) == {
        kind.__name__: public_parent(kind) for kind in ALL if kind is not OnwardError
    }


def public_parent(kind: type[OnwardError]) -> str:
    return next(parent.__name__ for parent in kind.__mro__[1:] if parent.__name__ in errors.__all__)


def drawn_parents(text: str) -> dict[str, str]:
    """Read the drawing: a name's parent is the nearest name above that stands further left."""
    above: list[tuple[int, str]] = [(0, "OnwardError")]
    parents: dict[str, str] = {}
    for line in text.splitlines():
        if drawn := re.search(r"[├└]── (\w+)", line):
            column, name = drawn.start(), drawn[1]
            while len(above) > 1 and above[-1][0] >= column:
                above.pop()
            parents[name] = above[-1][1]
            above.append((column, name))
    return parents
