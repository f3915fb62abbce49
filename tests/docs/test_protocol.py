"""The page on the worker protocol says what the code does: its rules, vectors and frames."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format

from onward.codec import decode_error, encode, fingerprint, read_error
from onward.core.chain import child_origin
from onward.core.digest import digest
from onward.core.replay import LateStart, delayed_by, escaped, is_late
from onward.engine.payloads import unpack
from onward.model.ends import child_end
from onward.runtime.body.children import child_uid
from onward.testing.protocol import RULES, SCENARIOS
from onward.wire.messages import messages
from tests.docs.pages import ROOT, fences

PAGE = ROOT / "docs" / "protocol.md"
VECTORS, FRAMES = [json.loads(each.text) for each in fences(PAGE) if each.language == "json"]


def test_every_rule_of_the_tester_is_on_the_page_and_no_other() -> None:
    named = re.findall(r"\*\*([a-z-]+)\.\*\*", PAGE.read_text())
    assert sorted(named) == sorted(RULES)


def test_the_fingerprints_are_those_of_the_code() -> None:
    for each in VECTORS["fingerprints"]:
        assert fingerprint(encode(each["value"])) == each["fingerprint"]


def test_the_identities_and_ids_are_those_of_the_code() -> None:
    for each in VECTORS["escapes"]:
        assert escaped(each["text"]) == each["escaped"]
    for each in VECTORS["digests"]:
        assert digest(*each["parts"]) == each["digest"]
    for each in VECTORS["child_uids"]:
        assert child_uid(each["parent"], each["identity"], each["asked_at"]) == each["uid"]
    for each in VECTORS["origins"]:
        assert child_origin(each["parent"], each["identity"]) == each["origin"]


def test_the_errors_can_be_read() -> None:
    for each in VECTORS["errors"]:
        payload = unpack(each["payload"].encode())
        assert read_error(payload).type == each["type"]
        assert read_error(payload).message == each["message"]
        assert isinstance(decode_error(payload), Exception)


def test_the_rules_of_clock_records_are_those_of_the_code() -> None:
    for each in VECTORS["clock_records"]:
        given = each["delay"], each["since"], each["now"]
        assert is_late(*given, is_replayed=each["is_replayed"]) is each["late"]
    for each in VECTORS["clock_delays"]:
        start = LateStart(each["since"], each["is_replayed"])
        later = delayed_by(start, each["at"], each["asked"], is_limit=each["is_timeout"])
        assert later == each["later"], each


def test_the_ends_of_children_are_those_of_the_code() -> None:
    for each in VECTORS["child_ends"]:
        end = child_end(each["state"], each["reason"], None, each["data"].encode())
        assert end.decode() == each["payload"]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: frame["hex"][:12])
def test_a_frame_has_the_bytes_on_the_page(frame: dict[str, Any]) -> None:
    kind = getattr(messages, frame["type"])
    message = json_format.ParseDict(frame["message"], kind())
    assert message.SerializeToString(deterministic=True).hex() == frame["hex"]
    assert kind.FromString(bytes.fromhex(frame["hex"])) == message


def test_every_scenario_starts_only_what_the_page_describes() -> None:
    source = "".join(
        path.read_text()
        for path in (ROOT / "src" / "onward" / "testing" / "protocol").rglob("*.py")
    )
    started = set(re.findall(r"""start\(\s*"(?:step )?(\w+)\"""", source))
    described = set(re.findall(r"`(\w+)\(", PAGE.read_text()))
    assert started <= described
    assert len(SCENARIOS) > len(started)


def test_the_page_is_named_by_the_contract() -> None:
    proto = Path(ROOT / "src" / "onward" / "wire" / "proto" / "onward" / "v1" / "worker.proto")
    assert "docs/protocol.md" in proto.read_text()
