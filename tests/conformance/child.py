"""A second process on a SQLite file, which does what it is told, line by line.

Run as `python child.py FILE`; `Child` is the other end of the line.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Self

from onward.store import Store, Wanted, open_store
from onward.store.rows import NewRun

if TYPE_CHECKING:
    from pathlib import Path


class Child:
    """The process, as the one that started it sees it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __aenter__(self) -> Self:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            __file__,
            str(self._path),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
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

    async def die(self) -> None:
        """Kill it as the system would: at once, without a word."""
        self._process.kill()
        await self._process.wait()


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
            case ["close"] if store:
                await store.__aexit__(None, None, None)
                print("closed", flush=True)


if __name__ == "__main__":
    asyncio.run(obey(sys.argv[1]))
