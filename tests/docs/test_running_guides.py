"""The projects of the guides on the first hour and on production do what their pages say."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import asyncpg
import pytest

from tests.cli.worker_process import WorkerProcess
from tests.docs.pages import ROOT, fences
from tests.docs.projects import write_project

if TYPE_CHECKING:
    from pathlib import Path

    from onward.testing.postgres import PostgresServer

GUIDES = ROOT / "docs" / "guides"
BUG = 'raise ValueError("no truck")'

START = """
from shop.tasks import app, ship

with app.sync() as client:
    print(client.run(ship, "cup"))
"""


def run(folder: Path, *words: str, **env: str) -> str:
    answer = subprocess.run(
        [sys.executable, "-W", "error", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])} | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


def test_the_quick_start_works_as_told(tmp_path: Path) -> None:
    page = (GUIDES / "quick-start.md").read_text()
    write_project(GUIDES / "quick-start.md", tmp_path)
    code = (tmp_path / "shop.py").read_text()
    with WorkerProcess(tmp_path, "shop", command="dev") as worker:
        worker.until("worker.ready")
        assert run(tmp_path, "start.py") in page
        run(tmp_path, "-m", "onward", "runs", "show", "order-1")
        worker.send(signal.SIGKILL)
    with WorkerProcess(tmp_path, "shop", command="dev") as worker:
        worker.until("worker.ready")
        assert BUG in page
        (tmp_path / "shop.py").write_text(code.replace('return f"{item} shipped', f"{BUG}  #"))
        worker.until("shop.py changed: restarting the worker.")
        worker.until("worker.ready")
        run(tmp_path, "-m", "onward", "runs", "signal", "order-1", "paid", "450")
        worker.until("run.failed")
        assert BUG in run(tmp_path, "-m", "onward", "runs", "show", "order-1")
        (tmp_path / "shop.py").write_text(code)
        worker.until("shop.py changed: restarting the worker.")
        worker.until("worker.ready")
        run(tmp_path, "-m", "onward", "runs", "retry", "order-1")
        result = run(tmp_path, "result.py").strip()
        assert f"`{result}`" in page


def test_a_worker_creates_the_schedules_of_the_module_on_the_page(tmp_path: Path) -> None:
    write_project(GUIDES / "schedules.md", tmp_path)
    with WorkerProcess(tmp_path, "shop.tasks") as worker:
        worker.until("worker.ready")
        listed = run(tmp_path, "-m", "onward", "--json", "--db", "shop.db", "schedules", "list")
    names = {json.loads(line)["name"] for line in listed.splitlines()}
    assert names == {"nightly", "poll"}


def test_roles_migration_and_worker_of_the_production_page(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    page = GUIDES / "production.md"
    write_project(page, tmp_path)
    create, grant = (block.text for block in fences(page) if block.language == "sql")
    database = postgres_server.url(urlsplit(postgres_url).path.strip("/"), tcp=True)
    owner, limited = (
        as_role(database, account) for account in ("shop_owner:owner-secret", "shop_app:app-secret")
    )
    asyncio.run(execute(postgres_url, create))
    try:
        run(tmp_path, "-m", "onward", "migrate", "--db", owner)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            asyncio.run(execute(limited, "SELECT name FROM onward.onward_meta"))
        asyncio.run(execute(postgres_url, grant))
        asyncio.run(execute(owner, "CREATE TABLE onward.later (n INT)"))
        with WorkerProcess(tmp_path, "shop.tasks", SHOP_DATABASE=limited) as worker:
            assert "workflows=ship" in worker.until("worker.ready")
            assert run(tmp_path, "-c", START, SHOP_DATABASE=limited) == "packed cup\n"
        asyncio.run(execute(limited, "SELECT n FROM onward.later"))
    finally:
        for role in ("shop_app", "shop_owner"):
            asyncio.run(execute(postgres_url, f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}"))


def as_role(url: str, account: str) -> str:
    parts = urlsplit(url)
    return parts._replace(netloc=f"{account}@{parts.netloc.rpartition('@')[2]}").geturl()


async def execute(url: str, statements: str) -> None:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()
