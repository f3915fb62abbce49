"""W1 and W3 with DBOS, in its own environment: prints one line of JSON."""

import json
import sys
import time

from dbos import DBOS  # type: ignore[import-not-found]

url, runs, long = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})


@DBOS.step()  # type: ignore[untyped-decorator]  # its types are not here
def add(n: int) -> int:
    return n + 1


@DBOS.workflow()  # type: ignore[untyped-decorator]  # its types are not here
def count(steps: int) -> int:
    n = 0
    for _ in range(steps):
        n = add(n)
    return n


DBOS.launch()
count(2)
began = time.perf_counter()
handles = [DBOS.start_workflow(count, 10) for _ in range(runs)]
for handle in handles:
    handle.get_result()
w1 = runs * 10 / (time.perf_counter() - began)
began = time.perf_counter()
count(long)
w3 = (time.perf_counter() - began) * 1000 / long
print(json.dumps({"w1": w1, "w3": w3}))
DBOS.destroy()
