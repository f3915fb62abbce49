"""The rules for workers, by name. `docs/protocol.md` explains each of them under the same name."""

from __future__ import annotations

from dataclasses import dataclass

RULES = {
    "hello-first": "The first request on a stream is Hello, with the id 1 and protocol 1.",
    "registration": "Hello names the worker, its queues, its slots and the runs that it takes.",
    "request-ids": "Each request that expects an answer has its own id, which is not 0.",
    "ping": "A worker sends a ping at least every 10 seconds.",
    "renew": "A worker renews its lease at least three times per lease, even while busy.",
    "one-claim": (
        "A worker has at most one unanswered claim, for no more runs than it has free slots."
    ),
    "load-first": "A worker loads the history and inbox of a run that was executed before.",
    "own-runs": "A worker writes only to runs that it has claimed, with the fence of the claim.",
    "commit-numbers": "Commit numbers increase, and no two commits share a number.",
    "max-commits": "At most `max_commits` commits are unanswered.",
    "positions": "Each outcome takes the next position in the history, without gaps.",
    "closed-once": "A call that has an outcome in history is never recorded again.",
    "identities": "Each call of a run has its own identity, the same in every replay.",
    "record-first": "Code receives an outcome only after the outcome has been written.",
    "replay": "A call with a recorded outcome is not executed again; code receives that outcome.",
    "divergence": "A run whose code does not match its history pauses, and writes nothing else.",
    "payloads": "Payloads are JSON with the prefix `json:`.",
    "errors": "Errors are JSON objects with `type` and `message`.",
    "fingerprints": "`args_hash` is the fingerprint of the arguments.",
    "waits-when-parked": "Timers and signal waits are written as open only when the run parks.",
    "park": "A run that has nothing in progress parks; the worker does not keep it.",
    "park-due": "A parked run is due when the first of its waits is.",
    "seen": "A move that parks or pauses a run says which messages the run has seen.",
    "busy": "After `busy`, a run reads the new messages, handles them, and then parks again.",
    "move-position": "A move names the last position in the history.",
    "signals": (
        "A signal ends the oldest wait for its name, once. The record contains the message number."
    ),
    "clock-records": "If a worker is late, a wait or a cleanup is measured from a clock record.",
    "timeouts": "A wait that gets no message in time ends as `timed_out`.",
    "children": "The commit that records a child as open also starts it, and names its parent.",
    "child-ends": "The message about a child's end closes the call, with a result or an error.",
    "retries": "A failed attempt is recorded without a position; the next one has the next number.",
    "ends": "A run ends with a result, or with a reason and an error.",
    "crashes": "The first commit of a run resets its crash count; a run with five crashes fails.",
    "cancel": "A cancel is recorded, the code may clean up, and the run ends as cancelled.",
    "pauses": "A held run starts nothing new, and pauses when nothing is in progress.",
    "news": "After news of a run, a worker reads the run's inbox, or drops the run if it was lost.",
    "lost": "After the fate `lost`, nothing more is written to the run with that fence.",
    "refused": "A refused commit is not sent again; its run ends or is dropped.",
    "reconnect": "After a broken stream a worker reconnects with its id, runs and fences.",
    "resend": "Unanswered requests are resent, unchanged and in order; nothing else is resent.",
    "lost-claims": "After an unanswered claim, an audit lists the runs that the worker knows.",
    "lease-lost": "A worker without a lease forgets its runs and joins under a new id.",
    "duplicates": "A duplicate answer has no effect.",
    "unknown-fields": "Fields and responses that a worker does not know are ignored.",
    "parts": "A reply in parts is complete with its last part.",
    "problems": "A request that fails with a retryable problem is repeated later.",
    "progress": "The last progress value is written no later than the end of the run.",
    "drain": "A draining worker stops claiming, releases its runs, leaves, and exits.",
}
"""What a worker must do, and what the tester checks."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a worker broke, in which scenario, and what was seen."""

    rule: str
    scenario: str
    seen: str

    def __str__(self) -> str:
        return f"{self.rule} (in {self.scenario}): {RULES[self.rule]} Seen: {self.seen}."


class RuleBroken(Exception):
    """Ends a scenario: a worker broke a rule."""

    def __init__(self, rule: str, seen: str) -> None:
        super().__init__(seen)
        assert rule in RULES, rule
        self.rule = rule
        self.seen = seen
