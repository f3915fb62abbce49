"""Settings: flags before the environment, before files, before defaults; each of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, cast

import click
import pytest

from onward.cli.main import commands
from onward.cli.settings import DEFAULTS, is_debugging, load, variable
from onward.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path

    from onward.cli.command_settings import WorkerCommand
    from tests.cli.conftest import Ask

COMMAND = cast("WorkerCommand", commands().commands["worker"])
EACH = pytest.mark.parametrize("name", sorted(DEFAULTS))

URL = "postgresql://host/{}"  # stays as it is, wherever it stands


def loaded(
    name: str, folder: Path, *, flag: str | None = None, variables: dict[str, str] | None = None
) -> str:
    flags: dict[str, str | None] = {name: flag}
    value: str = getattr(load(flags, variables or {}, folder), name)
    return value


def test_these_settings_can_be_given() -> None:
    assert {name: variable(name) for name in DEFAULTS} == {
        "db": "ONWARD_DB",
        "namespace": "ONWARD_NAMESPACE",
    }


@EACH
def test_a_setting_has_a_default(name: str, tmp_path: Path) -> None:
    assert loaded(name, tmp_path) == DEFAULTS[name]


@EACH
def test_a_setting_stands_in_pyproject(name: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.onward]\n{name} = "{URL.format("a")}"')
    assert loaded(name, tmp_path) == URL.format("a")


@EACH
def test_onward_toml_is_before_pyproject(name: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.onward]\n{name} = "{URL.format("a")}"')
    (tmp_path / "onward.toml").write_text(f'{name} = "{URL.format("b")}"')
    assert loaded(name, tmp_path) == URL.format("b")


@EACH
def test_the_environment_is_before_files(name: str, tmp_path: Path) -> None:
    (tmp_path / "onward.toml").write_text(f'{name} = "{URL.format("b")}"')
    assert loaded(name, tmp_path, variables={variable(name): "c"}) == "c"


@EACH
def test_a_flag_is_before_the_environment(name: str, tmp_path: Path) -> None:
    assert loaded(name, tmp_path, flag="d", variables={variable(name): "c"}) == "d"


@EACH
def test_an_empty_variable_counts_as_none(name: str, tmp_path: Path) -> None:
    assert loaded(name, tmp_path, variables={variable(name): ""}) == DEFAULTS[name]


@EACH
def test_the_nearest_file_counts(name: str, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "onward.toml").write_text(f'{name} = "{URL.format("far")}"')
    assert loaded(name, inner) == URL.format("far")
    (inner / "pyproject.toml").write_text(f'[tool.onward]\n{name} = "{URL.format("near")}"')
    assert loaded(name, inner) == URL.format("near")


def test_a_pyproject_of_something_else_is_passed_by(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "onward.toml").write_text('namespace = "far"')
    (inner / "pyproject.toml").write_text("[tool.other]\nnamespace = 'other'")
    assert loaded("namespace", inner) == "far"


def test_a_database_in_a_file_lies_beside_that_file(tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "onward.toml").write_text('db = "data/shop.db"')
    assert loaded("db", inner) == str(tmp_path / "data" / "shop.db")


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("db = ", "cannot be read"),
        ("database = 'x'", "is not a known setting"),
        ("db = 7", "is not a string"),
    ],
)
def test_a_file_that_cannot_be_understood_is_named(text: str, fact: str, tmp_path: Path) -> None:
    (tmp_path / "onward.toml").write_text(text)
    with pytest.raises(BadInput, match=fact) as refused:
        loaded("db", tmp_path)
    assert "onward.toml" in str(refused.value)


def test_a_bad_file_is_no_matter_when_everything_is_given(tmp_path: Path) -> None:
    (tmp_path / "onward.toml").write_text("db = ")
    flags: dict[str, str | None] = dict.fromkeys(DEFAULTS, "given")
    assert load(flags, {}, tmp_path).db == "given"


@pytest.mark.parametrize(("value", "answer"), [("1", True), ("0", False), ("", False)])
def test_debugging_is_asked_for_by_a_variable(value: str, answer: bool) -> None:
    assert is_debugging({"ONWARD_DEBUG": value}) is answer


def test_the_namespace_keeps_commands_apart(shop: str, ask: Ask) -> None:
    assert ask("runs", "list", "--json").things != []
    assert ask("runs", "list", "--json", ONWARD_NAMESPACE="other").things == []
    assert ask("runs", "list", "--json", "--namespace", "default", ONWARD_NAMESPACE="other").things


def test_the_database_is_found_by_flag_variable_and_file(
    shop: str, ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert ask("runs", "list").status == 2
    assert ask("runs", "list", "--db", shop).status == 0
    assert ask("runs", "list", ONWARD_DB=shop).status == 0
    (tmp_path / "onward.toml").write_text('db = "onward.db"')
    assert ask("runs", "list").status == 0


# --- options of workers ---------------------------------------------------------------------------

WORKER_OPTIONS = COMMAND.settings()
EACH_OPTION = pytest.mark.parametrize("key", sorted(WORKER_OPTIONS))


def sample(key: str, number: int) -> object:
    """Return one of three values that an option may have."""
    option = WORKER_OPTIONS[key]
    if option.is_flag:
        return True
    if isinstance(option.type, click.Choice):
        return option.type.choices[number]
    if isinstance(option.type, click.IntRange):
        return number + 1
    return [f"{number + 1}s"] if option.multiple else f"{number + 1}s"


def given(key: str, *words: str) -> object:
    """Return the value of an option of `onward worker`, given such words."""
    context = COMMAND.make_context("worker", ["shop", *words])
    value = context.params[str(WORKER_OPTIONS[key].name)]
    return list(value) if isinstance(value, tuple) else value


def text(value: object) -> str:
    return str(value[0] if isinstance(value, list) else value)


@EACH_OPTION
def test_an_option_of_a_worker_stands_in_a_file(key: str, tmp_path: Path) -> None:
    (tmp_path / "onward.toml").write_text(f"[worker]\n{key} = {json.dumps(sample(key, 0))}")
    assert given(key) == sample(key, 0)
    (tmp_path / "onward.toml").unlink()
    (tmp_path / "pyproject.toml").write_text(
        f"[tool.onward.worker]\n{key} = {json.dumps(sample(key, 0))}"
    )
    assert given(key) == sample(key, 0)


@EACH_OPTION
def test_a_variable_is_before_the_file_and_a_flag_before_it(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "onward.toml").write_text(f"[worker]\n{key} = {json.dumps(sample(key, 0))}")
    monkeypatch.setenv(f"ONWARD_WORKER_{key.upper()}", text(sample(key, 1)))
    assert given(key) == sample(key, 1)
    flag = f"--{key.replace('_', '-')}"
    words = [flag] if WORKER_OPTIONS[key].is_flag else [flag, text(sample(key, 2))]
    assert given(key, *words) == sample(key, 2)


def test_an_unknown_option_of_a_worker_is_refused(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "onward.toml").write_text("[worker]\nslot = 3")
    answer = ask("worker", "shop")
    assert answer.status == 2
    assert "slot is not an option of [worker]" in answer.err
    assert ask("runs", "list").status == 2  # there is no database, but the file is understood


def test_a_file_may_have_options_of_workers_beside_settings(tmp_path: Path) -> None:
    (tmp_path / "onward.toml").write_text('namespace = "n"\n[worker]\nslots = 3')
    assert load({}, {}, tmp_path).namespace == "n"
