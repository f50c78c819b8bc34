"""Tests which arguments mean a server or a store, and which redis-py options a store accepts."""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio

# Arguments as redis-py programs write them, with the resulting host and port.
SERVERS: list[tuple[tuple[Any, ...], dict[str, Any], tuple[str, int]]] = [
    (("localhost",), {}, ("localhost", 6379)),
    (("localhost", 6380), {}, ("localhost", 6380)),
    (("127.0.0.1", 6379, 2), {}, ("127.0.0.1", 6379)),
    (("demo",), {"decode_responses": True}, ("demo", 6379)),
    ((), {"host": "localhost"}, ("localhost", 6379)),
    ((), {"host": "h", "port": 7000, "db": 1}, ("h", 7000)),
    ((), {"socket_timeout": 5}, ("localhost", 6379)),
]

# Options of redis-py that concern its connections.
OPTIONS: dict[str, Any] = {
    "socket_timeout": 5,
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "max_connections": 10,
    "health_check_interval": 30,
    "retry_on_timeout": True,
    "ssl_cert_reqs": "required",
    "protocol": 2,
    "username": "me",
    "password": "secret",
    "client_name": "a",
    "decode_responses": True,
}


@pytest.mark.parametrize("made", [undercroft.Redis, undercroft.asyncio.Redis])
@pytest.mark.parametrize(("args", "kwargs", "place"), SERVERS)
def test_redis_py_s_spellings_mean_a_server(
    made: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    place: tuple[str, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    client = made(*args, **kwargs)
    assert isinstance(client, undercroft.RemoteRedis | undercroft.asyncio.RemoteRedis)
    told = client.connection_pool.connection_kwargs
    assert (told["host"], told["port"]) == place
    # A bare word does not create a file.
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("made", [undercroft.Redis, undercroft.asyncio.Redis])
def test_a_url_means_the_same_in_every_argument(made: Any, path: str) -> None:
    for make in made, made.from_url:
        client = make(f"undercroft://{path}?db=3&decode_responses=yes&maxmemory=64mb", db=1)
        store = client if made is undercroft.Redis else client.store
        store.set("k", "v")
        assert store.get("k") == "v"
        assert store.client_info()["db"] == 3
        assert store.config_get("maxmemory") == {"maxmemory": str(64 << 20)}
    assert [file.name for file in Path(path).parent.iterdir()] == ["store"]
    # A path is never parsed as a URL.
    undercroft.Redis(f"{path}?db=3").close()
    assert {file.name for file in Path(path).parent.iterdir()} == {"store", "store?db=3"}


@pytest.mark.parametrize(("host", "hints"), [("demo", True), ("demo.example", False)])
def test_the_error_for_an_unknown_host_hints_at_a_store(
    host: str, hints: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_args: Any, **_kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    said = []
    with pytest.raises(redis.ConnectionError) as raised:
        undercroft.Redis(host).ping()
    said.append(str(raised.value))

    async def ping() -> None:
        await undercroft.asyncio.Redis(host).ping()

    with pytest.raises(redis.ConnectionError) as raised:
        asyncio.run(ping())
    said.append(str(raised.value))
    assert [f"undercroft://{host}" in text for text in said] == [hints, hints], said


@pytest.mark.parametrize("made", [undercroft.Redis, undercroft.asyncio.Redis])
def test_a_store_is_named_by_its_url_or_a_path(made: Any, path: str) -> None:
    stores = undercroft.EmbeddedRedis | undercroft.asyncio.EmbeddedRedis
    for args, kwargs in (
        ((path,), {}),
        ((Path(path), 3), {}),
        ((f"undercroft://{path}",), {"db": 1}),
        ((), {"store": path, "socket_timeout": 5}),
    ):
        assert isinstance(made(*args, **kwargs), stores)
    with pytest.raises(ValueError, match="expected undercroft://demo for a store in shared"):
        made(store="demo")


@pytest.mark.parametrize("made", [undercroft.Redis, undercroft.asyncio.Redis])
def test_only_the_url_has_to_change(made: Any, path: str) -> None:
    query = "&".join(f"{name}={value}" for name, value in OPTIONS.items())
    for client in (
        made.from_url(f"undercroft://{path}", **OPTIONS),
        made.from_url(f"undercroft://{path}?{query}"),
    ):
        store = getattr(client, "store", client)
        assert store.client_getname() == "a"
        with store.pipeline() as pipe:
            assert pipe.client_getname().execute() == ["a"]
        assert store.set("k", "v")
        assert store.get("k") == "v"
    # Misspelled options are still rejected, and so are options for a server's address.
    for wrong in ("decode_response", "socket_timeouts", "host", "connection_pool"):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{wrong}'"):
            made.from_url(f"undercroft://{path}", **{wrong: 1})
    with pytest.raises(undercroft.ResponseError, match="Client names cannot contain spaces"):
        made.from_url(f"undercroft://{path}", client_name="a b")


def test_spellings_mean_servers_without_the_native_module_too(tmp_path: Path) -> None:
    program = """
import undercroft, undercroft.asyncio
for made in (undercroft.Redis, undercroft.asyncio.Redis):
    print(type(made("localhost", 6379)).__name__)
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "UNDERCROFT_PURE": "1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["RemoteRedis", "RemoteRedis"]


def test_the_default_store_is_created_when_none_is_named() -> None:
    # Use a private /dev/shm, so that the test does not change the user's default store.
    alone = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    mounted = 'mount -t tmpfs none /dev/shm && exec "$@"'
    if subprocess.run([*alone, mounted, "sh", "true"], check=False, capture_output=True).returncode:
        pytest.skip("mount namespaces are not allowed")
    program = """
import asyncio, undercroft, undercroft.asyncio
print(undercroft.Redis().set("k", "v"), undercroft.Redis().path)
print(asyncio.run(undercroft.asyncio.Redis().get("k")))
"""
    done = subprocess.run(
        [*alone, mounted, "sh", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "True /dev/shm/undercroft-0/default\nb'v'\n"


def test_a_database_may_follow_a_name_as_in_redis_s_urls() -> None:
    name = f"undercroft://spelling-{os.getpid()}"
    makes: list[Callable[[str], Any]] = [
        undercroft.Redis,
        undercroft.from_url,
        undercroft.Store,
        lambda url: redis.Redis(connection_pool=undercroft.ConnectionPool.from_url(url)),
    ]
    whole = undercroft.Redis(name)
    try:
        for number, make in enumerate(makes):
            make(f"{name}/3").set(f"k{number}", "v")
            assert undercroft.Redis(name, db=3).get(f"k{number}") == b"v"
        assert undercroft.Redis(f"{name}/").db == 0
        # As in redis-py, the query takes precedence.
        assert undercroft.Redis(f"{name}/3?db=2").db == 2
        assert whole.dbsize() == 0
        for wrong in ("16", "x", "1/2", "-1"):
            with pytest.raises(ValueError, match=r"(db|database) below"):
                undercroft.Redis(f"{name}/{wrong}")
    finally:
        whole.path.unlink()


def test_the_error_for_a_bare_word_explains_the_spelling() -> None:
    with pytest.raises(ValueError, match=r"or \./x for a file here"):
        undercroft.Store("x")
