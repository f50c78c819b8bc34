"""Tests opening a store by name, path and URL, and features of the client itself."""

import itertools
import os
import stat
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio


def test_a_url_names_a_file_and_options(path: str) -> None:
    url = f"undercroft://{path}?db=3&decode_responses=true&timeout=1.5"
    with undercroft.Redis.from_url(url, db=1) as r:
        r.set("k", "v")
        assert (r.get("k"), r.db, r.path) == ("v", 3, Path(path))
    with undercroft.Redis.from_url(f"undercroft://{path}", db=3) as r:
        assert r.get("k") == b"v"
        assert undercroft.Redis(Path(path)).get("k") is None


def test_a_url_is_unquoted(path: str) -> None:
    with undercroft.Redis.from_url(f"undercroft://{path}%20%23") as r:
        assert r.path == Path(f"{path} #")


def test_a_name_is_a_private_file_in_shared_memory() -> None:
    name = f"test-{os.getpid()}"
    with undercroft.Redis.from_url(f"undercroft://{name}") as r:
        try:
            assert r.path == Path(f"/dev/shm/undercroft-{os.geteuid()}/{name}")
            assert stat.S_IMODE(r.path.stat().st_mode) == 0o600
            assert stat.S_IMODE(r.path.parent.stat().st_mode) == 0o700
            assert undercroft.Redis(f"undercroft://{name}").set("k", 1)
            assert r.get("k") == b"1"
        finally:
            r.path.unlink()


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://localhost", "expected a URL that begins with one of .* got 'http:"),
        ("undercroft://", "expected a store name"),
        ("undercroft://../x", "expected a store name"),
        ("undercroft://name?nope=1", "expected one of the options db, .* got 'nope'"),
        ("undercroft://name?db=x", "invalid value for 'db'"),
        ("undercroft://name?decode_responses=perhaps", "expected true or false, got 'perhaps'"),
        ("undercroft://name?db=16", "expected a db below 16, got 16"),
        ("undercroft://name?capacity=64tb", "expected a size such as .* got '64tb'"),
        ("undercroft://name?timeout=-1", "timeout: "),
    ],
)
def test_the_error_for_a_wrong_url_says_what_was_expected(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        undercroft.Redis.from_url(url)


def test_a_file_that_is_not_a_store_is_refused(path: str) -> None:
    Path(path).write_bytes(b"x" * 10_000)
    with pytest.raises(redis.ConnectionError, match="is not a usable store"):
        undercroft.Redis(path)
    assert Path(path).read_bytes() == b"x" * 10_000
    with pytest.raises(redis.ConnectionError, match="Not a directory"):
        undercroft.Redis(f"{path}/in/no/directory")


def test_sizes_are_numbers_or_text(path: str) -> None:
    with undercroft.Redis(path, capacity="64mb", maxmemory="1mb") as r:
        assert 64 << 20 <= r.path.stat().st_size < 1 << 30
        with pytest.raises(redis.exceptions.OutOfMemoryError, match="maxmemory"):
            [r.set(f"k{i}", "v" * 50_000) for i in range(100)]
        assert r.config_set("maxmemory", 0)
        assert undercroft.Redis(path, maxmemory=0).set("k", "v" * 50_000)


def test_a_full_store_evicts_by_its_policy(path: str) -> None:
    options = {"maxmemory": "1mb", "maxmemory_policy": "allkeys-lru"}
    with undercroft.Redis(path, **options) as r:
        for i in range(100):
            assert r.set(f"k{i}", "v" * 50_000)
        assert 5 <= r.dbsize() <= 30
        assert r.exists("k99")
        evicted = r.info("stats")["evicted_keys"]
        assert evicted == 100 - r.dbsize()
        assert r.info("memory")["maxmemory_policy"] == "allkeys-lru"
    with pytest.raises(ValueError, match="volatile-ttl"):
        undercroft.Redis(path, maxmemory_policy="allkeys")


def test_limits_set_by_config_reach_the_store(path: str) -> None:
    with undercroft.Redis(path) as r, undercroft.Redis(path) as other:
        assert r.config_set("maxmemory", "1mb")
        assert r.config_set("maxmemory-policy", "volatile-lfu")
        assert r.config_set("lfu-log-factor", 3)
        shown = other.config_get("maxmemory*")
        assert (shown["maxmemory"], shown["maxmemory-policy"]) == (str(1 << 20), "volatile-lfu")
        assert other.config_get("lfu-log-factor") == {"lfu-log-factor": "3"}
        with pytest.raises(redis.exceptions.OutOfMemoryError, match="maxmemory"):
            [other.set(f"k{i}", "v" * 50_000) for i in range(100)]
        assert other.object("freq", "k0") == 5


def test_limits_apply_when_the_store_is_created(path: str) -> None:
    url = f"undercroft://{path}?maxmemory=1mb&maxmemory_policy=allkeys-lru&capacity=64mb"
    with undercroft.Redis.from_url(url) as r, undercroft.Redis.from_url(url) as same:
        assert same.config_get("maxmemory") == {"maxmemory": str(1 << 20)}
        for option, words in (
            (
                "maxmemory=2mb",
                "1048576, not the requested 2097152, .* CONFIG SET maxmemory 2097152",
            ),
            (
                "maxmemory_policy=noeviction",
                "allkeys-lru, not the requested noeviction, .* CONFIG SET",
            ),
        ):
            other = f"undercroft://{path}?{option}"
            with pytest.warns(RuntimeWarning, match=words):
                undercroft.Redis.from_url(other)
            # A process is warned only once.
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert undercroft.Redis.from_url(other).ping()
            with pytest.raises(ValueError, match=words):
                undercroft.Redis.from_url(f"{other}&strict=1")
        for capacity, words in (
            ("1gb", "capacity of 67108864, not the requested 1073741824; .* undercroft export"),
            ("10", "capacity of 67108864, not the requested 10;"),
        ):
            with pytest.raises(ValueError, match=words):
                undercroft.Redis(path, capacity=capacity)
        # Simulate a worker that restarts with an unchanged URL.
        assert r.config_set("maxmemory", "3mb")
        with pytest.warns(RuntimeWarning, match="maxmemory 3145728, not the requested 1048576"):
            assert undercroft.Redis.from_url(url).ping()
        # A client without limits in its arguments accepts the store's limits.
        assert undercroft.Redis(path).ping()
        assert r.config_get("maxmemory*")["maxmemory-policy"] == "allkeys-lru"


def test_workers_that_start_at_the_same_time_agree(path: str) -> None:
    program = """
import sys, undercroft
sys.stdin.read()
print(undercroft.Redis.from_url(sys.argv[1]).config_get("maxmemory")["maxmemory"])
"""
    url = f"undercroft://{path}?maxmemory=3mb"
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", program, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(6)
    ]
    for worker in workers:
        assert worker.stdin is not None
        worker.stdin.close()
    for worker in workers:
        assert worker.stdout is not None
        assert worker.stdout.read() == f"{3 << 20}\n"
        assert worker.wait() == 0


