"""The database of a simulated world, and each process's line to it.

There is one SQLite database in memory, worked on in this thread. A process reaches it by a line
that takes its time in both directions: a request is carried out later than it is sent, and answered
later than it is carried out. An answer may get lost; then the request is sent again, whole, as the
driver of a real database does. A process that dies in between gets no answer; what it had sent but
was not carried out yet never will be. Hints are carried along the same lines: late, or not at all.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.errors import StoreUnusable, Unavailable
from onward.store.address import SqliteAddress
from onward.store.hints import HintBus, HintBuses
from onward.store.sqlite.database import File, SqliteDatabase
from onward.store.store import Store
from tests.simulation.simulator.times import ServerTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onward.core.ports import Clock, Randomness
    from onward.store.sqlite.clock import FileClock
    from onward.store.sqlite.threads import Work
    from onward.testing.clock import VirtualClock
    from tests.simulation.simulator.draw import Draw
    from tests.simulation.simulator.process import Process

NAMESPACE = "simulated"


@dataclass(frozen=True, slots=True)
class Weather:
    """How good the lines are."""

    delay: float
    """The most seconds that a request, an answer or a hint takes."""
    hints_lost: float
    """How many of the hints get lost."""
    answers_lost: float
    """How many of the answers get lost."""
    clears: float
    """After how many seconds no answer gets lost any more."""


class Memory:
    """The one database, and everybody who has a line to it.

    Args:
        clock: The time of the database.
        weather: How good the lines are.
        draw: Decides how long each thing takes.
        witness: Sees the owner of every transaction, before anything else happens.
        is_server: Whether its time goes back when the clock is put back.
    """

    def __init__(
        self,
        clock: VirtualClock,
        weather: Weather,
        draw: Draw,
        witness: Callable[[Process], None],
        *,
        is_server: bool = False,
    ) -> None:
        self.file = _Server(clock) if is_server else File(None, clock, None)
        self.is_away = False
        """Whether the database cannot be reached by any process."""
        self.is_refusing = False
        """Whether the database turns everybody away."""
        self._weather = weather
        self._draw = draw
        self._witness = witness
        self._lines: list[Line] = []

    def store(self, process: Process, clock: Clock, randomness: Randomness) -> Store:
        """Return a store in a process, with a line of its own."""
        line = Line(self, process)
        self._lines.append(line)
        database = SqliteDatabase(SqliteAddress(None), NAMESPACE, clock, None, line)
        return Store(database, NAMESPACE, clock, randomness)

    def line_of(self, process: Process) -> Line:
        """Return the line of a process."""
        return next(line for line in self._lines if line.process is process)

    @property
    def changes(self) -> int:
        """How many rows were ever changed."""
        session: Any = self.file.writer
        changes: int = session._session._connection.total_changes
        return changes

    def ask(self, work: Work) -> Any:
        """Let the world itself look at the database, at once and unseen."""
        return self.file.writer.submit(work, NAMESPACE).result()

    def carry_out(self, process: Process, work: Work, namespace: str) -> Future[Any]:
        """Do what a process asks for, in a transaction."""
        if self.is_away or self.is_refusing:
            answer: Future[Any] = Future()
            answer.set_exception(_refusal() if self.is_refusing else _absence())
            return answer
        answer = self.file.writer.submit(work, namespace)
        self._witness(process)
        return answer

    def spread(self, subjects: Iterable[str]) -> None:
        """Carry hints to everybody; each line may lose them."""
        rung = sorted(subjects)
        for line in self._lines:
            if line.process.is_dead or self._draw.happens(self._weather.hints_lost):
                continue
            hear = line.rumours.hear
            _loop().call_later(self.delay(), hear, rung, context=line.process.context.copy())

    def delay(self) -> float:
        """Return how long the next thing takes on its way."""
        return self._draw.upto(self._weather.delay)

    def loses_answer(self) -> bool:
        """Say whether the next answer gets lost on its way."""
        weather = self._weather
        return _loop().time() < weather.clears and self._draw.happens(weather.answers_lost)

    def close(self) -> None:
        """Let go of the database."""
        self.file.close()


class _Server(File):
    """A database with a clock of its own, which goes back when it is set back."""

    def __init__(self, clock: VirtualClock) -> None:
        self._server_time = ServerTime(clock)
        super().__init__(None, clock, None)

    @property
    def time(self) -> FileClock:
        """Its time, and not that of a file."""
        return self._server_time

    @time.setter
    def time(self, _: FileClock) -> None:
        """Do nothing: its time is its own."""


class Line(File):
    """The database file as one process sees it: what SQLite does with threads, done with time."""

    def __init__(self, memory: Memory, process: Process) -> None:
        shared = memory.file
        self.path = None
        self.where = shared.where
        self.pid = shared.pid
        self.users = 1  # never closed by a process: the database outlives them all
        self.rumours = Rumours(memory)
        self.hints = HintBuses(lambda: self.rumours)
        self.time = shared.time
        self.locks = None
        self.statements = shared.statements
        self.readers = []
        self.writer = self
        self.process = process
        self._memory = memory

    def submit(self, work: Work, namespace: str) -> Future[Any]:
        """Send a request and return the future of its answer."""
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()
        _loop().call_later(self._memory.delay(), self._arrive, work, namespace, answer)
        self.process.at_send()
        return answer

    def submit_once(self, work: Work, namespace: str) -> Future[Any]:
        """Send a request that is never sent again: the driver of a caller does not repeat it."""
        answer: Future[Any] = Future()
        answer.set_running_or_notify_cancel()
        _loop().call_later(self._memory.delay(), self._arrive_once, work, namespace, answer)
        return answer

    def _arrive_once(self, work: Work, namespace: str, answer: Future[Any]) -> None:
        done = self._memory.carry_out(self.process, work, namespace)
        _loop().call_later(self._memory.delay(), _reply, done, answer)

    def _arrive(self, work: Work, namespace: str, answer: Future[Any]) -> None:
        done = self._memory.carry_out(self.process, work, namespace)
        if self._memory.loses_answer():
            _loop().call_later(self._memory.delay(), self._arrive, work, namespace, answer)
        else:
            _loop().call_later(self._memory.delay(), _reply, done, answer)

    def close(self) -> None:
        """Do nothing: others use it too."""


class Rumours(HintBus):
    """Where the hints of one process come from and go to."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._memory = memory

    def ring(self, subjects: Iterable[str]) -> None:
        """Tell everybody, as far as the lines let it through."""
        self._memory.spread(subjects)

    def hear(self, subjects: Iterable[str]) -> None:
        """Tell those who listen in this process."""
        super().publish(subjects)


def _absence() -> Unavailable:
    return Unavailable("the simulated database", "is away")


def _refusal() -> StoreUnusable:
    return StoreUnusable("the simulated database", "takes no logins", "Wait for an operator")


def _reply(done: Future[Any], answer: Future[Any]) -> None:
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    else:
        answer.set_exception(error)


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()
