"""Which engine an app has: a database in reach of this process, or a server."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from onward.engine.local_client import connect
from onward.engine.server_address import is_server
from onward.errors import BadInput, StoreUnusable

if TYPE_CHECKING:
    from onward.core.ports import Clock, Randomness, Spawn
    from onward.core.retention import Retention
    from onward.engine.client_engine import ClientEngine

KEY_VARIABLE = "ONWARD_KEY"


class Connecting(NamedTuple):
    """What an app was given beside its address."""

    key: str | None
    clock: Clock | None
    randomness: Randomness
    spawn: Spawn | None
    hints: str | None
    keep: Retention | None

    def __call__(self, url: str, namespace: str) -> ClientEngine:
        """Return the engine at an address, which is not open yet.

        Raises:
            BadInput: an option does not apply to this kind of address.
            BadStoreUrl: the address cannot be understood.
            StoreUnusable: a package for it is not installed.
        """
        if is_server(url):
            return self._server(url, namespace)
        if self.key is not None:
            raise BadInput("key=", "applies to onward:// servers only", "Leave it out")
        return connect(
            url,
            namespace,
            clock=self.clock,
            randomness=self.randomness,
            spawn=self.spawn,
            hints=self.hints,
            keep=self.keep,
        )

    def _server(self, url: str, namespace: str) -> ClientEngine:
        if self.hints is not None:
            raise BadInput("hints=", "applies to databases only", "Pass it to the server instead")
        try:
            remote = import_module("onward.wire.remote_client")
        except ModuleNotFoundError as missing:
            if (missing.name or "").split(".")[0] not in ("grpc", "google"):
                raise
            raise StoreUnusable(
                "onward://",
                "needs the grpcio and protobuf packages, which are not installed",
                "Install them: pip install 'onward[grpc]'",
            ) from missing
        key = self.key or os.environ.get(KEY_VARIABLE) or None
        engine: ClientEngine = remote.connect(
            url, namespace, key=key, clock=self.clock, randomness=self.randomness
        )
        return engine
