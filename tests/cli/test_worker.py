"""`onward worker` as a process: it executes runs, drains on a signal, and says what it does."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest

from onward import App, workflow
from tests.cli.worker_process import MODULE, WorkerProcess
from tests.kit.watching import until

if TYPE_CHECKING:
    from pathlib import Path

    from onward import Run

SLOW = 60


@workflow
async def order(file: str) -> int:
    raise NotImplementedError("the worker's module has the body")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "orders.py").write_text(MODULE)
    return tmp_path


async def start(app: App, folder: Path, run_id: str, file: str = "go") -> Run[int]:
    """Start a run, and wait until it is in the middle of its second step."""
    run = await app.start(order.options(id=run_id), file)
    await until((folder / f"{file}.waiting").exists, SLOW)
    return run


async def test_a_step_that_runs_at_sigterm_is_finished(folder: Path, url: str) -> None:
    with WorkerProcess(folder, "orders", ORDERS_STORE=url) as worker:
        ready = worker.until("worker.ready")
        assert "queues=default workflows=order" in ready
        async with App(url) as app:
            run = await start(app, folder, "order-1")
            worker.send(signal.SIGTERM)
            assert "signal=SIGTERM runs=1 drain_seconds=10" in worker.until("worker.stopping")
            (folder / "go").touch()
            assert worker.status() == 0
            assert await run.result(timeout="60s") == worker.pid
            assert "worker.left" in worker.log[-1]


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=str
)
async def test_a_second_signal_abandons_steps_and_returns_the_runs(
    folder: Path, url: str, number: signal.Signals, status: int
) -> None:
    with WorkerProcess(folder, "orders", ORDERS_STORE=url) as worker:
        async with App(url) as app:
            worker.until("worker.ready")
            run = await start(app, folder, "order-1")
            worker.send(number)
            worker.until("worker.stopping")
            worker.send(number)
            assert worker.status() == status
            assert await run.state() == "ready"
            assert not any("Traceback" in line for line in worker.log)


@workflow
async def block() -> None:
    raise NotImplementedError("the worker's module has the body")


BLOCKED = """
import time
from pathlib import Path

from onward import App, workflow

app = App("orders.db")


@workflow
async def block() -> None:
    Path("blocked").touch()
    while True:
        time.sleep(5)
"""


async def test_a_second_signal_ends_a_worker_whose_loop_is_blocked(tmp_path: Path) -> None:
    (tmp_path / "orders.py").write_text(BLOCKED)
    with WorkerProcess(tmp_path, "orders") as worker:
        worker.until("worker.ready")
        async with App(str(tmp_path / "orders.db")) as app:
            await app.start(block)
            await until((tmp_path / "blocked").exists, SLOW)
            worker.send(signal.SIGTERM)
            worker.send(signal.SIGINT)
            assert worker.status() in (143, 130)


async def test_a_killed_worker_is_replaced_by_the_next_one(folder: Path) -> None:
    async with App("orders.db") as app:
        with WorkerProcess(folder, "orders") as killed:
            killed.until("worker.ready")
            run = await start(app, folder, "order-1")
            killed.send(signal.SIGKILL)
            assert killed.status() == -signal.SIGKILL
        (folder / "go").touch()
        with WorkerProcess(folder, "orders"):
            assert await run.result(timeout="60s") == killed.pid
    assert (folder / "reserved").read_text() == "x"


async def test_two_workers_share_a_file(folder: Path) -> None:
    with (
        WorkerProcess(folder, "orders", "--slots", "1") as one,
        WorkerProcess(folder, "orders", "--slots", "1") as two,
    ):
        for worker in (one, two):
            worker.until("worker.ready")
        async with App("orders.db") as app:
            runs = [await start(app, folder, f"order-{n}", f"go-{n}") for n in range(2)]
            for n in range(2):
                (folder / f"go-{n}").touch()
            answers = {await run.result(timeout="60s") for run in runs}
        assert answers == {one.pid, two.pid}


async def test_flags_override_the_store_and_the_queues_of_the_app(folder: Path) -> None:
    words = ("orders:app", "--queue", "mail", "--queue", "post", "--tag", "eu")
    with WorkerProcess(folder, *words, "--db", "other.db", "--namespace", "blue") as worker:
        assert "store=other.db queues=mail,post" in worker.until("worker.ready")
        (folder / "go").touch()
        async with App("other.db", namespace="blue") as app:
            run = await app.start(order.options(queue="post", tags=["eu"]), "go")
            assert await run.result(timeout="60s") == worker.pid
    assert not (folder / "orders.db").exists()


async def test_json_logs_are_one_object_a_line(folder: Path) -> None:
    with WorkerProcess(folder, "orders", "--json") as worker:
        worker.until("worker.ready")
        worker.send(signal.SIGTERM)
        assert worker.status() == 0
    names = [json.loads(line)["event"] for line in worker.log]
    assert (names[0], names[-1]) == ("worker.ready", "worker.left")


async def test_a_record_of_the_users_code_names_its_run_and_step(folder: Path) -> None:
    (folder / "orders.py").write_text(
        MODULE.replace(
            "    return os.getpid()",
            "    import logging\n    logging.getLogger('shop').info('reserved')\n    return 1",
        )
    )
    (folder / "go").touch()
    with WorkerProcess(folder, "orders") as worker:
        async with App("orders.db") as app:
            await app.start(order.options(id="order-1"), "go")
        assert worker.until("shop: reserved").endswith("shop: reserved [order-1 reserve]\n")


async def test_logging_that_the_module_has_configured_stays(folder: Path) -> None:
    own = "import logging\nlogging.basicConfig(level='INFO', format='OWN %(message)s')\n"
    (folder / "orders.py").write_text(own + MODULE)
    with WorkerProcess(folder, "orders") as worker:
        assert worker.until("worker.ready").startswith("OWN worker.ready")


async def test_the_worker_runs_on_uvloop(folder: Path) -> None:
    told = MODULE.replace("os.getpid()", "len(type(asyncio.get_event_loop()).__module__)")
    (folder / "orders.py").write_text(told)
    (folder / "go").touch()
    with WorkerProcess(folder, "orders", "--uvloop") as worker:
        worker.until("worker.ready")
        async with App("orders.db") as app:
            run = await app.start(order, "go")
            assert await run.result(timeout="60s") == len("uvloop")
        worker.send(signal.SIGTERM)
        assert worker.status() == 0


async def test_a_worker_drains_no_longer_than_it_is_told(folder: Path) -> None:
    times = ("--drain", "0s", "--lease", "5s", "--stall", "3s", "--stall-limit", "1m")
    with WorkerProcess(folder, "orders", *times) as worker:
        worker.until("worker.ready")
        async with App("orders.db") as app:
            run = await start(app, folder, "order-1")
            worker.send(signal.SIGTERM)
            assert worker.status() == 0
            assert await run.state() == "ready"


BLOCKING = """
import time
from onward import App, workflow

