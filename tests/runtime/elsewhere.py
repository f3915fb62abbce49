"""Plays a body of `test_schedules` in a process of its own: histories in, rows and results out."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from tests.runtime.stage import Stage, as_json, from_json
from tests.runtime.test_schedules import BODIES

if TYPE_CHECKING:
    from onward.model.records import RecordRow


def main() -> None:
    json.dump(
        [played([from_json(cells) for cells in each]) for each in json.load(sys.stdin)], sys.stdout
    )


def played(history: list[RecordRow]) -> dict[str, Any]:
    story = Stage(BODIES[sys.argv[2]], int(sys.argv[1]), history).play()
    return {
        "rows": [as_json(row) for row in story.rows],
        "performed": story.performed,
        "state": story.state,
        "result": story.result,
    }


if __name__ == "__main__":
    main()
