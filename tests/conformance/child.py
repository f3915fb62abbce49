"""A second process on a SQLite file, which does what it is told, line by line.

Run as `python child.py FILE`; `Child` is the other end of the line.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Self

from onward.model.runs import NewRun
from onward.store import Store, Wanted, open_store
from onward.telemetry.failpoints import arm

if TYPE_CHECKING:
    from pathlib import Path


class Child:
    """The process, as the one that started it sees it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._heirs: list[int] = []

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            str(self._path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return self

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    async def __aexit__(self, *_: object) -> None:
        for heir in self._heirs:
            os.kill(heir, signal.SIGKILL)
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._process._transport.close()  # type: ignore[attr-defined]  # or it is closed too late

    async def ask(self, *words: str) -> str:
        """Tell it to do something and return what it says."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{' '.join(words)}\n".encode())
        return (await self._process.stdout.readline()).decode().strip()

    async def fork(self) -> None:
        """Let it fork a process that lives on, whatever becomes of its parent."""
        self._heirs.append(int(await self.ask("fork")))

    async def freeze_in_commit(self) -> None:
        """Let the system stop it inside of a commit, with all locks that it takes for one."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"freeze\n")
        while _state_of(self.pid) != "T":  # noqa: ASYNC110 - nobody tells us
            await asyncio.sleep(0.005)

    def thaw(self) -> None:
        """Let it go on."""
        os.kill(self.pid, signal.SIGCONT)

    async def die(self) -> None:
        """Kill it as the system would: at once, without a word."""
        self._process.kill()
        await self._process.wait()


def _state_of(pid: int) -> str:
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def stay() -> int:
    """Fork a process that does nothing, and return its id."""
    pid = os.fork()
    if pid == 0:
        os.closerange(0, 3)  # whoever reads from its parent is to see the end of that
        while True:
            signal.pause()
    return pid


async def obey(path: str) -> None:
    store: Store | None = None
    for line in sys.stdin:
        match line.split():
            case ["hello"]:
                print("hello", flush=True)
            case ["open"]:
                store = await open_store(path).__aenter__()
                print("schema is there", flush=True)
            case ["start", name] if store:
                await store.start(NewRun(f"uid-{name}", name, "greet", b"", ""))
                print("started", flush=True)
            case ["claim", worker] if store:
                await store.take_lease(worker)
                claimed = await store.claim(Wanted(worker, ("default",), ("greet",), 10))
                print(*(run.id for run in claimed), flush=True)
            case ["claim", worker, namespace]:
                mine = await open_store(path, namespace=namespace).__aenter__()
                await mine.take_lease(worker)
                claimed = await mine.claim(Wanted(worker, ("default",), ("greet",), 10))
                print(*(run.id for run in claimed), flush=True)
            case ["fork"]:
                print(stay(), flush=True)
            case ["freeze"] if store:
                arm("commit.before", lambda: os.kill(os.getpid(), signal.SIGSTOP))
                await store.start(NewRun("uid-frozen", "frozen", "greet", b"", ""))
                print("thawed", flush=True)
            case ["close"] if store:
                await store.__aexit__(None, None, None)
                print("closed", flush=True)


if __name__ == "__main__":
    asyncio.run(obey(sys.argv[1]))
