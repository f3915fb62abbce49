"""What the crash tests of effects have: processes, and a sink."""

from __future__ import annotations

from tests.e2e.effects.conftest import crew, log, postgres_template, sink, url

__all__ = ["crew", "log", "postgres_template", "sink", "url"]
