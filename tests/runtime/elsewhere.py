"""Plays a body of `test_schedules` in a process of its own: rows in, rows and result out."""

from __future__ import annotations

import json
import sys

from tests.runtime.stage import Stage, as_json, from_json
from tests.runtime.test_schedules import BODIES


def main() -> None:
    history = [from_json(cells) for cells in json.load(sys.stdin)]
    story = Stage(BODIES[sys.argv[2]], int(sys.argv[1]), history).play()
    told = {
        "rows": [as_json(row) for row in story.rows],
        "performed": story.performed,
        "state": story.state,
        "result": story.result,
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
