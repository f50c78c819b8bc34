"""Every command's results and errors are those of redis-py on a real Redis server."""

import datetime
import enum
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

import undercroft

NAMESPACE: dict[str, Any] = {
    "bytearray": bytearray,
    "memoryview": memoryview,
    "timedelta": datetime.timedelta,
    "later": datetime.datetime.now() + datetime.timedelta(hours=1),
    "Level": enum.IntEnum("Level", "LOW HIGH"),
    "Name": enum.StrEnum("Name", "FIRST"),
    "Text": type("Text", (str,), {}),
    "object": object,
    "sorted": sorted,
    "type": type,
    "range": range,
    "abs": abs,
    "len": len,
    "list": list,
    "isinstance": isinstance,
    "dict": dict,
}

# Each line is one session: expressions that are evaluated in order on an empty database,
# `_` being the result of the one before.
SESSIONS = """
r.get("k") | r.set("k", "v") | r.get("k") | r.get(b"k") | r.get(name="k") | r["k"]
r.set(b"k", b"\\x00\\xff") | r.get("k") if not r.get_encoder().decode_responses else None
r["k"] = "v"
r.set("k", 1) | r.get("k") | r.set("k", -5) | r.get("k") | r.set("k", 2**70) | r.get("k")
r.set("k", 1.5) | r.get("k") | r.set("k", 1e300) | r.get("k") | r.set("k", float("nan")) | r.get("k")
r.set("k", memoryview(b"abcd")[1:3]) | r.get("k")
r.set(1, 2) | r.get("1") | r.get(1) | r.set(1.5, 2) | r.get(1.5) | r.get(memoryview(b"1"))
r.set("k", Level.HIGH) | r.get("k") | r.set(Name.FIRST, Text("t")) | r.get("first") | r.get("FIRST")
r.set("k", None) | r.set(None, "k") | r.set("k", True) | r.set("k", object()) | r.set("k", ["v"]) | r.get(["k"])
r.get() | r.get("a", "b") | r.set("a") | r.set() | r.get(nam="k") | r.delete() | r.exists() | r.expire("a")
r.set("\\u20ac\\U0001f600", "\\u20ac") | r.get("\\u20ac\\U0001f600") | r.set("k", "\\udc80")
r.set("", "") | r.get("") | r.strlen("") | r.exists("")
r.set("k", "v" * 100_000) | len(r.get("k")) | r.strlen("k") | r.get("k")
r.set("k", "v" * 256) | r.get("k") | r.set("k", "v" * 257) | r.get("k") | r.set("k", "v" * 5000) | r.get("k")
r.set("k", "v", 100) | r.ttl("k") | r.set("k", "w", None, 100_000) | r.ttl("k") | r.set("k", "x") | r.ttl("k")
r.set("k", "v", ex=100) | r.ttl("k") | r.set("k", "v", px=100_000) | r.ttl("k") | r.set(name="k", value="w")
r.set("k", "v", ex=timedelta(minutes=2)) | r.ttl("k") | r.set("k", "v", px=timedelta(minutes=3)) | r.ttl("k")
r.set("k", "v", exat=later) | r.expiretime("k") | r.set("k", "v", pxat=later) | r.pexpiretime("k")
r.set("k", "v", exat=4102444800) | r.expiretime("k") | r.set("k", "v", pxat=4102444800123) | r.pexpiretime("k")
r.set("k", "v", ex=0) | r.set("k", "v", ex=-1) | r.set("k", "v", px=0) | r.set("k", "v", ex=2**62) | r.get("k")
r.set("k", "v", ex=1.5) | r.set("k", "v", ex="10") | r.set("k", "v", px="10") | r.set("k", "v", ex="x")
r.set("k", "v", nx=True) | r.set("k", "w", nx=True) | r.get("k") | r.set("n", "w", xx=True) | r.get("n")
r.set("k", "v", xx=True) | r.set("k", "v") | r.set("k", "w", xx=True) | r.get("k") | r.set("k", "w", xx=False, nx=False)
r.set("k", "v", ex=100) | r.set("k", "w", keepttl=True) | r.ttl("k") | r.get("k") | r.set("k", "w", xx=True) | r.ttl("k")
r.set("k", "v", get=True) | r.set("k", "w", get=True) | r.set("k", "x", nx=True, get=True) | r.get("k")
r.set("k", "v", nx=1) | r.set("k", "w", xx=1, ex=100) | r.ttl("k") | r.set("k", "w", nx=0)
r.set("k", "v", wrong=1)
r.mset({"a": 1, "b": "two", b"c": b"three", 4: 4.5}) | r.mget("a", "b", "c", "4", "d") | r.mget(["a", "b"])
r.mget([]) | r.mget("a") | r.mget(("a", "b"), "c") | r.mget(x for x in ["a"]) | r.mget({"a"}) | r.mget(["a"], "b")
r.mget(keys=["a"]) | r.mget() | r.mget([None]) | r.mget(["a", 1, 2.5]) | r.mget(1)
r.mset({}) | r.mset({"a": None}) | r.mset([("a", 1)]) | r.mset(mapping={"a": 1}) | r.get("a") | r.mset(a=1)
r.msetnx({"a": 1, "b": 2}) | r.msetnx({"b": 3, "c": 4}) | r.mget("a", "b", "c")
r.mset({str(i): i for i in range(200)}) | r.mget([str(i) for i in range(200)]) | r.delete(*[str(i) for i in range(150)])
r.incr("n") | r.incr("n", 5) | r.incr("n", amount=2) | r.incrby("n", 10) | r.decr("n") | r.decr("n", 3) | r.decrby("n", 2)
r.incr("n", 2**63) | r.set("n", 2**63 - 1) | r.incr("n") | r.get("n") | r.decr("m", -2**63) | r.incr("n", 1.5) | r.incr("n", "3")
r.set("s", "abc") | r.incr("s") | r.incr("s", "x") | r.incr(b"n", True) | r.set("n", " 1") | r.incr("n") | r.incr(name="n")
r.incrbyfloat("f", 1.5) | r.incrbyfloat("f", "0.25") | r.get("f") | r.incrbyfloat("f") | r.incrbyfloat("f", "x")
r.set("a", 1) | r.set("b", 2) | r.exists("a", "a", "c") | r.exists("a") | "a" in r | "c" in r | r.delete("a", "c") | r.exists("a")
r.set("a", 1) | r.delete("a", "a") | r.delete(b"a") | r.delete("a", None) | r.unlink("a", "b")
r.set("a", 1) | r.touch("a", "b") | r.type("a") | r.type("b") | r.rename("a", "b") | r.rename("a", "b") | r.renamenx("b", "c")
r.set("a", 1) | r.expire("a", 100) | r.ttl("a") | r.expire("b", 100) | r.expire("a", -1) | r.exists("a")
r.set("a", 1) | r.expire("a", timedelta(hours=1)) | r.ttl("a") | r.expire(name="a", time=50) | r.ttl("a") | r.expire("a", 0) | r.get("a")
r.set("a", 1) | r.expire("a", 100, nx=True) | r.expire("a", 200, nx=True) | r.expire("a", 300, xx=True) | r.expire("a", 100, gt=True) | r.expire("a", 100, lt=True) | r.ttl("a")
r.set("a", 1) | r.expire("a", 2**62) | r.expire("a", "50") | r.ttl("a") | r.expire("a", "x") | r.expire("a", 1.5) | r.expire("a", 10, gt=True, lt=True)
r.set("a", 1) | r.pexpire("a", 100_000) | r.pexpire("a", timedelta(hours=1)) | r.ttl("a") | abs(r.pttl("a") - 3600_000) < 5000
r.set("a", 1) | r.expireat("a", later) | r.expiretime("a") | r.pexpireat("a", later) | r.pexpiretime("a") | r.expireat("a", 4102444800) | r.pexpiretime("a")
r.ttl("a") | r.pttl("a") | r.expiretime("a") | r.pexpiretime("a") | r.set("a", 1) | r.ttl("a") | r.pttl("a") | r.expiretime("a") | r.persist("a") | r.expire("a", 9) | r.persist("a")
r.append("a", "x") | r.append("a", "yz") | r.strlen("a") | r.getrange("a", 0, -2) | r.getrange("a", 5, 9) | r.substr("a", 1) | r.setrange("a", 5, "w") | r.get("a")
r.getset("a", 1) | r.getset("a", 2) | r.getdel("a") | r.getdel("a") | r.setnx("a", 1) | r.setnx("a", 2) | r.setex("a", 100, 1) | r.psetex("a", 100_000, 1) | r.setex("a", timedelta(hours=1), 1) | r.ttl("a") | r.setex("a", 0, 1)
r.set("a", 1) | r.getex("a", ex=100) | r.ttl("a") | r.getex("a", px=timedelta(hours=1)) | r.ttl("a") | r.getex("a", exat=later) | r.getex("a", persist=True) | r.ttl("a") | r.getex("b")
r.set("a", "ohmytext") | r.set("b", "mynewtext") | r.lcs("a", "b") | r.lcs("a", "b", len=True) | r.lcs("a", "b", idx=True) | r.lcs("a", "b", idx=True, minmatchlen=4, withmatchlen=True)
r.mset({"a1": 1, "a2": 2, "b": 3}) | sorted(r.keys()) | sorted(r.keys("a*")) | r.keys("x") | r.dbsize() | sorted(r.scan(0, "a*", 100)[1]) | sorted(r.scan_iter("a*")) | r.scan(0, count=1000)[0]
r.randomkey() | r.set("a", 1) | r.randomkey() | r.flushdb() | r.dbsize() | r.flushall() | r.flushall(asynchronous=True)
r.set("a", 1) | r.copy("a", "b") | r.copy("a", "b") | r.copy("a", "b", replace=True) | r.copy("a", "c", destination_db=3) | r.move("a", 3) | r.move("a", 3) | r.dbsize()
r.set("a", "x" * 50, ex=100) | r.restore("b", 0, r.dump("a")) | r.get("b") | r.ttl("b") | r.restore("b", 0, r.dump("a")) | r.restore("b", 5000, r.dump("a"), replace=True) | r.ttl("b") | r.dump("zz") | r.restore("c", 0, b"wrong")
r.set("a", 12) | r.object("encoding", "a") | r.set("a", "x") | r.object("ENCODING", "a") | r.object("refcount", "a") | r.object("encoding", "none") | isinstance(r.memory_usage("a"), type(1)) | r.memory_usage("b")
r.ping() | r.echo("hello") | r.select(3) | r.select(99) | r.select(0) | r.time()[0] > 1e9 | type(r.time()) | r.swapdb(3, 4)
r.client_setname("me") | type(r.client_id()) | r.config_get("maxmemory-policy") | r.config_set("nope", 1) | type(r.info()) | r.info()["redis_version"] | r.info("keyspace") | r.config_resetstat()
r.command_count() > 50 | r.command_getkeys("MGET", "a", "b") | r.slowlog_len() | r.slowlog_reset() | r.slowlog_get()
r.execute_command("GET", "a") | r.execute_command("get", "a") | r.execute_command("CONFIG GET", "databases") | r.execute_command(b"SET", "a", 1) | r.execute_command("NOPE", "x", 1) | r.execute_command("GET")
r.execute_command("OBJECT HELP")[0] | r.execute_command("SET", "a", "b", "ZZ") | r.execute_command("SET", "a", None) | r.execute_command("EXPIRE", "a", 1)
"""


