"""Start to finish, and message to end, with DBOS and nothing else to do: one line of JSON."""

import json
import sys
import time

from dbos import DBOS  # type: ignore[import-not-found]

url, times = sys.argv[1], int(sys.argv[2])
DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})


@DBOS.step()  # type: ignore[untyped-decorator]  # its types are not here
def add(n: int) -> int:
    return n + 1


@DBOS.workflow()  # type: ignore[untyped-decorator]  # its types are not here
def short(n: int) -> int:
    return int(add(n))


@DBOS.workflow()  # type: ignore[untyped-decorator]  # its types are not here
def told() -> int:
    return int(DBOS.recv("go", timeout_seconds=60))


DBOS.launch()
DBOS.start_workflow(short, 1).get_result()
finish, resume = [], []
for _ in range(times):
    began = time.perf_counter()
    DBOS.start_workflow(short, 1).get_result()
    finish.append((time.perf_counter() - began) * 1000)
for _ in range(times):
    handle = DBOS.start_workflow(told)
    time.sleep(0.2)  # so that it surely waits
    began = time.perf_counter()
    DBOS.send(handle.get_workflow_id(), 1, "go")
    handle.get_result()
    resume.append((time.perf_counter() - began) * 1000)
print(json.dumps({"finish": finish, "resume": resume}))
DBOS.destroy()
