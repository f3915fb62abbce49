"""The projects of the web guides work: on SQLite in one process, on Postgres with workers."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.docs.pages import ROOT
from tests.docs.projects import write_project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from onward.testing.postgres import PostgresServer

GUIDES = ROOT / "docs" / "guides"
WORKERS = {"fastapi": "shop.tasks", "django": "config.worker"}
MAX_SECONDS = 90

ROLLED_BACK = {
    "fastapi": """
import pytest
from fastapi.testclient import TestClient
from shop.tables import Order, new_session
from shop.web import api, get_session


async def broken():
    async with new_session() as session:
        async def commit():
            raise RuntimeError("the commit fails")
        session.commit = commit
        yield session


def test_an_order_that_is_not_committed_starts_no_run():
    with TestClient(api) as client:
        first = client.post("/orders", json={"item": "cup"}).json()["order"]
        api.dependency_overrides[get_session] = broken
        with pytest.raises(RuntimeError, match="the commit fails"):
            client.post("/orders", json={"item": "lost"})
        del api.dependency_overrides[get_session]
        assert client.get(f"/orders/{first}").status_code == 200
        assert client.get(f"/orders/{first + 1}").status_code == 404
""",
    "django": """
import pytest
from django.db import transaction
from django.test import Client
from shop.models import Order


def test_an_order_that_is_not_committed_starts_no_run():
    def post(item):
        return Client().post("/orders", {"item": item}, content_type="application/json").json()

    first = post("cup")["order"]
    with pytest.raises(RuntimeError), transaction.atomic():
        lost = post("lost")["order"]
        raise RuntimeError("the request fails")
    assert Client().get(f"/orders/{first}").status_code == 200
    assert Client().get(f"/orders/{lost}").status_code == 404
    assert not Order.objects.filter(item="lost").exists()
""",
}


@pytest.fixture(params=WORKERS)
def guide(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Write the project of a guide, with one more test, and return its name."""
    name: str = request.param
    assert len(write_project(GUIDES / f"{name}.md", tmp_path)) >= 4
    (tmp_path / "tests" / "test_rollback.py").write_text(ROLLED_BACK[name])
    return name


def environment(folder: Path, database: str) -> dict[str, str]:
    paths = [str(folder), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"SHOP_DATABASE": database, "PYTHONPATH": os.pathsep.join(paths)}


def run_tests(folder: Path, database: str) -> None:
    """Run the tests of the project with pytest, in which every warning is an error."""
    answer = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", "tests"],
        cwd=folder,
        env=environment(folder, database),
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    assert "3 passed" in answer.stdout


@contextmanager
def worker(folder: Path, module: str, database: str) -> Iterator[None]:
    """Run `onward worker`, and see that it stops gently."""
    process = subprocess.Popen(
        [sys.executable, "-m", "onward", "worker", module],
        cwd=folder,
        env=environment(folder, database),
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert "worker.ready" in line, line + process.stderr.read()
        yield
        process.terminate()
        _, said = process.communicate(timeout=30)
        assert process.returncode == 0, said
    finally:
        process.kill()
        process.communicate()


@pytest.mark.timeout(2 * MAX_SECONDS)
def test_the_project_works_on_sqlite_in_one_process(guide: str, tmp_path: Path) -> None:
    assert guide in WORKERS
    run_tests(tmp_path, "shop.db")


@pytest.mark.timeout(2 * MAX_SECONDS)
def test_the_project_works_on_postgres_with_a_worker_process(
    guide: str, tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    name = urlsplit(postgres_url).path.strip("/")
    database = postgres_server.url(name, tcp=True)
    with worker(tmp_path, WORKERS[guide], database):
        run_tests(tmp_path, database)
