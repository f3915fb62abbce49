"""One Postgres process with its own folder: made, started, broken on purpose, removed.

Tuned for tests: nothing is forced to disk, and the folder lies in memory where there is room.
Commits still reach the operating system before they are acknowledged, so an `immediate` stop loses
none of them, as with a real server.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from onward.errors import StoreUnusable
from onward.testing import cluster_cleanup
from onward.testing.binaries import account_for

if TYPE_CHECKING:
    import pwd
    from collections.abc import Mapping

StopMode = Literal["smart", "fast", "immediate"]

USER = "postgres"

_SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}
_MEMORY = Path("/dev/shm")  # noqa: S108
_MEMORY_FREE_BYTES_MIN = 1 << 30
_SOCKET_PATH_BYTES_MAX = 100
_START_SECONDS_MAX = 60.0
_POLL_SECONDS = 0.005
_PORT_TRIES = 3

_SETTINGS = {
    "autovacuum": "off",
    "fsync": "off",
    "full_page_writes": "off",
    "jit": "off",
    "listen_addresses": "127.0.0.1",
    "max_connections": "200",
    "max_wal_senders": "0",
    "max_wal_size": "128MB",
    "shared_buffers": "32MB",
    "timezone": "UTC",
    "wal_level": "minimal",
}


class Cluster:
    """A private Postgres, reachable by a Unix socket and by a loopback port.

    The socket lies in a folder that only this account may enter and asks for no password; the port
    asks for `password`.
    """

    def __init__(
        self, binaries: Path, settings: Mapping[str, str], where: Path | None = None
    ) -> None:
        self.binaries = binaries
        self.password = secrets.token_hex(16)
        self.port = 0
        self._settings = {**_SETTINGS, **settings}
        self._account = account_for(binaries)
        self._process: subprocess.Popen[bytes] | None = None
        self.folder = _new_folder(where, self._account)
        self._keeper = subprocess.Popen(  # noqa: S603
            [sys.executable, "-I", "-S", cluster_cleanup.__file__, str(self.folder)],
            stdin=subprocess.PIPE,
            cwd="/",
            start_new_session=True,
        )
        try:
            self._initialise()
            self._start_on_a_free_port()
        except BaseException:
            self.remove()
            raise

    def start(self) -> None:
        """Start the server and wait until it takes connections."""
        settings = {
            **self._settings,
            "port": str(self.port),
            "unix_socket_directories": str(self.folder),
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        command = [str(self.binaries / "postgres"), "-D", str(self.folder / "data"), *options]
        with (self.folder / "log").open("ab") as log:
            # A session of its own: Ctrl-C in a terminal must not reach the server before the tests.
            self._process = subprocess.Popen(  # noqa: S603
                command, stdout=log, stderr=log, start_new_session=True, **self._as_account()
            )
        self._wait_until_ready(self._process)

    def halt(self, mode: StopMode = "immediate") -> None:
        """Stop the server, keep its data, and return when it is gone."""
        if self._process is not None:
            self._process.send_signal(_SIGNALS[mode])
            self._process.wait()
            self._process = None

    def remove(self) -> None:
        """Stop the server and remove its folder."""
        self.halt()
        self._keeper.communicate()
        cluster_cleanup.clean_up(
            self.folder
        )  # finds nothing to do unless the keeper itself was killed

    def _initialise(self) -> None:
        password_file = self.folder / "password"
        password_file.write_text(self.password)
        if self._account is not None:
            shutil.chown(password_file, self._account.pw_uid, self._account.pw_gid)
        options = ["--no-sync", "--encoding=UTF8", "--locale=C", f"--username={USER}"]
        auth = ["--auth-local=trust", "--auth-host=scram-sha-256", f"--pwfile={password_file}"]
        assert self._keeper.stdin is not None
        made = subprocess.run(  # noqa: S603
            [str(self.binaries / "initdb"), "-D", str(self.folder / "data"), *options, *auth],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            # The keeper waits for it, too: a folder removed from under initdb leaves shared memory.
            pass_fds=[self._keeper.stdin.fileno()],
            **self._as_account(),
        )
        if made.returncode != 0:
            fact = f"failed: {made.stdout.decode(errors='replace').strip()}"
            raise StoreUnusable(f"initdb from {self.binaries}", fact, "See the lines above.")

    def _start_on_a_free_port(self) -> None:
        # Between asking for a free port and using it, another process may take it.
        for tries_left in reversed(range(_PORT_TRIES)):
            self.port = _free_port()
            try:
                self.start()
                break
            except StoreUnusable as error:
                if not tries_left or "Address already in use" not in error.fact:
                    raise

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        patience = time.monotonic() + _START_SECONDS_MAX
        while not self._says_ready(process.pid):
            if process.poll() is not None or time.monotonic() > patience:
                self.halt()
                tail = (self.folder / "log").read_text(errors="replace").splitlines()[-10:]
                fact = "did not start: " + " / ".join(tail)
                raise StoreUnusable(f"Postgres from {self.binaries}", fact, "See its output.")
            time.sleep(_POLL_SECONDS)

    def _says_ready(self, pid: int) -> bool:
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0] == str(pid) and lines[7].strip() == "ready"

    def _as_account(self) -> dict[str, Any]:
        environ = {k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_", "LANG"))}
        common: dict[str, Any] = {"cwd": self.folder, "env": environ}
        if self._account is None:
            return common
        uid, gid = self._account.pw_uid, self._account.pw_gid
        return {**common, "user": uid, "group": gid, "extra_groups": []}


def _new_folder(where: Path | None, account: pwd.struct_passwd | None) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="onward-pg-", dir=where or _quickest_place()))
    if account is not None:
        os.chown(folder, account.pw_uid, account.pw_gid)
    return folder


def _quickest_place() -> Path:
    """Return the folder for temporary files, unless memory has room or its name is too long.

    Copying a database makes 300 files: 15 ms in memory, 50 to 250 ms on the disks tried.
    """
    if _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free >= _MEMORY_FREE_BYTES_MIN:
        return _MEMORY
    usual = Path(tempfile.gettempdir())
    socket_path = usual / "onward-pg-12345678" / ".s.PGSQL.65535"
    return usual if len(os.fsencode(socket_path)) <= _SOCKET_PATH_BYTES_MAX else Path("/tmp")  # noqa: S108


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
