"""The TypeScript client, with its packages in the cache of the project."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CLIENT = ROOT / "clients" / "typescript"
CACHE = ROOT / ".cache" / "typescript"


def has_node() -> bool:
    """Return whether Node can be used; on CI it must be."""
    found = shutil.which("node") and shutil.which("npm")
    if not found and os.environ.get("CI"):
        pytest.fail("Node 20 or newer is needed for the TypeScript client: install it.")
    return bool(found)


def packages() -> Path:
    """Return a folder with the packages of the client, installed by its own lock file."""
    files = [CLIENT / name for name in ("package.json", "package-lock.json", ".npmrc")]
    key = hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]
    folder = CACHE / key
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for file in files:
                shutil.copy(file, folder)
            command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
            assert done.returncode == 0, f"npm ci failed:\n{done.stderr}"
            (folder / "installed").touch()
    return folder / "node_modules"


@pytest.fixture
def client(tmp_path: Path) -> Path | None:
    """Return a copy of the client that can run; None without Node, which is said in the output."""
    if not has_node():
        print("Node is not installed: the TypeScript client was not tested.")
        return None
    return copy_client(tmp_path)


def copy_client(folder: Path) -> Path:
    """Return a copy of the client in a folder, with its packages."""
    copy = folder / "clients" / "typescript"
    shutil.copytree(CLIENT, copy, ignore=shutil.ignore_patterns("node_modules"))
    (copy / "node_modules").symlink_to(packages())
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "protocol.md", folder / "docs")
    return copy
