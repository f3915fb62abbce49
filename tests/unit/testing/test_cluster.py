"""One Postgres process with its own folder, which leaves nothing behind however it ends."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from onward.errors import StoreUnusable
from onward.testing.binaries import find_binaries
from onward.testing.cluster import Cluster, _free_port, _quickest_place

if TYPE_CHECKING:
    from collections.abc import Iterator

START_AND_WAIT = """
import sys
from onward.testing.binaries import find_binaries
from onward.testing.cluster import Cluster
cluster = Cluster(find_binaries(), {})
print(cluster.folder, cluster.port, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def where() -> Iterator[Path]:
    """A folder that is short, empty and open to other accounts."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_test_run_that_is_killed_leaves_nothing_behind(how: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        folder, port = process.stdout.readline().split()
        assert answers(int(port))
        os.killpg(process.pid, how)  # the whole group, as Ctrl-C in a terminal does
        process.communicate()  # returns when the keeper, too, has closed its output

    assert not Path(folder).exists()
    assert not answers(int(port))


def test_a_test_run_that_is_killed_while_initdb_runs_does_not_disturb_it(where: Path) -> None:
    where.chmod(0o777)
    initdb = f"""#!/bin/sh
        touch {where}/started
        until [ -e {where}/go ] || [ ! -d {where} ]; do sleep 0.01; done
        test -d "${{2%/data}}" && touch {where}/undisturbed
    """
    for tool in ("initdb", "postgres"):
        (where / tool).write_text(initdb)
        (where / tool).chmod(0o755)

    with subprocess.Popen(
        [sys.executable, "-c", START_AND_WAIT],
        env={**os.environ, "ONWARD_TEST_POSTGRES_BIN": str(where)},
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        while not (where / "started").exists():
            os.sched_yield()
        process.kill()
        keeper_ended, _, _ = select.select([process.stdout], [], [], 0.2)
        assert not keeper_ended
        (where / "go").touch()
        process.communicate()  # returns when the keeper has closed its output

    assert (where / "undisturbed").exists()


def test_a_cluster_cleans_up_also_without_its_keeper(where: Path) -> None:
    cluster = Cluster(find_binaries(), {}, where)
    cluster._keeper.kill()

    cluster.remove()

    assert list(where.iterdir()) == []
    assert not answers(cluster.port)


def test_a_cluster_that_cannot_be_made_says_why_and_leaves_nothing_behind(where: Path) -> None:
    broken = where / "bin"
    broken.mkdir()
    for tool in ("postgres", "initdb"):
        (broken / tool).write_text("#!/bin/sh\necho out of order; exit 1\n")
        (broken / tool).chmod(0o755)

    with pytest.raises(StoreUnusable, match="out of order"):
        Cluster(broken, {}, where)

    assert list(where.iterdir()) == [broken]


def test_a_port_that_was_taken_meanwhile_is_not_insisted_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    free = _free_port()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1], free])
        monkeypatch.setattr("onward.testing.cluster._free_port", lambda: next(ports))
        cluster = Cluster(find_binaries(), {})

    cluster.remove()

    assert cluster.port == free


def test_removing_a_cluster_twice_is_harmless() -> None:
    cluster = Cluster(find_binaries(), {})
    cluster.remove()

    cluster.remove()

    assert not cluster.folder.exists()


def test_a_cluster_lies_in_memory_where_there_is_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("onward.testing.cluster._MEMORY", tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 30))

    assert _quickest_place() == tmp_path


@pytest.mark.parametrize(
    ("usual", "chosen"), [("/var/tmp", "/var/tmp"), ("/var/" + "long" * 25, "/tmp")]
)
def test_without_memory_a_cluster_lies_where_its_socket_has_a_short_name(
    monkeypatch: pytest.MonkeyPatch, usual: str, chosen: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    monkeypatch.setattr(tempfile, "tempdir", usual)

    assert _quickest_place() == Path(chosen)
