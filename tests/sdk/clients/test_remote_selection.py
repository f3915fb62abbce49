"""The lists of tests that run through a server, or cannot, name tests that exist."""

from pathlib import Path

import pytest

from tests.sdk.remote import ALSO_REMOTE, NOT_REMOTE

SDK = Path(__file__).parents[1]


@pytest.mark.parametrize("module", sorted(ALSO_REMOTE))
def test_every_module_that_also_runs_through_a_server_exists(module: str) -> None:
    assert SDK.joinpath(*module.split(".")).with_suffix(".py").exists()


@pytest.mark.parametrize("name", NOT_REMOTE)
def test_every_test_that_cannot_run_through_a_server_exists_and_has_a_reason(name: str) -> None:
    module, _, test = name.rpartition(".")
    source = SDK.joinpath(*module.split(".")).with_suffix(".py").read_text()
    assert f"def {test}(" in source
    assert NOT_REMOTE[name]


def test_few_tests_cannot_run_through_a_server() -> None:
    assert len(NOT_REMOTE) <= 5
