"""What the annotations of the engine's interfaces refer to, for reading them at run time.

The modules of the interfaces import these names for the type checker only, so that `import onward`
stays quick and free of cycles.
"""

from __future__ import annotations

import collections.abc
import datetime
from typing import Any

from onward import codec
from onward.core import bulk as core_bulk
from onward.core import effect, flow, instant, retention
from onward.engine import (
    client_engine,
    clock,
    doctor,
    effect_views,
    flows,
    health_findings,
    open_runs,
    pipeline_engine,
    schedule_engine,
    search,
    sending,
    stats,
    views,
    workers,
)
from onward.engine.pipelines import views as pipeline_views
from onward.engine.schedules import views as schedule_views
from onward.model import (
    bulk,
    claims,
    commits,
    effects,
    following,
    health,
    messages,
    pipelines,
    records,
    run_filter,
    runs,
    schedules,
)
from onward.model import flow as model_flow
from onward.model import retention as model_retention
from onward.model import workers as model_workers
from onward.store import invariants

_MODULES = (
    collections.abc, datetime, codec, core_bulk, effect, flow, instant, retention, client_engine,
    clock, doctor, effect_views, flows, health_findings, open_runs, pipeline_engine,
    schedule_engine, search, sending, stats, views, workers, pipeline_views, schedule_views, bulk,
    claims, commits, effects, following, health, messages, pipelines, records, run_filter, runs,
    schedules, model_flow, model_retention, model_workers, invariants,
)  # fmt: skip

NAMES: dict[str, Any] = {
    name: value
    for module in _MODULES
    for name, value in vars(module).items()
    if not name.startswith("_") and not isinstance(value, type(module))
}
