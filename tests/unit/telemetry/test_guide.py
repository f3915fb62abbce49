"""The guide lists every log record and every metric there is, and none that is not."""

from __future__ import annotations

import inspect
import logging
import re
from pathlib import Path

import pytest

from onward.core.run import RunState
from onward.telemetry.attention import CALLING, MAX_WAITING
from onward.telemetry.events import EVENTS
from onward.telemetry.metrics import METRICS, Metrics

GUIDE = (Path(__file__).parents[3] / "docs" / "guides" / "telemetry.md").read_text()


def test_the_guide_lists_every_event_with_its_logger_and_level() -> None:
    listed = re.findall(r"^\| `(\w+\.\w+)` \| `([\w.]+)` \| (\w+) \|", GUIDE, re.MULTILINE)
    known = [
        (name, event.logger.name, logging.getLevelName(event.level))
        for name, event in EVENTS.items()
    ]
    assert listed == known


def test_the_guide_lists_every_metric() -> None:
    section = GUIDE.partition("## Metrics")[2].partition("## Prometheus")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == METRICS


@pytest.mark.parametrize("name", METRICS)
def test_the_guide_says_what_a_metric_is_told(name: str) -> None:
    [told] = re.findall(rf"^\| `{name}` \| (.+) \|$", GUIDE, re.MULTILINE)
    parameters = list(inspect.signature(getattr(Metrics, name)).parameters)[1:]
    assert [part.split()[0] for part in told.split(", ")] == parameters


def test_the_guide_names_what_a_human_is_called_for() -> None:
    section = GUIDE.partition("## When a run needs a human")[2]
    named = set(re.findall(r"`(\w+)`", section.partition("```")[0]))
    wanted = {reason.value for reasons in CALLING.values() for reason in reasons}
    assert wanted <= named
    assert not named & {"transient", "operator", "logic"}
    assert f"{MAX_WAITING:,}" in section


def test_the_guide_says_how_a_run_that_waits_for_a_human_is_found() -> None:
    assert f'app.runs(state="{RunState.PAUSED}")' in GUIDE
