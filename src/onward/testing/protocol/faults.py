"""What a server does wrong on demand, and what it knows of one stream."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onward.testing.protocol.commit_log import SentCommit

MAX_COMMITS = 64


@dataclass
class Faults:
    """What the server does wrong, or does not do. Kinds are names of requests."""

    held: set[str] = field(default_factory=set)
    """Answers of these kinds are kept, until `Server.let_go`."""
    dropped: Counter[str] = field(default_factory=Counter)
    """How many answers of a kind are lost."""
    problems: dict[str, list[Any]] = field(default_factory=dict)
    """Problems with which the next requests of a kind are answered."""
    refused: list[str] = field(default_factory=list)
    """Runs of which the next commit is refused."""
    is_lease_lost: bool = False
    lost_on_reconnect: list[str] = field(default_factory=list)
    sends_twice: bool = False
    sends_unknown: bool = False
    in_parts: bool = False
    omits_payloads: bool = False
    max_commits: int = MAX_COMMITS


class PlayedStream:
    """One stream of the worker."""

    def __init__(self) -> None:
        self.out: asyncio.Queue[Any] = asyncio.Queue()
        self.ids: set[int] = set()
        self.claim: Any = None
        """The claim without an answer."""
        self.is_cut = False
        self.max_commits = MAX_COMMITS
        self.numbers: list[int] = []
        """The numbers of the commits that came, in order."""
        self.commits: list[SentCommit] = []
        """These commits."""
        self.hello: Any = None
        self.heard: list[float] = []
        """When requests came."""
