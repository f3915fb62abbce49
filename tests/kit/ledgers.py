"""Waits for states of effects, and lists what the ledger has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.kit.watching import until

if TYPE_CHECKING:
    import pytest

    from onward import App, Run
    from onward.model.commits import Answered, Commit, CommitOutcome
    from onward.runtime.worker.session import WorkerSession
    from onward.sdk.effects import EffectInfo


async def effect_of(app: App, run: Run[Any], *states: str, name: str | None = None) -> EffectInfo:
    """Wait until an effect of a run is in one of these states, and return it."""
    found: list[EffectInfo] = []

    async def there() -> bool:
        found[:] = [
            each
            for each in await app.effects.of(run.id)
            if each.state in states and name in (None, each.name)
        ]
        return bool(found)

    await until(there)
    return found[0]


async def states_of(app: App, run: Run[Any]) -> dict[str, str]:
    """Return the states of the effects of a run, by their names."""
    return {each.name: each.state for each in await app.effects.of(run.id)}


async def outcomes(run: Run[Any]) -> list[tuple[str, str]]:
    """Return name and state of what a run was handed, in order."""
    return [(row.name, row.state) for row in await run.history() if row.seq is not None]


def lose_run(patch: pytest.MonkeyPatch, worker: WorkerSession, state: str) -> list[str]:
    """Make a worker drop a run once an effect of it is in a state; return the run in a list."""
    commit = worker.commit
    lost: list[str] = []

    def then_lost(wish: Commit, then: Answered) -> None:
        def lose(answer: CommitOutcome | BaseException) -> None:
            worker.running[wish.run].drop()
            then(answer)

        if any(each.state == state for each in wish.attached.effects) and not lost:
            lost.append(wish.run)
            commit(wish, lose)
        else:
            commit(wish, then)

    patch.setattr(worker, "commit", then_lost)
    return lost
