"""`onward worker --metrics` serves what the telemetry guide lists."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest

from onward import App, step, workflow
from onward.cli.metrics import FAMILIES, metrics_endpoint, parse_address
from onward.errors import BadInput
from tests.cli.worker_process import MODULE, WorkerProcess
from tests.house.source import ROOT
from tests.kit.watching import until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Ask

GUIDE = ROOT / "docs" / "guides" / "telemetry.md"


@step(cache="1h")
async def weigh() -> int:
    return 1


@workflow(name="metrics.parcel")
async def parcel() -> int:
    return await weigh()


def read(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def test_the_guide_lists_what_is_served() -> None:
    found = re.findall(
        r"^\| `(onward_\w+)` \| (\w+) \| ([^|]+) \|", GUIDE.read_text(), re.MULTILINE
    )
    listed = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels in found}
    assert listed == {name: family[:2] for name, family in FAMILIES.items()}


async def test_a_worker_is_measured_and_its_store_described(tmp_path: Path) -> None:
    app = App(str(tmp_path / "onward.db"))
    texts: list[str] = []

    async def has_gauges() -> bool:
        texts.append(await asyncio.to_thread(read, port))
        return 'onward_queue_ready{queue="mail"} 1.0' in texts[-1]

    async with app:
        await app.start(parcel.options(queue="mail"))
        async with metrics_endpoint(app, "127.0.0.1:0") as port:
            async with app.worker(workflows=[parcel]):
                await app.run(parcel)
            await until(has_gauges)
    text = texts[-1]
    assert _value(text, "onward_runs_started_total", queue="default") == 1
    assert _value(text, "onward_runs_ended_total", queue="default", state="succeeded") == 1
    assert _value(text, "onward_step_seconds_count", step="weigh", outcome="succeeded") == 1
    assert _value(text, "onward_cache_reads_total", step="weigh", outcome="miss") == 1
    assert _value(text, "onward_maintenance_seconds_count") >= 1
    served = re.findall(r"^# TYPE (\w+) (?:counter|gauge|histogram)", text, re.MULTILINE)
    assert {name for name in served if not name.endswith("_created")} == set(FAMILIES)


def _value(text: str, name: str, **labels: str) -> float:
    """Return the value of the only series with these labels."""
    lines = [line for line in text.splitlines() if re.match(rf"{name}(\{{| )", line)]
    [line] = [
        line for line in lines if all(f'{key}="{value}"' in line for key, value in labels.items())
    ]
    return float(line.rpartition(" ")[2])


def test_a_worker_process_says_where_its_metrics_are(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(MODULE)
    with WorkerProcess(tmp_path, "orders", "--metrics", "127.0.0.1:0") as worker:
        line = worker.until("worker.metrics")
        port = int(line.rpartition(":")[2])
        assert "onward_claim_seconds_count" in read(port)


@pytest.mark.parametrize("given", ["9100", "host", ":port", ":70000"])
def test_an_address_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(BadInput, match="is not an address"):
        parse_address(given)


def test_an_address_may_be_without_a_host() -> None:
    assert parse_address(":9100") == ("0.0.0.0", 9100)
    assert parse_address("[::1]:9100") == ("::1", 9100)


def test_a_port_that_is_taken_is_named(ask: Ask, tmp_path: Path) -> None:
    (tmp_path / "metrics_taken.py").write_text(MODULE)
    answer = ask("worker", "metrics_taken", "--metrics", "nowhere.invalid:9100")
    assert answer.status == 2
    assert "--metrics nowhere.invalid:9100 cannot be used" in answer.err