def test_a_full_store_raises_out_of_memory(path: str) -> None:
    with (
        undercroft.Redis(path, capacity="1mb", maxmemory=0) as r,
        pytest.raises(redis.exceptions.OutOfMemoryError, match="the store is full: its capacity"),
    ):
        [r.set(f"k{i}", "v" * 50_000) for i in range(100)]


@pytest.mark.parametrize("made", [undercroft.Redis, undercroft.asyncio.Redis])
def test_methods_of_redis_modules_explain_their_absence(path: str, made: Any) -> None:
    r = made(path)
    for client in (r, r.pipeline()):
        with pytest.raises(AttributeError, match=r"json\(\) needs a module of a Redis server"):
            client.json()
        assert not hasattr(client, "ft")
        # Try every module command that this redis-py version defines; the set differs between
        # versions.
        for name in vars(redis.commands.redismodules.RedisModuleCommands):
            if not name.startswith("_"):
                with pytest.raises(AttributeError, match=rf"{name}\(\) needs a module"):
                    getattr(client, name)


def test_clients_of_one_store_share_its_mapping(path: str) -> None:
    with undercroft.Redis(path) as r:
        others = [undercroft.Redis(path, db=i % 16) for i in range(50)]
        maps = Path("/proc/self/maps").read_text()
        assert all(other.ping() for other in others)
        assert Path("/proc/self/maps").read_text().count(path) == maps.count(path)
        assert r.ping()


