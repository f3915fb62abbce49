"""Rows that a worker cannot understand, as a newer version or a careless hand leaves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.store.sqlite.connection import DIALECT
from tests.simulation.simulator.line import NAMESPACE

if TYPE_CHECKING:
    from tests.simulation.simulator.draw import Draw
    from tests.simulation.simulator.line import Memory
    from tests.simulation.simulator.process import Process
    from tests.simulation.simulator.witness import Witness

_RECORD = "UPDATE onward_record SET {} WHERE run = :run AND seq IS NOT NULL"
_RUN = "UPDATE onward_run SET {} WHERE uid = :run"
_DATA = "UPDATE onward_run_data SET {} WHERE uid = :run"
_INBOX = "UPDATE onward_inbox SET {} WHERE run = :run"
_STATEMENTS = {
    f"spoil_{number}": text.format(change)
    for number, (text, change) in enumerate(
        (
            (_RECORD, "kind = 'future'"),
            (_RECORD, "payload = x'676172626167'"),
            (_RECORD, "payload = x''"),
            (_RECORD, "seq = 1"),
            (_RECORD, "seq = seq + 5"),
            (_RECORD, "state = 'failed', error = x'676172626167'"),
            (_RECORD, "due = -5"),
            (_RUN, "kind = 'step'"),
            (_RUN, "kind = 'map'"),
            (_RUN, "kind = 'consumer'"),
            (_RUN, "deadline = 9223372036854775807"),
            (_DATA, "input = x'676172626167'"),
            (_DATA, "retry = 'garbage'"),
            (_DATA, "attributes = x'676172626167'"),
            (_DATA, "trace = 'garbage'"),
            (_INBOX, "kind = 'future'"),
            (_INBOX, "payload = x'676172626167'"),
            (_INBOX, "kind = 'cancel', name = 'sunspots'"),
            (_INBOX, "kind = 'cancel', payload = x'676172626167'"),
        )
    )
}


class Spoiler:
    """Spoils rows of runs, each in one way.

    Args:
        memory: The database.
        witness: Learns of it, as such a run may end in any way.
        world: The process that does it.
        draw: Decides in which way.
    """

    def __init__(self, memory: Memory, witness: Witness, world: Process, draw: Draw) -> None:
        self._memory = memory
        self._witness = witness
        self._world = world
        self._draw = draw
        for name, text in _STATEMENTS.items():
            memory.file.statements[name] = DIALECT.render(name, text)

    def spoil(self, uid: str) -> None:
        """Spoil a row of a run."""
        name = self._draw.one_of(tuple(_STATEMENTS))
        self._witness.spoil(uid)
        self._witness.tell(self._world, "spoil", uid, _STATEMENTS[name])
        self._memory.carry_out(self._world, lambda tx: tx.fetch(name, run=uid), NAMESPACE)
