"""A worker with a workflow's run and a consumer's run, and writes that it may make."""

from __future__ import annotations

from onward.core.effect.keys import consumer_origin, effect_key
from onward.core.ids import uid7
from onward.engine.frame_checks import FrameFacts, FrameLimits, HeldRun, KnownEvent, KnownWorker
from onward.model.effects import EffectWrite
from onward.model.pipelines import Completion, PipelineWrite, Preparation, Reservation
from onward.model.records import NewRecord
from onward.model.runs import NewRun, RunOwner

RUN, CONSUMER, STRANGER = uid7(1_000, 1), uid7(1_000, 2), uid7(1_000, 3)
PARENT, ROOT, CHILD = uid7(1_000, 4), uid7(1_000, 5), uid7(1_000, 6)
EVENT, INPUT = uid7(1_000, 7), uid7(1_000, 8)
HANDLER, HANDLER_KEY = "mail.add_row", "ada"

HELD = HeldRun(RUN, 3, "workflow", PARENT, "child#1", ROOT)
HELD_CONSUMER = HeldRun(CONSUMER, 1, "consumer", handler=HANDLER, handler_key=HANDLER_KEY)
LIMITS = FrameLimits(payload_bytes=1000, commit_bytes=5000, rows=10, text_chars=900)
WORKER = KnownWorker("w1", frozenset({"default"}), {RUN: HELD, CONSUMER: HELD_CONSUMER}, LIMITS)
OWNER = RunOwner("w1", RUN, 3)
CONSUMER_OWNER = RunOwner("w1", CONSUMER, 1)

RECORD = NewRecord(RUN, "step#1", 1, 1, "step", "step", "succeeded", "hash", payload=b"j1")
START = NewRun(
    CHILD,
    "order-7",
    "buy",
    b"j[]",
    "hash",
    parent=RUN,
    parent_identity="child#2",
    root=ROOT,
)
EFFECT = EffectWrite(
    effect_key(RUN, "charge#1"),
    RUN,
    "charge#1",
    "charge",
    "Charge Ada",
    b"j[5]",
    "hash",
    "in_flight",
    1,
    attempt=1,
)
ORIGIN = consumer_origin(HANDLER, HANDLER_KEY, [(EVENT, 2)])
PREPARED = PipelineWrite(
    HANDLER, HANDLER_KEY, prepared=Preparation((Reservation(EVENT, 1),), 7, None, ORIGIN)
)
COMPLETED = PipelineWrite(
    HANDLER, HANDLER_KEY, completed=Completion(saves_state=True, state=b"j1", state_version=2)
)
FACTS = FrameFacts(events={EVENT: KnownEvent(1, 2)})
