"""Tests that the scripts in examples/migrating copy all data to a store and back.

Each test is skipped if its library or server is not installed. The script for APCu is tested by the
PHP client's tests.
"""

import pickle
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import undercroft

SCRIPTS = Path(__file__).resolve().parents[4] / "examples/migrating"


def run(script: str, *arguments: str, status: int = 0) -> str:
    """Run a script, and return its output and its error."""
    command = [sys.executable, SCRIPTS / script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    printed = done.stdout + done.stderr
    assert done.returncode == status, printed
    assert "Traceback" not in printed, printed
    return printed


def records(path: str) -> dict[str, list[tuple[bytes, bytes]]]:
    """Return the records of an LMDB environment's databases."""
    lmdb: Any = pytest.importorskip("lmdb")
    with lmdb.open(path, max_dbs=4, readonly=True) as env, env.begin() as txn:
        found = {"": [record for record in txn.cursor() if record[0] not in (b"plain", b"tags")]}
        for name in ("plain", "tags"):
            database = env.open_db(name.encode(), txn=txn, create=False)
            found[name] = list(txn.cursor(database))
    return found


def test_lmdb_comes_back_unchanged(r: undercroft.Redis, path: str, tmp_path: Path) -> None:
    lmdb: Any = pytest.importorskip("lmdb")
    source, copy, url = str(tmp_path / "source"), str(tmp_path / "copy"), f"undercroft://{path}"
    with lmdb.open(source, max_dbs=4, map_size=1 << 26) as env:
        plain, tags = env.open_db(b"plain"), env.open_db(b"tags", dupsort=True)
        with env.begin(write=True) as txn:
            for number in range(2500):
                txn.put(b"user:%05d" % number, b"\0name\n%d" % number)
            txn.put(b"empty", b"")
            txn.put(b"user:00000", b"in another database", db=plain)
            for tag in (b"editor", b"admin", b"\xff\0"):
                txn.put(b"ada", tag, db=tags)
            txn.put(b"bob", b"admin", db=tags)
    assert run("copy_lmdb.py", "import", source, url, "--index", "order") == (
        "imported 2504 keys with 2506 values\n"
    )
    assert r.get("user:00042") == b"\0name\n42"
    assert r.get("plain:user:00000") == b"in another database"
    assert r.zrange("tags:ada", 0, -1) == [b"admin", b"editor", b"\xff\0"]
    assert r.zscore("tags:ada", "admin") == 0
    assert r.zrangebylex("order", "[user:02498", "[v") == [b"user:02498", b"user:02499"]
    assert "already has 2505 keys" in run("copy_lmdb.py", "import", source, url, status=1)

    names = ("--database", "plain", "--dupsort", "tags")
    assert run("copy_lmdb.py", "export", url, copy, *names) == (
        "exported 2504 keys; 0 of them expire in the store, but not in LMDB\n"
        "keys left out: 1, such as b'order' of type zset\n"
    )
    assert records(copy) == records(source)
    assert "exists" in run("copy_lmdb.py", "export", url, copy, status=1)


def test_lmdb_reports_keys_that_two_databases_contain(path: str, tmp_path: Path) -> None:
    lmdb: Any = pytest.importorskip("lmdb")
    source = str(tmp_path / "source")
    with lmdb.open(source, max_dbs=4) as env:
        plain = env.open_db(b"plain")
        with env.begin(write=True) as txn:
            txn.put(b"plain:a", b"1")
            txn.put(b"a", b"2", db=plain)
    printed = run("copy_lmdb.py", "import", source, f"undercroft://{path}", status=1)
    assert "has 1 of 2 keys" in printed


def test_diskcache_comes_back_unchanged(r: undercroft.Redis, path: str, tmp_path: Path) -> None:
    diskcache: Any = pytest.importorskip("diskcache")
    source, copy, url = str(tmp_path / "source"), str(tmp_path / "copy"), f"undercroft://{path}"
    session = {"user": "ada", "seen": [1, 2]}
    with diskcache.Cache(source, cull_limit=0) as cache:  # Expired entries stay in the folder.
        cache.set("greeting", "hello")
        cache.set("raw", b"\0\1")
        cache.set("session:1", session, expire=3600, tag="ada")
        cache.set("session:2", session, tag="ada")
        cache.set("gone", "value", expire=-1)
        cache.set(("page", 7), "a key of memoize")
    refused = run("copy_diskcache.py", "import", source, url, "--values", "pickle", status=1)
    assert "('page', 7)" in refused
    r.flushall()
    options = ("--values", "pickle")
    printed = run("copy_diskcache.py", "import", source, url, "--skip-other-keys", *options)
    assert printed == "imported 4 keys; entries with other keys left out: 1\n"
    assert pickle.loads(r.get("session:1")) == session
    assert 3000 < r.ttl("session:1") <= 3600
    assert r.ttl("session:2") == -1
    assert r.smembers("tag:ada") == {b"session:1", b"session:2"}

    r.rpush("list", "item")
    assert run("copy_diskcache.py", "export", url, copy, *options) == (
        "exported 4 keys\nkeys left out: 1, such as b'list' of type list\n"
    )
    with diskcache.Cache(copy) as cache:
        assert sorted(cache) == ["greeting", "raw", "session:1", "session:2"]
        assert cache["greeting"] == "hello"
        assert cache["raw"] == b"\0\1"
        value, expiry, tag = cache.get("session:1", expire_time=True, tag=True)
        assert (value, tag) == (session, "ada")
        assert 3000 < expiry - time.time() <= 3600
        assert cache.evict("ada") == 2


def test_diskcache_imports_shards_and_refuses_objects(
    r: undercroft.Redis, path: str, tmp_path: Path
) -> None:
    diskcache: Any = pytest.importorskip("diskcache")
    source, url = str(tmp_path / "source"), f"undercroft://{path}"
    with diskcache.FanoutCache(source, shards=4) as cache:
        for number in range(1200):
            cache.set(f"key:{number}", number)
    run("copy_diskcache.py", "import", source, url)
    assert r.dbsize() == 1200
    assert r.incr("key:1199") == 1200
    r.flushall()
    with diskcache.FanoutCache(source, shards=4) as cache:
        cache.set("object", [1])
    assert "of type list" in run("copy_diskcache.py", "import", source, url, status=1)


def memcached(socket: str) -> subprocess.Popen[str]:
    """Start Memcached on a unix socket, and return it as soon as it serves clients."""
    command = ["memcached", "-vv", "-u", "root", "-s", socket]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    if not any("server listening" in line for line in iter(server.stderr.readline, "")):
        pytest.fail(f"memcached does not serve; exit status {server.wait()}")
    # Read the rest of the log, so that the server never waits for space in the pipe.
    threading.Thread(target=server.stderr.read, daemon=True).start()
    return server


@pytest.fixture
def servers(path: str) -> Iterator[tuple[str, str]]:
    """Yield the sockets of two Memcached servers."""
    if shutil.which("memcached") is None:
        pytest.skip("memcached is not installed")
    sockets = f"{path}.1", f"{path}.2"
    running: list[subprocess.Popen[str]] = []
    try:
        for socket in sockets:
            running.append(memcached(socket))
        yield sockets
    finally:
        for server in running:
            server.terminate()
            server.wait()


def test_memcached_comes_back_unchanged(
    r: undercroft.Redis, path: str, servers: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from copy_memcached import Server  # type: ignore[import-not-found]

    source, copy, url = Server(servers[0]), Server(servers[1]), f"undercroft://{path}"
    in_an_hour = int(time.time()) + 3600
    values = {b"page:%d" % number: b"body %d" % number for number in range(1000)}
    values |= {b"100%": b"\0\r\nEND\r\n", b"empty": b"", b"hits": b"41"}
    for key, value in values.items():
        assert source.set(key, value, in_an_hour if key == b"hits" else 0) == b"STORED"
    printed = run("copy_memcached.py", "import", servers[0], url)
    assert printed == "imported 1003 items; 0 expired or were removed in the meantime\n"
    assert {key: r.get(key) for key in r.scan_iter()} == values
    assert r.expiretime("hits") == in_an_hour
    assert r.ttl("100%") == -1

    r.set("white space", "")
    printed = run("copy_memcached.py", "export", url, servers[1])
    assert printed == (
        "exported 1003 keys\n"
        "keys left out: 1, such as b'white space', which contains white space or control "
        "characters\n"
    )
    assert {key: value for key, _, value in copy.get(list(values))} == values
    assert dict(copy.keys()) == {key: in_an_hour if key == b"hits" else -1 for key in values}

    r.flushall()
    assert copy.set(b"second", b"server", 0) == b"STORED"
    assert run("copy_memcached.py", "import", *servers, url).startswith("imported 2007 items;")
    assert r.dbsize() == 1004
    assert r.get("second") == b"server"

    source.socket.sendall(b"set object 1 0 1\r\nx\r\n")
    assert source.line() == b"STORED"
    r.flushall()
    refused = run("copy_memcached.py", "import", servers[0], url, status=1)
    assert "b'object' has the flags 1" in refused
    r.flushall()
    run("copy_memcached.py", "import", servers[0], url, "--ignore-flags")
    assert r.dbsize() == 1004
