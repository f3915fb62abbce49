"""Errors about pipelines and their topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from onward.errors.root import UserError, closed


@dataclass(eq=False, repr=False)
class BadPipeline(UserError, ValueError):
    """A pipeline is declared incorrectly; nothing was started. The message lists all problems."""

    code: ClassVar[str] = "bad_pipeline"
    problems: tuple[str, ...]

    def __str__(self) -> str:
        listed = [closed(problem) for problem in self.problems]
        if len(listed) == 1:
            return listed[0]
        return "\n- ".join([f"the pipelines of this process have {len(listed)} problems:", *listed])


@dataclass(eq=False, repr=False)
class TopicFull(UserError):
    """A topic is full. Publish again when its consumers have caught up, or raise its limit."""

    code: ClassVar[str] = "topic_full"
    topic: str
    fact: str

    def __str__(self) -> str:
        return (
            f"topic {self.topic!r} is full: {closed(self.fact)} "
            "Publish again when its consumers have caught up, or raise its limit."
        )


@dataclass(eq=False, repr=False)
class PipelineBlocked(UserError):
    """The state of a pipeline, an event or an input does not allow the call."""

    code: ClassVar[str] = "pipeline_blocked"
    what: str
    fact: str
    advice: str

    def __str__(self) -> str:
        return f"{self.what} {closed(self.fact)} {closed(self.advice)}"
