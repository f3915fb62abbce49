"""What each phase of a handler may do: a context has the operations of its phase and no others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from onward.codec import check_id
from onward.core.digest import digest
from onward.core.instant import to_datetime
from onward.errors import BadInput
from onward.model.pipelines import NewEvent, NewInput
from onward.runtime.pipelines.values import Event, Input

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from datetime import datetime

    from onward.model.pipelines import PeekedEvent
    from onward.runtime.pipelines.ports import HandlerReads
    from onward.runtime.pipelines.values import Topic

T = TypeVar("T")

MAX_PEEK = 1000
