"""Tests gevent and eventlet: while one greenlet waits, the others run."""

import http.client
import importlib.util
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import undercroft
from conftest import SCRATCH

PROGRAM = Path(__file__).parent / "green_program.py"

APPLICATION = """
import undercroft

client = undercroft.Redis.from_url({url!r})


def application(environ, start_response):
    if environ["PATH_INFO"] == "/wait":
        client.incr("waiting")
        body = repr(client.blpop(["queue"], 100))
    else:
        body = repr(client.rpush("queue", "x"))
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [body.encode()]
"""


def expect(name: str) -> None:
    """Skip the test if a package is missing, without importing it into this process."""
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed")


@pytest.fixture
def home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        yield Path(directory)


@pytest.mark.parametrize("kind", ["gevent", "eventlet"])
@pytest.mark.parametrize("pure", ["0", "1"])
def test_a_waiting_greenlet_lets_others_run(
    kind: str, pure: str, server_socket: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expect(kind)
    monkeypatch.setenv("UNDERCROFT_PURE", pure)
    words = [sys.executable, str(PROGRAM), kind, f"unix://{server_socket}", f"{home}/store"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=280)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self._path)


def ask(path: str, what: str) -> str:
    """Return the application's response."""
    connection = _Connection(path)
    connection.request("GET", what)
    body = connection.getresponse().read().decode()
    connection.close()
    return body


@pytest.mark.parametrize("where", ["server", "store"])
def test_gunicorn_s_gevent_workers_answer_while_one_request_waits(
    where: str, server_socket: str, home: Path
) -> None:
    expect("gunicorn")
    expect("gevent")
    url = f"unix://{server_socket}" if where == "server" else f"undercroft://{home}/store"
    (home / "application.py").write_text(APPLICATION.format(url=url))
    path = f"{home}/http"
    words = [sys.executable, "-m", "gunicorn", "-k", "gevent", "-w", "1", "-b", f"unix:{path}"]
    words += ["--worker-tmp-dir", SCRATCH, "--no-control-socket", "application"]
    gunicorn = subprocess.Popen(words, cwd=home, stderr=subprocess.PIPE, text=True)
    try:
        assert gunicorn.stderr is not None
        lines = iter(gunicorn.stderr.readline, "")
        assert any("Booting worker" in line for line in lines)
        client: Any = undercroft.Redis.from_url(url)
        client.delete("waiting", "queue")
        with ThreadPoolExecutor(1) as threads:
            waiting = threads.submit(ask, path, "/wait")
            while client.get("waiting") is None:
                assert gunicorn.poll() is None
                assert not waiting.done()
            assert ask(path, "/push") == "1"
            assert waiting.result() == "(b'queue', b'x')"
        client.close()
    finally:
        gunicorn.terminate()
        gunicorn.communicate()