app = App("orders.db")

@workflow
async def order(file: str) -> int:
    time.sleep(600)
    return 1
"""


async def test_a_worker_that_a_run_blocks_exits_for_its_supervisor(folder: Path) -> None:
    (folder / "orders.py").write_text(BLOCKING)
    with WorkerProcess(folder, "orders", "--stall", "1s", "--stall-limit", "2s") as worker:
        worker.until("worker.ready")
        async with App("orders.db") as app:
            await app.start(order.options(id="order-1"), "go")
            assert "orders.py:9 in order" in worker.until("worker.exits")
            assert worker.status() == 70


PIPELINE = """
import os
from onward import App, Pipeline

app = App(os.environ["ORDERS_STORE"])
orders = Pipeline("orders")
placed = orders.topic("order.placed", str)


@orders.producer(every="1s", publishes=[placed])
async def poll(ctx, cursor: int | None) -> int:
    ctx.publish(placed, "tea", id=f"order-{cursor or 0}")
    return (cursor or 0) + 1


@orders.consumer(subscribes=[placed]{options})
class Ship:
    async def prepare(self, ctx, state):
        from onward.pipelines import Prepared

        return Prepared(reserve=await ctx.peek(placed))
"""


async def test_a_module_with_nothing_but_a_pipeline_is_served(tmp_path: Path, url: str) -> None:
    (tmp_path / "orders.py").write_text(PIPELINE.replace("{options}", ""))
    with WorkerProcess(tmp_path, "orders", ORDERS_STORE=url) as worker:
        worker.until("worker.ready")
        async with App(url) as app:

            async def is_consumed() -> bool:
                return (await app.topics.counts("order.placed"))["orders.Ship"]["consumed"] > 0

            await until(is_consumed, SLOW)
        worker.send(signal.SIGTERM)
        assert worker.status() == 0


def test_a_worker_with_a_wrong_pipeline_ends_with_all_its_problems(tmp_path: Path) -> None:
    broken = PIPELINE.replace("{options}", ", publishes=[placed]").replace('every="1s"', 'every=""')
    (tmp_path / "orders.py").write_text(broken)
    with WorkerProcess(tmp_path, "orders", ORDERS_STORE=str(tmp_path / "orders.db")) as worker:
        assert worker.status() == 2
    said = "".join(worker.log)
    assert "the pipelines of this process have 2 problems:" in said
    assert "- producer 'orders.poll': duration ''" in said
    assert "- consumer 'orders.Ship' has publishes= but no next method" in said
