"""The files of a SQLite database: whether a place is fit for them."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from onward.errors import StoreUnusable
from onward.store import open_store
from onward.store.sqlite.files import check_place, file_system

if TYPE_CHECKING:
    from collections.abc import Iterator

NOBODY = 65534


# --- the place ------------------------------------------------------------------------------------


def test_a_plain_folder_is_fit(tmp_path: Path) -> None:
    check_place(tmp_path / "onward.db")


def test_a_missing_folder_is_refused_with_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match=f"mkdir -p {tmp_path}/no/such"):
        check_place(tmp_path / "no" / "such" / "onward.db")


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnusable, match="is a folder, not a file"):
        check_place(tmp_path)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user of the machine can reach."""
    with TemporaryDirectory() as made:
        place = Path(made)
        place.chmod(0o777)
        yield place
        place.chmod(0o777)


def test_a_folder_that_cannot_be_written_is_refused(folder: Path) -> None:
    folder.chmod(0o555)

    assert "cannot be written by this user" in as_an_ordinary_user(folder / "onward.db")


def test_a_file_that_cannot_be_written_is_refused(folder: Path) -> None:
    file = folder / "onward.db"
    file.touch(0o444)

    assert "cannot be written by this user" in as_an_ordinary_user(file)


def test_a_folder_that_cannot_be_entered_is_refused(folder: Path) -> None:
    (folder / "inner").mkdir()
    folder.chmod(0o600)

    assert "cannot be entered" in as_an_ordinary_user(folder / "inner" / "onward.db")


def as_an_ordinary_user(path: Path) -> str:
    """Return what `check_place` says to somebody who, unlike root, is bound by permissions."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.getuid() == 0:
                os.setuid(NOBODY)
            check_place(path)
        except StoreUnusable as refusal:
            os.write(writer, str(refusal).encode())
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        return said.read().decode()


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs", "ceph"])
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"/dev/vda / ext4 rw 0 0\nserver:/x {tmp_path} {kind} rw 0 0\n")

    with pytest.raises(StoreUnusable, match=rf"network file system \({kind}\).*Postgres"):
        check_place(tmp_path / "onward.db", mounts)


def test_the_innermost_mount_counts(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(
        f"/dev/vda / ext4 rw 0 0\n"
        f"server:/x {tmp_path}/net nfs4 rw 0 0\n"
        f"tmpfs {tmp_path}/net/fast tmpfs rw 0 0\n"
        f"server:/y {tmp_path}/net/fa 9p rw 0 0\n"
        f"server:/z {tmp_path}/a\\040b cifs rw 0 0\n"
    )

    kinds = [
        file_system(tmp_path / name / "onward.db", mounts)
        for name in ("", "net", "net/fast", "net/faster", "a b")
    ]

    assert kinds == ["ext4", "nfs4", "tmpfs", "nfs4", "cifs"]


def test_where_nobody_can_tell_the_file_system_it_is_trusted(tmp_path: Path) -> None:
    assert file_system(tmp_path, tmp_path / "no such file") is None
    check_place(tmp_path / "onward.db", tmp_path / "no such file")


async def test_a_folder_of_locks_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "shop.db-onward").write_text("not a folder")
    with pytest.raises(StoreUnusable, match=r"shop\.db-onward cannot be created \(File exists\)"):
        async with open_store(str(tmp_path / "shop.db")):
            pass
