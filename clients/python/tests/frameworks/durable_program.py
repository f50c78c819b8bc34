"""A web application with sessions and a queue of jobs, in a store that survives a power cut.

``POST /visit/NAME`` counts a visit in a session and queues a job, in one transaction. ``GET /NAME``
returns the number of visits and the number of queued jobs of a session.
"""

import os
from collections.abc import Callable, Iterable

import undercroft

Start = Callable[[str, list[tuple[str, str]]], object]

store = undercroft.Redis(f"undercroft://{os.environ['STORE']}?durability=always")


def app(environ: dict[str, str], start: Start) -> Iterable[bytes]:
    """Answer a request of WSGI."""
    name = environ["PATH_INFO"].rpartition("/")[2]
    if environ["REQUEST_METHOD"] == "POST":
        with store.pipeline() as pipe:
            pipe.hincrby(f"session:{name}", "visits", 1)
            pipe.rpush(f"jobs:{name}", os.getpid())
            visits, jobs = pipe.execute()
    else:
        visits = int(store.hget(f"session:{name}", "visits") or 0)
        jobs = store.llen(f"jobs:{name}")
    start("200 OK", [("Content-Type", "text/plain")])
    return [f"{visits} {jobs}".encode()]
