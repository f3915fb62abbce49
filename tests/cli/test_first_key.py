"""The first key: a server that needs keys creates one in a terminal, and shows it once."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from onward import App
from onward.core.access import role_scopes
from onward.engine.access.administration import FIRST_KEY, Administration
from onward.store import open_store

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

KEY = re.compile(r"onw_[a-z2-7]{12}_\w{43}_\w{6}")


class Terminal:
    """`onward server` whose standard output is a terminal."""

    def __init__(self, url: str, folder: Path) -> None:
        self._terminal, theirs = os.openpty()
        words = ("server", "--db", url, "--grpc", "127.0.0.1:0", "--behind-proxy")
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-m", "onward", *words],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=theirs,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        os.close(theirs)

    def until_ready(self) -> str:
        """Return what was printed up to the address."""
        text = b""
        while b"Listening on" not in text or not text.endswith(b"\n"):
            text += os.read(self._terminal, 1000)
        return text.decode()

    def stop(self) -> str:
        """Stop it, and return its log."""
        self._process.send_signal(signal.SIGTERM)
        log = self._process.communicate(timeout=30)[1].decode()
        assert self._process.returncode == 0, log
        return log

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with suppress(ProcessLookupError):
            self._process.kill()
        self._process.communicate()
        os.close(self._terminal)


async def test_of_two_servers_that_start_together_one_prints_a_key_that_works(
    url: str, tmp_path: Path
) -> None:
    with Terminal(url, tmp_path) as one, Terminal(url, tmp_path) as two:
        printed = one.until_ready() + two.until_ready()
        [key] = KEY.findall(printed)
        address = printed.partition("Listening on ")[2].split()[0]
        async with App(f"onward://{address}", key=key) as app:
            assert await app.workers.list() == []
        logs = one.stop() + two.stop()
    assert key.split("_")[2] not in logs
    with Terminal(url, tmp_path) as later:
        assert not KEY.search(later.until_ready())
    async with open_store(url) as store:
        [info] = await Administration(store).keys()
        assert (info.name, info.namespace) == (FIRST_KEY, "default")
        assert set(info.scopes) == role_scopes("admin")


def test_a_server_without_a_terminal_creates_no_key(tmp_path: Path) -> None:
    words = ("server", "--db", "onward.db", "--grpc", "127.0.0.1:0", "--behind-proxy")
    done = subprocess.run(
        [sys.executable, "-m", "onward", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert "onward keys create" in done.stderr
