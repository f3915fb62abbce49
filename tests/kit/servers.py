"""Servers for tests, on an event loop of their own in a thread: a test may block its own loop."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from onward.store.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator


class ServerThread:
    """Runs servers on one event loop until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="servers", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @contextmanager
    def serve(self, database: str, address: str = "127.0.0.1:0") -> Iterator[str]:
        """Enter with the address of a server for a database, which listens on a free port."""
        from onward.server.process import OnwardServer  # it needs extras

        async def start() -> OnwardServer:
            return await OnwardServer(database, grpc=address).__aenter__()

        server = self._call(start())
        try:
            yield f"onward://{server.address}"
        finally:
            self._call(server.__aexit__(None, None, None))

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


@contextmanager
def server_thread() -> Iterator[ServerThread]:
    """Enter with what runs servers."""
    thread = ServerThread()
    try:
        yield thread
    finally:
        thread.close()


class StoreBehindServer:
    """The store of a server, for tests that look into it: each call opens and closes it."""

    def __init__(self, database: str) -> None:
        self._database = database

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **kwargs: Any) -> Any:
            async with open_store(self._database) as store:
                return await getattr(store, name)(*args, **kwargs)

        return call
