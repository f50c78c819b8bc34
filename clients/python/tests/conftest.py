"""Shared fixtures: a new store for each test, and a real Redis server for comparisons."""

import asyncio
import importlib.util
import inspect
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import redis.asyncio
import undercroft

# A function that runs a coroutine on a new event loop.
Run = Callable[[Coroutine[Any, Any, Any]], Any]

# A container's /tmp is often an overlay file system, which stores do not support.
SCRATCH = "/dev/shm"


def wait_for_every_reply() -> None:
    """Remove the default timeout of five seconds from redis-py's clients.

    On a busy machine, replies can take longer. The test's time limit detects a reply that never
    arrives.
    """
    limits = ("socket_timeout", "socket_connect_timeout")
    for kind in (
        redis.Redis,
        redis.connection.AbstractConnection,
        redis.connection.UnixDomainSocketConnection,
        redis.asyncio.Redis,
        redis.asyncio.connection.AbstractConnection,
        redis.asyncio.connection.UnixDomainSocketConnection,
    ):
        made = inspect.unwrap(kind.__init__)
        defaults = {
            name: None if name in limits else parameter.default
            for name, parameter in inspect.signature(made).parameters.items()
            if parameter.default is not inspect.Parameter.empty
        }
        in_order = list(defaults.values())
        by_name = made.__kwdefaults__ or {}
        made.__defaults__ = tuple(in_order[: len(in_order) - len(by_name)])
        made.__kwdefaults__ = {name: defaults[name] for name in by_name}


wait_for_every_reply()


@pytest.fixture
def path() -> Iterator[str]:
    """Yield a path where a store can be created."""
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        yield f"{directory}/store"


@pytest.fixture
def r(path: str) -> Iterator[undercroft.Redis]:
    """Yield a client for a new store."""
    with undercroft.Redis(path) as client:
        yield client


@pytest.fixture
def d(path: str) -> Iterator[undercroft.Redis]:
    """Yield a client that decodes replies, for the same store as ``r``."""
    with undercroft.Redis(path, decode_responses=True) as client:
        yield client


@pytest.fixture(params=[False, True], ids=["bytes", "str"])
def pair(request: pytest.FixtureRequest, path: str) -> Iterator[tuple[Any, Any]]:
    """Yield two clients, whose stores have the same contents."""
    decode = request.param
    with (
        undercroft.Redis(f"{path}-ours", decode_responses=decode) as ours,
        undercroft.Redis(f"{path}-theirs", decode_responses=decode) as theirs,
    ):
        yield ours, theirs


@pytest.fixture(scope="session")
def server_socket() -> Iterator[str]:
    """Yield the socket of a Redis server that runs until the tests end."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed: nothing to compare with")
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        socket = f"{directory}/redis.sock"
        server = subprocess.Popen(
            [binary, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", directory],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert server.stdout is not None
            lines = iter(server.stdout.readline, "")
            if not any("ready to accept connections" in line.lower() for line in lines):
                pytest.fail(f"redis-server did not start; exit status {server.wait()}")
            yield socket
        finally:
            server.terminate()
            server.wait()


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Yield a function that runs a coroutine on a new event loop of the chosen kind."""
    if request.param == "asyncio":
        yield asyncio.run
        return
    if importlib.util.find_spec("uvloop") is None:
        pytest.skip("uvloop is not installed")
    import uvloop

    yield uvloop.run
