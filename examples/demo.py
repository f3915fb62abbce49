"""A workflow outlives its worker: `make demo` kills one with SIGKILL, and another finishes it.

python examples/demo.py                          # on a temporary SQLite file
python examples/demo.py postgresql://…/database  # or on your Postgres
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import onward
from onward import App, step, workflow

CITIES = {"Lima": 0.3, "Oslo": 0.6, "Pune": 3.0}


@step
async def measure(city: str, seconds: float) -> int:
    log(f"measuring {city} ...")
    await asyncio.sleep(seconds)
    log(f"measured {city}")
    return len(city) * 7


@step
async def report(total: int) -> str:
    log("writing the report")
    return f"{total} degrees in all"


@workflow
async def weather() -> str:
    temperatures = await asyncio.gather(*(measure(*each) for each in CITIES.items()))
    await onward.sleep("2s")
    return await report(sum(temperatures))


def log(text: str) -> None:
    print(f"    {time.strftime('%H:%M:%S')}  worker {os.getpid()}: {text}", flush=True)


async def work(url: str) -> None:
    async with App(url).worker(slots=10) as worker:
        await worker.serve()


def start_worker(url: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, __file__, "--work", url])  # noqa: S603 - ourselves
    print(f"  worker {process.pid} started", flush=True)
    return process


async def show(url: str) -> None:
    async with App(url) as app:
        run = await app.start(weather.options(id="weather-today"))
        print(f"\n  run {run.id} started: {len(CITIES)} steps at once, a sleep, one more step")
        first = start_worker(url)
        while len(await run.history()) < 2:  # noqa: ASYNC110 - another process writes it
            await asyncio.sleep(0.05)
        first.send_signal(signal.SIGKILL)
        first.wait()
        print(f"  worker {first.pid} killed with SIGKILL; two of three results are recorded\n")
        second = start_worker(url)
        result = await run.result(timeout="60s")
        second.terminate()
        second.wait()
        print(f"\n  result: {result}\n\n  the history of the run:")
        for record in await run.history():
            print(f"    {record.seq}  {record.kind:6} {record.name:8} {record.state}")


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        asyncio.run(work(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        url = sys.argv[1] if sys.argv[1:] else str(Path(folder, "demo.db"))
        print(f"Onward: a workflow that outlives its worker, on {url.rpartition('/')[2]}")
        asyncio.run(show(url))


if __name__ == "__main__":
    main()
