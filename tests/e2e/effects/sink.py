"""The receiver of effects, in a process of its own, with a ledger that survives every crash.

It speaks JSON, line by line, and writes down and syncs what it was sent and what it applied before
it goes on. At named points it can kill or stop whoever is calling:

    announced   the caller is about to send, and has sent nothing
    dropped     a request has come, and is never applied
    received    a request has come; it is applied when its sender is dead or stopped
    applied     it is applied, nobody has been told
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

if TYPE_CHECKING:
    from types import TracebackType

ROOT = Path(__file__).parents[3]
VARIABLE = "ONWARD_TEST_SINK"
"""Where handlers find the port of the sink."""

POINTS = ("announced", "dropped", "received", "applied")


class Entry(NamedTuple):
    """A line of the ledger: something was sent, or applied, under a key, by a process."""

    what: str
    key: str
    order: str
    pid: int


# --- what handlers call ---------------------------------------------------------------------------


async def ask(**request: Any) -> Any:
    """Ask the sink for something, and return its answer."""
    port = int(os.environ[VARIABLE])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(json.dumps({"pid": os.getpid(), **request}).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
        if not line:
            raise ConnectionError("the sink hung up")
        return json.loads(line)
    finally:
        writer.close()


def ask_now(**request: Any) -> Any:
    """Ask the sink for something, from a thread."""
    port = int(os.environ[VARIABLE])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as line:
        line.sendall(json.dumps({"pid": os.getpid(), **request}).encode() + b"\n")
        return json.loads(line.makefile().readline())


# --- what tests hold ------------------------------------------------------------------------------


class Sink:
    """A sink that is running; handlers in this process and in its children find it."""

    def __init__(self, ledger: Path) -> None:
        self._ledger = ledger

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.e2e.effects.sink", str(self._ledger)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdout is not None
        self._port = int(self._process.stdout.readline())
        self._before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = str(self._port)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = self._before
        self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def arm(
        self, pid: int, point: str, number: signal.Signals = signal.SIGKILL, *, hit: int = 1
    ) -> None:
        """Let a caller get a signal at a point, at its n-th pass from now."""
        assert point in POINTS
        self._tell(do="arm", victim=pid, point=point, number=int(number), hit=hit)

    def be_away(self, *, is_away: bool) -> None:
        """Know nothing of what was applied, for a while."""
        self._tell(do="away", is_away=is_away)

    def entries(self, what: str) -> list[Entry]:
        """Return what was `sent` or `applied`, in order."""
        if not self._ledger.exists():
            return []
        lines = self._ledger.read_text().splitlines()
        found = [Entry(*json.loads(line)) for line in lines]
        return [entry for entry in found if entry.what == what]

    def count(self, what: str) -> Counter[str]:
        """Return how often each key was `sent` or `applied`."""
        return Counter(entry.key for entry in self.entries(what))

    def _tell(self, **request: Any) -> None:
        with socket.create_connection(("127.0.0.1", self._port), timeout=10) as line:
            line.sendall(json.dumps({"pid": 0, **request}).encode() + b"\n")
            assert line.makefile().readline() == "true\n"


def is_out(pid: int) -> bool:
    """Say whether a process is dead, or stands still with all its threads."""
    try:
        stats = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    except (FileNotFoundError, ProcessLookupError):
        return False  # a thread has just gone: look again
    return {stat.rpartition(")")[2].split()[0] for stat in stats} <= {"T", "Z", "X"}


# --- the process ----------------------------------------------------------------------------------


class Server:
    """What the process does."""

    def __init__(self, ledger: str) -> None:
        self._file = os.open(ledger, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)
        self._answers: dict[str, str] = {}
        self._armed: dict[tuple[int, str], tuple[int, int]] = {}
        self._is_away = False

    async def serve(self) -> None:
        server = await asyncio.start_server(self._hear, "127.0.0.1", 0)
        print(server.sockets[0].getsockname()[1], flush=True)
        async with server:
            await server.serve_forever()

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            line = await reader.readline()
            if line:
                answer = self._do(json.loads(line))
                writer.write(json.dumps(answer).encode() + b"\n")
                await writer.drain()
        except ConnectionError:
            pass  # the caller is dead, perhaps by our own hand
        finally:
            writer.close()

    def _do(self, request: dict[str, Any]) -> Any:
        match request["do"]:
            case "announce":
                self._harm("announced", request["pid"])
                return True
            case "apply":
                return self._apply(request)
            case "find":
                return {"is_away": self._is_away, "found": self._answers.get(request["key"])}
            case "arm":
                place = request["victim"], request["point"]
                self._armed[place] = request["hit"], request["number"]
            case "away":
                self._is_away = request["is_away"]
        return True

    def _apply(self, request: dict[str, Any]) -> str | None:
        key, order, pid = request["key"], request["order"], request["pid"]
        self._note(Entry("sent", key, order, pid))
        if self._harm("dropped", pid):
            return None
        self._harm("received", pid)
        if key not in self._answers or not request["honours"]:
            self._note(Entry("applied", key, order, pid))
            self._answers[key] = f"{order} done"
        self._harm("applied", pid)
        return self._answers[key]

    def _harm(self, point: str, pid: int) -> bool:
        if (pid, point) not in self._armed:
            return False
        hit, number = self._armed.pop((pid, point))
        if hit > 1:
            self._armed[pid, point] = hit - 1, number
            return False
        os.kill(pid, number)
        while not is_out(pid):  # a signal takes its time, and nothing may happen meanwhile
            time.sleep(0.0005)
        return True

    def _note(self, entry: Entry) -> None:
        os.write(self._file, json.dumps(entry).encode() + b"\n")
        os.fsync(self._file)


if __name__ == "__main__":
    asyncio.run(Server(sys.argv[1]).serve())
