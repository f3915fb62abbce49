"""Whatever happens in whatever order: a body has one identity map, and replays exactly."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onward import now, random, sleep, step, uuid
from onward.core.instant import HOUR
from tests.kit.pythons import makes_environments, pythons
from tests.runtime.stage import Stage, Story, as_json, from_json

if TYPE_CHECKING:
    from collections.abc import Callable

    from onward.model.records import RecordRow

SCHEDULES = 200
PATHS = os.pathsep.join(["src", "."])


@step
async def double(n: int) -> int:
    return n * 2


@step
async def fail(text: str) -> None:
    raise ValueError(text)


async def branch(n: int) -> int:
    first = await double(n)
    await asyncio.sleep(n % 3)
    return await double(first)


async def body() -> dict[str, Any]:
    """Use about everything that asyncio has for doing things at once."""
    found: dict[str, Any] = {}
    found["nested"] = await asyncio.gather(
        branch(1), asyncio.gather(branch(2), asyncio.gather(double(3), branch(4)))
    )
    async with asyncio.TaskGroup() as group:
        named = group.create_task(branch(5), name="named")
        plain = group.create_task(double(6))
    found["group"] = [named.result(), plain.result()]

    tasks = [asyncio.create_task(branch(n)) for n in (7, 8, 9)]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    assert done
    if pending:
        await asyncio.wait(pending)
    found["wait"] = [task.result() for task in tasks]

    racing = [asyncio.create_task(double(n)) for n in (10, 11, 12)]
    found["completed"] = sorted([await each for each in asyncio.as_completed(racing)])

    found["in time"] = await asyncio.wait_for(branch(13), 1000)
    try:
        await asyncio.wait_for(sleep("1h"), 5)
    except TimeoutError:
        found["too late"] = await double(14)
    async with asyncio.timeout(1000):
        found["timeout"] = await branch(15)
    results = await asyncio.gather(fail("on purpose"), double(16), return_exceptions=True)
    found["errors"] = [str(results[0]), results[1]]
    return found


EXPECTED = {
    "nested": [4, [8, [6, 16]]],
    "group": [20, 12],
    "wait": [28, 32, 36],
    "completed": [20, 22, 24],
    "in time": 52,
    "too late": 28,
    "timeout": 60,
    "errors": ["on purpose", 32],
}


@step
async def note(text: str) -> str:
    return text


async def clean_up(n: int) -> None:
    try:
        await sleep("1h")
    finally:
        await note(f"{n} {uuid()}")


async def feeding() -> list[str]:
    """Give steps what must be the same in every replay: time, draws, names and sets of tasks."""
    found = [await note(f"{now()} {uuid()} {random().random()}")]
    tasks = {asyncio.create_task(branch(n)) for n in range(6)}
    while tasks:
        done, tasks = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        found += [await note(f"{task.get_name()} {task.result()} {now()}") for task in done]
    done, _ = await asyncio.wait([asyncio.create_task(double(n)) for n in range(6)])
    found += [await note(f"{task.result()} {uuid()}") for task in done]
    with contextlib.suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for n in range(4):
                group.create_task(clean_up(n))
            await fail("on purpose")
    return [*found, await note(f"{now()} {uuid()} {random().random()}")]


async def giving_up() -> list[int]:
    """Give up calls with keys, at whatever moment, and ask for them again."""
    found = []
    for n in range(5):
        keyed = asyncio.create_task(double.options(key=str(n))(n))
        other = asyncio.create_task(double(10 + n))
        await asyncio.wait([keyed, other], return_when=asyncio.FIRST_COMPLETED)
        keyed.cancel()
        await asyncio.wait([keyed])
        found += [await double.options(key=str(n))(n), await other]
    return found


async def limited() -> list[int]:
    """Set limits around quick steps, which hold unless time passes in which nobody has the run."""
    found = []
    async with asyncio.timeout(60):
        for n in range(5):
            async with asyncio.timeout(3):
                found.append(await double(n))
            found.append(await asyncio.wait_for(double(n), 3))
            await note(f"{now()} {uuid()}")
    await asyncio.gather(*(asyncio.wait_for(double(n), 20) for n in range(4)))
    return found


BODIES = {"body": body, "feeding": feeding, "limited": limited, "giving_up": giving_up}


def outcomes(story: Story) -> dict[str, tuple[str, str | None, bytes | None]]:
    """Return what every identity stands for; when a timer went off is not part of it."""
    found = story.identities()
    return {identity: kept for identity, kept in found.items() if "sleep" not in identity}


def test_200_random_schedules_give_one_identity_map_and_one_result() -> None:
    first = Stage(body, seed=0).play()
    assert first.result == EXPECTED
    orders = set()

    for seed in range(1, SCHEDULES):
        story = Stage(body, seed).play()
        assert story.result == EXPECTED, f"seed {seed}"
        assert outcomes(story) == outcomes(first), f"seed {seed}"
        orders.add(tuple(row.identity for row in story.closed()))

    assert len(orders) > SCHEDULES / 2  # the schedules did differ


def test_a_call_with_a_key_that_is_given_up_and_asked_for_again_is_recorded_once() -> None:
    expected = [number for n in range(5) for number in (2 * n, 20 + 2 * n)]

    for seed in range(SCHEDULES):
        story = Stage(giving_up, seed).play()
        assert story.result == expected, f"seed {seed}"


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("seed", range(10))
def test_a_full_replay_runs_no_step_and_writes_nothing(seed: int, name: str) -> None:
    live = Stage(BODIES[name], seed).play()

    again = Stage(BODIES[name], seed + 1000, live.rows).play()

    assert again.performed == []
    assert again.result == live.result
    assert again.rows == live.rows


@pytest.mark.parametrize("seed", range(4))
def test_every_prefix_of_a_history_is_gone_on_with_to_the_same_calls_and_results(seed: int) -> None:
    live = Stage(body, seed).play()
    whole = live.closed()

    for length in range(len(whole)):
        kept = whole[:length]
        story = Stage(body, seed * 100 + length, kept).play()
        assert story.result == live.result, f"prefix of {length}"
        assert outcomes(story) == outcomes(live), f"prefix of {length}"
        assert story.closed()[:length] == kept
        assert not {row.identity for row in kept} & set(story.performed)


@pytest.mark.parametrize("seed", range(4))
def test_every_prefix_of_what_a_body_gave_to_steps_is_replayed_without_a_difference(
    seed: int,
) -> None:
    whole = Stage(feeding, seed).play().closed()

    for length in range(len(whole)):
        kept = whole[:length]
        story = Stage(feeding, seed * 100 + length, kept).play()
        assert story.state == "succeeded", f"prefix of {length}"
        assert story.closed()[:length] == kept
        assert not {row.identity for row in kept} & set(story.performed)


def crashing(play: Callable[..., Any], seed: int, history: list[RecordRow] | None = None) -> Story:
    """Play a body whose workers crash again and again, and are replaced up to an hour later."""
    return Stage(play, seed, history, crash=0.08, away=HOUR).play()


@pytest.mark.parametrize("name", ["feeding", "limited"])
@pytest.mark.parametrize("seed", range(20))
def test_a_run_whose_workers_crash_and_come_back_late_is_replayed_without_a_difference(
    seed: int, name: str
) -> None:
    live = crashing(BODIES[name], seed)
    assert live.state == "succeeded"

    again = Stage(BODIES[name], seed + 1000, live.rows).play()

    assert (again.state, again.performed, again.rows) == ("succeeded", [], live.rows)


def test_every_prefix_of_a_history_with_clock_records_is_gone_on_with() -> None:
    whole = crashing(limited, 5).closed()
    assert [row.kind for row in whole].count("clock") > 1

    for length in range(len(whole)):
        story = crashing(limited, length, whole[:length])
        assert story.state == "succeeded", f"prefix of {length}"
        assert story.closed()[:length] == whole[:length]


@pytest.mark.parametrize("name", ["body", "feeding", "limited"])
def test_each_step_is_done_once_however_often_the_run_is_evicted(name: str) -> None:
    story = Stage(BODIES[name], seed=3, evict=1.0).play()

    assert story.state == "succeeded"
    assert name != "body" or story.result == EXPECTED
    steps = [row.identity for row in story.closed() if row.kind == "step"]
    assert sorted(story.performed) == sorted(steps)


# --- other interpreters ---------------------------------------------------------------------------


@pytest.mark.parametrize("hash_seed", [0, 1, 42])
def test_the_seed_of_hashes_changes_nothing(hash_seed: int) -> None:
    live = Stage(body, seed=1).play()

    [story] = play_elsewhere(Path(sys.executable), 1, [[]], hash_seed)

    assert story.result == EXPECTED
    assert outcomes(story) == outcomes(live)


@makes_environments
def test_a_history_begun_on_the_oldest_python_here_ends_on_the_newest() -> None:
    oldest, *_, newest = [*pythons(), *pythons()]
    [live] = play_elsewhere(oldest, 7, [[]], 0)
    assert live.result == EXPECTED
    whole = live.closed()

    lengths = range(0, len(whole), 5)
    stories = play_elsewhere(newest, 8, [whole[:length] for length in lengths], 1)
    for length, story in zip(lengths, stories, strict=True):
        assert story.result == EXPECTED, f"prefix of {length}"
        assert outcomes(story) == outcomes(live), f"prefix of {length}"


@makes_environments
def test_all_pythons_here_name_the_same_calls() -> None:
    stories = [story for python in pythons() for story in play_elsewhere(python, 7, [[]], 0)]

    assert all(outcomes(story) == outcomes(stories[0]) for story in stories)


@makes_environments
def test_sets_of_tasks_have_one_order_on_all_pythons_here() -> None:
    oldest, *others = pythons()
    [live] = play_elsewhere(oldest, 7, [[]], 0, "feeding")

    for python in others:
        [again] = play_elsewhere(python, 8, [live.rows], 1, "feeding")
        assert (again.state, again.performed, again.rows) == ("succeeded", [], live.rows)


def play_elsewhere(
    python: Path, seed: int, histories: list[list[RecordRow]], hash_seed: int, name: str = "body"
) -> list[Story]:
    """Play a body after each history, in one process with another interpreter and hash seed."""
    done = subprocess.run(
        [python, "-m", "tests.runtime.elsewhere", str(seed), name],
        input=json.dumps([[as_json(row) for row in history] for history in histories]),
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "PYTHONHASHSEED": str(hash_seed),
            "PYTHONPATH": os.pathsep.join(["src", "."]),
        },
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr
    return [
        Story(
            [from_json(cells) for cells in told["rows"]],
            told["performed"],
            told["state"],
            told["result"],
        )
        for told in json.loads(done.stdout)
    ]
