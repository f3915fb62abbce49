"""A process that is forked while a Postgres store is open: the connections are its parent's."""

from __future__ import annotations

import asyncio
import os

import pytest

from onward.errors import StoreUnusable
from onward.store import open_store


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_is_refused_and_its_parent_goes_on(postgres_url: str) -> None:
    with asyncio.Runner() as parents:
        store = open_store(postgres_url)
        parents.run(store.__aenter__())
        child = os.fork()
        if not child:
            try:
                asyncio.run(store.counts())
            except StoreUnusable:
                os._exit(7)
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)

        assert os.waitstatus_to_exitcode(status) == 7
        assert parents.run(store.counts()) == {}
        parents.run(store.__aexit__(None, None, None))
