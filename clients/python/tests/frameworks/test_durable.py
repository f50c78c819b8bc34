"""Tests a web application on gunicorn whose machine fails while it answers requests."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from socket import AF_UNIX, socket

import pytest

WORKERS = 4
# The number of requests that the clients have answered before the machine fails.
ANSWERED = 400


class Connection(HTTPConnection):
    """A connection to a server on a unix socket."""

    def connect(self) -> None:
        """Connect to the socket whose path is the name of the host."""
        self.sock = socket(AF_UNIX)
        self.sock.connect(self.host)


def ask(place: str, method: str, path: str) -> list[int]:
    """Send a request and return the numbers in its answer."""
    with contextlib.closing(Connection(place)) as connection:
        connection.request(method, path)
        return [int(number) for number in connection.getresponse().read().split()]


@contextlib.contextmanager
def serving(store: str, place: str) -> Iterator[subprocess.Popen[str]]:
    """Run the application on gunicorn, in a process group of its own, until the block ends."""
    command = [sys.executable, "-m", "gunicorn", "-w", str(WORKERS), "-b", f"unix:{place}"]
    command += ["--worker-tmp-dir", str(Path(store).parent), "--no-control-socket"]
    home = Path(__file__).parent
    environment = os.environ | {"STORE": store}
    with subprocess.Popen(
        [*command, "durable_program:app"],
        cwd=home,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as gunicorn:
        assert gunicorn.stderr is not None
        try:
            lines = iter(gunicorn.stderr.readline, "")
            assert any("Listening" in line for line in lines)
            yield gunicorn
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(gunicorn.pid, signal.SIGKILL)


def test_every_answered_request_survives_the_failure_of_the_machine(path: str) -> None:
    """Kill all processes, remove the store from shared memory, and start the application again."""
    pytest.importorskip("gunicorn")
    place = f"{path}.socket"
    answered = [0] * WORKERS
    failed = threading.Event()

    def visit(client: int) -> None:
        """Visit as one client until the machine fails."""
        with contextlib.suppress(OSError, HTTPException):
            while True:
                visits, jobs = ask(place, "POST", f"/visit/{client}")
                assert visits == jobs
                answered[client] = visits
                if sum(answered) >= ANSWERED:
                    failed.set()

    with serving(path, place) as gunicorn:
        clients = [threading.Thread(target=visit, args=(number,)) for number in range(WORKERS)]
        for client in clients:
            client.start()
        assert failed.wait(60)
        os.killpg(gunicorn.pid, signal.SIGKILL)
        for client in clients:
            client.join()
    Path(path).unlink()
    Path(place).unlink()
    start = time.perf_counter()
    with serving(path, place):
        for client, visits in enumerate(answered):
            found, jobs = ask(place, "GET", f"/{client}")
            # A request that was not answered may have been carried out.
            assert found == jobs
            assert found in {visits, visits + 1}
        took = time.perf_counter() - start
        assert ask(place, "POST", "/visit/0")[0] > answered[0]
    print(f"{sum(answered)} answered requests are there, {took:.2f} s after the restart")
