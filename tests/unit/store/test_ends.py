"""What a run that ends tells others, and how it is read back."""

from __future__ import annotations

import pytest

from onward.core.inbox import MessageKind
from onward.core.run import PAUSES
from onward.model.ends import child_end, read_child_end, to_children, to_overdue, to_parent
from onward.model.messages import UNSTARTED, wakes_for


@pytest.mark.parametrize(
    ("given", "read"),
    [
        (("succeeded", None, b"j42", None), ("succeeded", None, b"j42")),
        (("succeeded", None, b"", None), ("succeeded", None, b"")),
        (("failed", "logic", None, b"jboom"), ("failed", "logic", b"jboom")),
        (("cancelled", "forced", None, None), ("cancelled", "forced", b"")),
        (("succeeded", "continued", b"a\nb\n\nc", None), ("succeeded", "continued", b"a\nb\n\nc")),
        (("failed", None, None, bytes(range(256))), ("failed", None, bytes(range(256)))),
    ],
)
def test_an_end_is_read_back_as_it_was(
    given: tuple[str, str | None, bytes | None, bytes | None], read: tuple[str, str | None, bytes]
) -> None:
    assert read_child_end(child_end(*given)) == read


def test_a_parent_is_told_once_for_each_call() -> None:
    message = to_parent("parent", ":greet#1", b"end")

    assert message[:5] == ("parent", "child :greet#1", "child", ":greet#1", b"end")


def test_children_and_overdue_runs_are_told_to_stop() -> None:
    [child] = to_children(["child"])

    assert child[:5] == ("child", "cancel", "cancel", "parent", None)
    assert to_overdue("late")[:5] == ("late", "deadline", "cancel", "deadline", None)
    assert child.wakes == to_overdue("late").wakes == wakes_for(MessageKind.CANCEL)


def test_a_cancel_stirs_every_pause_and_what_never_began() -> None:
    text = wakes_for(MessageKind.CANCEL)

    assert all(f",{reason}," in text for reason in PAUSES)
    assert UNSTARTED in text
    assert not any(UNSTARTED in wakes_for(kind) for kind in set(MessageKind) - {MessageKind.CANCEL})
    assert wakes_for(MessageKind.SIGNAL) == ""
