"""The contract of the wire covers the interfaces of the engine, and core's words."""

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onward.core.inbox import MessageKind
from onward.core.lease import Fate
from onward.core.replay import RecordKind, RecordState
from onward.core.run import RunState
from onward.engine.client_engine import ClientEngine
from onward.engine.pipeline_engine import PipelineEngine
from onward.engine.schedule_engine import ScheduleEngine
from onward.engine.worker_engine import WorkerEngine
from onward.wire.messages import DESCRIPTORS, messages
from onward.wire.methods import METHODS
from onward.wire.operations import BATCHES, NOT_REMOTE, OPERATIONS
from onward.wire.remote_client import RemoteClient, RemotePipelines, RemoteSchedules
from onward.wire.remote_worker import RemoteWorker

ROOT = Path(__file__).parents[3]
PROTO = "".join(path.read_text() for path in (DESCRIPTORS.parent / "onward" / "v1").iterdir())


def methods_of(interface: type) -> dict[str, Any]:
    return {
        name: function
        for name, function in inspect.getmembers(interface, inspect.isfunction)
        if not name.startswith("_")
    }


def test_the_descriptor_set_matches_the_proto_files() -> None:
    command = [sys.executable, str(ROOT / "tools" / "compile_protos.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_call_of_a_worker_is_a_request_or_is_made_by_the_worker_itself() -> None:
    itself = {
        "claim", "disconnect", "flush", "join", "load", "maintain", "next_due", "renewer",
        "submit", "wait", "wake",
    }  # fmt: skip
    assert methods_of(WorkerEngine).keys() - itself == METHODS.keys()


def test_every_request_and_every_response_has_a_name_that_the_other_has() -> None:
    requests = {field.name for field in messages.Request.DESCRIPTOR.oneofs[0].fields}
    responses = {field.name for field in messages.Response.DESCRIPTOR.oneofs[0].fields}
    assert responses - requests == {"problem", "news", "goodbye"}
    assert requests - responses == set()
    assert requests - METHODS.keys() == {"hello", "claim", "commits", "load", "ping"}


def test_every_call_of_a_client_is_an_operation_or_is_made_by_the_client_itself() -> None:
    named = {name for name in OPERATIONS if "." not in name}
    assert methods_of(ClientEngine).keys() - NOT_REMOTE == named
    for group, interface in (("schedules", ScheduleEngine), ("pipelines", PipelineEngine)):
        named = {each.method for each in OPERATIONS.values() if each.group == group}
        assert methods_of(interface).keys() == named


def test_every_operation_has_a_scope() -> None:
    assert all(re.fullmatch(r"[a-z]+:[a-z]+", each.scope) for each in OPERATIONS.values())


def test_many_starts_and_many_signals_are_one_call_each() -> None:
    assert {name: batch.each.name for name, batch in BATCHES.items()} == {
        "start_many": "start",
        "signal_many": "signal",
    }


@pytest.mark.parametrize(
    ("remote", "interface"),
    [
        (RemoteWorker, WorkerEngine),
        (RemoteClient, ClientEngine),
        (RemoteSchedules, ScheduleEngine),
        (RemotePipelines, PipelineEngine),
    ],
)
def test_a_remote_engine_has_every_method_of_its_interface(remote: type, interface: type) -> None:
    inherited = [
        name
        for name, declared in methods_of(interface).items()
        if getattr(remote, name) is declared
    ]
    assert inherited == []


def words(place: str) -> set[str]:
    """Return the words that a comment of the .proto files lists after a field."""
    [comment] = re.findall(rf"{place} = \d+; +// ([a-z_, ]+)", PROTO)
    return set(comment.replace(" or empty", "").replace(",", "").split())


def test_the_fates_of_a_commit_are_those_of_the_core() -> None:
    assert {"done", "busy", "lost"} == {fate.value for fate in Fate}


@pytest.mark.parametrize("words", [RunState, RecordKind, RecordState, MessageKind, Fate])
def test_words_cross_as_what_they_are_in_the_database(words: Any) -> None:
    assert all(str(word) == word.value == word.value.lower() for word in words)
