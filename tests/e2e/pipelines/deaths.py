"""Workers die around the commits of each phase of a consumer, and another one finishes."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from onward import App
from onward.store import open_store
from onward.store.invariants import check
from tests.e2e.effects.kills import pending
from tests.e2e.engine.supervisor import PATIENCE_SECONDS
from tests.e2e.engine.sweep import killed
from tests.e2e.pipelines.auditor import EVENTS, PHASES, Auditor
from tests.e2e.pipelines.letters import letters, posted, written
from tests.kit.watching import until

if TYPE_CHECKING:
    from tests.e2e.effects.sink import Sink
    from tests.e2e.engine.supervisor import Crew

SERVING = ("--lease", "1", "--pipelines", letters.name)
AT_A_TIME = 4


class Death(NamedTuple):
    """A worker dies at a failpoint: the first pass after the code of a phase began."""

    phase: str
    point: str


DEATHS = (
    *(Death("prepare", point) for point in ("step.after", "commit.before", "commit.after")),
    *(Death("mutate", f"effect.{place}") for place in ("before", "intended", "replied", "settled")),
    *(Death("effect", point) for point in ("commit.before", "commit.after")),
    *(Death("next", point) for point in ("step.after", "commit.before", "commit.after")),
)


async def die_around_commits(crew: Crew, sink: Sink) -> set[str | None]:
    """Let a worker die in each of these ways, then one that lives handle all events.

    Returns:
        The phases in which they left runs behind.
    """
    left: set[str | None] = set()
    auditor = Auditor(crew.url)
    async with open_store(crew.url) as store, App(crew.url) as app:
        await app.pipelines.declare(letters)
        names: list[str] = []
        for first in range(0, len(DEATHS), AT_A_TIME):
            doomed = []
            for death in DEATHS[first : first + AT_A_TIME]:
                names.append(f"letter-{len(names)}")
                await app.publish(written, "a letter", id=names[-1], key=names[-1])
                options = ("--slots", "1", "--death", death.phase, death.point)
                doomed.append((crew.launch(*SERVING, *options), death))
            for worker, death in doomed:
                await killed(worker, f"{death.phase}, {death.point}")
                held = await auditor.runs_of(worker.pid)
                left |= {phase for uid, phase in await auditor.fetch(PHASES) if uid in held}
            await auditor.sample()
            assert await check(store) == []
        await crew.worker(*SERVING)
        await until(auditor.is_idle, PATIENCE_SECONDS, 0.05)
        assert await check(store) == []
        assert await pending(app) == []
        await _compare(auditor, app, sink, names)
    return left


async def _compare(auditor: Auditor, app: App, sink: Sink, names: list[str]) -> None:
    """Hold the ends against the sink, and against what was published."""
    assert sorted(entry.order for entry in sink.entries("applied")) == sorted(names)
    for key, times in sink.count("sent").items():
        assert times <= (await app.effects.get(key)).attempt
    rows = await auditor.fetch(EVENTS)
    assert sorted(event for topic, event in rows if topic == posted.name) == sorted(names)