def test_closing_unmaps_the_store_and_using_it_opens_it_again(path: str) -> None:
    with undercroft.Redis(path) as r:
        r.set("k", "v")
        assert path in Path("/proc/self/maps").read_text()
    assert path not in Path("/proc/self/maps").read_text()
    r.close()
    assert r.get("k") == b"v"
    r.close()


def test_using_a_removed_store_raises_connection_error(path: str) -> None:
    with undercroft.Redis(path, on_removed="error") as r:
        r.set("k", "v")
        Path(path).unlink()
        # The client checks at most once a second whether the file exists.
        with pytest.raises(redis.ConnectionError, match="was removed or replaced"):
            all(r.set("k", "v") for _ in itertools.repeat(None))
        with undercroft.Redis(path) as new:
            assert new.get("k") is None


def test_the_client_describes_itself(path: str) -> None:
    r = undercroft.Redis(path, db=2)
    assert repr(r) == f"<undercroft.embedded.client.EmbeddedRedis('{path}', db=2)>"
    with pytest.raises(TypeError):
        undercroft.Redis(path, nonsense=1)


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16"])
def test_text_uses_the_requested_encoding(path: str, encoding: str) -> None:
    with undercroft.Redis(path, decode_responses=True, encoding=encoding) as r:
        r.set("k\xe9", "v\xe9")
        r.mset({"l\xe9": "w\xe9"})
        assert r.mget("k\xe9", "l\xe9") == ["v\xe9", "w\xe9"]
        assert r.get("k\xe9") == r.execute_command("GET", "k\xe9") == "v\xe9"
        raw = undercroft.Redis(path)
        assert raw.get("k\xe9".encode(encoding)) == "v\xe9".encode(encoding)


def test_encoding_errors_are_handled_as_requested(path: str) -> None:
    r = undercroft.Redis(path, decode_responses=True)
    undercroft.Redis(path).set(b"\xff", b"a\xff")
    with pytest.raises(UnicodeEncodeError):
        r.get("\udcff")
    lax = undercroft.Redis(path, decode_responses=True, encoding_errors="surrogateescape")
    assert lax.get("\udcff") == "a\udcff"
    assert lax.mget("\udcff") == ["a\udcff"]
    assert undercroft.Redis(path, decode_responses=True, encoding_errors="replace").keys() == [
        "\ufffd"
    ]
    with pytest.raises(UnicodeDecodeError):
        r.get(b"\xff")
    with pytest.raises(UnicodeDecodeError):
        r.mget(b"\xff")


def test_a_bytearray_is_accepted_as_bytes(r: undercroft.Redis) -> None:
    r.set(bytearray(b"k"), bytearray(b"v"))
    assert r.get(bytearray(b"k")) == b"v"


def test_a_dump_is_never_decoded(d: undercroft.Redis) -> None:
    d.set("k", "v")
    assert isinstance(d.dump("k"), bytes)


def test_a_callback_affects_only_its_own_client(r: undercroft.Redis, d: undercroft.Redis) -> None:
    r.set_response_callback("TYPE", lambda reply, **_: reply.decode().upper())
    r.set("k", "v")
    assert (r.type("k"), d.type("k")) == ("STRING", "string")


def test_an_unknown_command_is_an_error(r: undercroft.Redis) -> None:
    with pytest.raises(redis.ResponseError, match="unknown command 'NOSUCH'"):
        r.execute_command("NOSUCH", "h")


def test_a_subclass_may_override_a_method(path: str) -> None:
    class Prefixed(undercroft.Redis):
        def get(self, name: str) -> object:  # type: ignore[override]
            return super().get(f"prefix:{name}")

    with Prefixed(path) as r:
        r.set("prefix:k", "v")
        assert r.get("k") == b"v"
        assert r["k"] == b"v"


def test_custom_callbacks_apply_to_all_methods(r: undercroft.Redis) -> None:
    r.mset({"k": "7", "l": "8"})
    assert r.get("k") == b"7"
    r.set_response_callback("GET", int)
    r.set_response_callback("MGET", lambda reply: [int(each) for each in reply])
    assert r.get("k") == 7
    assert r.get(name="k") == 7
    assert r.mget("k", "l") == [7, 8]
    with undercroft.Redis(r.path) as other:
        assert other.get("k") == b"7"
