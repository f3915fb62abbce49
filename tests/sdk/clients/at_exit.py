"""Leaves a sync client, and perhaps a worker, to a function that Python calls when it exits."""

import atexit
import contextlib
import sys

from onward import App, workflow


@workflow
async def double(n: int) -> int:
    return 2 * n


def close() -> None:
    print([info.state for info in app.runs()])
    stack.close()
    print("closed")


stack = contextlib.ExitStack()
app = stack.enter_context(App(sys.argv[1]).sync())
if "worker" in sys.argv:
    stack.enter_context(app.worker(workflows=[double]))
    app.run(double, 21)
atexit.register(close)