class Clients:
    """A Redis client of either kind on an empty database."""

    def __init__(self, ours: undercroft.Redis, theirs: "redis.Redis") -> None:
        self.ours = ours
        self.theirs = theirs


@pytest.fixture(params=[False, True], ids=["bytes", "str"])
def clients(
    request: pytest.FixtureRequest, path: str, server_socket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Clients]:
    decode = request.param
    # Where hiredis packs the arguments it has error texts of its own.
    monkeypatch.setattr("redis.connection.HIREDIS_AVAILABLE", False)
    # One connection, so that SELECT and CLIENT SETNAME last.
    theirs = redis.Redis(
        unix_socket_path=server_socket,
        decode_responses=decode,
        single_connection_client=True,
    )
    theirs.flushall()
    with undercroft.Redis(path, decode_responses=decode) as ours, theirs:
        yield Clients(ours, theirs)
        theirs.select(0)


def evaluate(expression: str, client: Any) -> tuple[str, Any]:
    """Return what an expression gives: a value with its type, or an exception."""
    run: Callable[..., Any] = eval
    if expression.startswith("r[") and "=" in expression:
        run = exec
    try:
        value = run(expression, {**NAMESPACE, "r": client})
    except Exception as error:
        return "raised", (type(error), re.sub(r"\bClient\.", "BasicKeyCommands.", str(error)))
    return type(value).__name__, value


@pytest.mark.parametrize("session", [line for line in SESSIONS.split("\n") if line])
def test_a_session_gives_what_redis_py_gives(clients: Clients, session: str) -> None:
    for expression in session.split(" | "):
        wanted = evaluate(expression, clients.theirs)
        assert evaluate(expression, clients.ours) == wanted, expression
