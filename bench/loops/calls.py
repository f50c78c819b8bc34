"""Time single calls of commands with short replies.

The arguments are the client (``embedded`` or ``redis``), ``bytes`` or ``text`` for the type of
arguments and replies, and a store or a unix socket. The answer to a line ``OPERATION COUNT`` is the
number of nanoseconds per call; ``names 0`` lists all operations. No operation changes the result of
the next one: if a command does, a second call undoes the change, and the figure is half the time of
both calls.
"""

import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

VALUE = "v" * 64
FIELDS = {"name": "Ada", "mail": "ada@example.org", "city": "London", "born": "1815", "n": "1"}
FIVE = ["one", "two", "three", "four", "five"]
# A time to live in seconds and a Unix time that no run reaches.
LATER, AT = 10_000, 33_000_000_000
# One call: the method, its positional arguments, and its keyword arguments.
Words = tuple[str, tuple[Any, ...], dict[str, Any]]


def words(method: str, *arguments: Any, **options: Any) -> Words:
    """Return a call as an entry of the dictionaries below."""
    return method, arguments, options


STRINGS = {
    "get": [words("get", "string")],
    "set": [words("set", "string", VALUE)],
    "set-ex": [words("set", "volatile", VALUE, ex=LATER)],
    "set-nx": [words("set", "string", VALUE, nx=True)],
    "set-get": [words("set", "string", VALUE, get=True)],
    "setex": [words("setex", "volatile", LATER, VALUE)],
    "psetex": [words("psetex", "volatile", LATER * 1000, VALUE)],
    "setnx": [words("setnx", "string", VALUE)],
    "getset": [words("getset", "string", VALUE)],
    "getex": [words("getex", "volatile", ex=LATER)],
    "set+getdel": [words("set", "deleted", VALUE), words("getdel", "deleted")],
    "append": [words("append", "string", "")],
    "strlen": [words("strlen", "string")],
    "getrange": [words("getrange", "string", 10, 20)],
    "setrange": [words("setrange", "string", 10, "vvv")],
    "incr": [words("incr", "number")],
    "incrby": [words("incrby", "number", 3)],
    "decr": [words("decr", "number")],
    "decrby": [words("decrby", "number", 3)],
    "incrbyfloat": [words("incrbyfloat", "float", 0.5)],
    "mget-2": [words("mget", ["string", "other"])],
    "mset-2": [words("mset", {"string": VALUE, "other": VALUE})],
    "setbit": [words("setbit", "bits", 7, 1)],
    "getbit": [words("getbit", "bits", 7)],
    "bitcount": [words("bitcount", "string")],
    "bitpos": [words("bitpos", "string", 1)],
}
KEYS = {
    "exists": [words("exists", "string")],
    "set+delete": [words("set", "deleted", VALUE), words("delete", "deleted")],
    "set+unlink": [words("set", "deleted", VALUE), words("unlink", "deleted")],
    "touch": [words("touch", "string")],
    "type": [words("type", "string")],
    "ttl": [words("ttl", "volatile")],
    "pttl": [words("pttl", "volatile")],
    "expire": [words("expire", "volatile", LATER)],
    "pexpire": [words("pexpire", "volatile", LATER * 1000)],
    "expireat": [words("expireat", "volatile", AT)],
    "pexpireat": [words("pexpireat", "volatile", AT * 1000)],
    "expiretime": [words("expiretime", "volatile")],
    "expire+persist": [words("expire", "other", LATER), words("persist", "other")],
    "rename": [words("rename", "moved", "there"), words("rename", "there", "moved")],
    "renamenx": [words("renamenx", "string", "other")],
    "copy": [words("copy", "string", "copied", replace=True)],
    "object-encoding": [words("object", "encoding", "string")],
    "randomkey": [words("randomkey")],
    "dbsize": [words("dbsize")],
    "dump": [words("dump", "string")],
}
HASHES = {
    "hget": [words("hget", "hash", "city")],
    "hset": [words("hset", "hash", "city", "London")],
    "hset-2": [words("hset", "hash", mapping={"city": "London", "born": "1815"})],
    "hsetnx": [words("hsetnx", "hash", "city", "London")],
    "hset+hdel": [words("hset", "hash", "new", "v"), words("hdel", "hash", "new")],
    "hexists": [words("hexists", "hash", "city")],
    "hlen": [words("hlen", "hash")],
    "hstrlen": [words("hstrlen", "hash", "city")],
    "hincrby": [words("hincrby", "hash", "n", 1)],
    "hincrbyfloat": [words("hincrbyfloat", "counts", "float", 0.5)],
    "hmget-2": [words("hmget", "hash", ["city", "born"])],
    "hgetall-5": [words("hgetall", "hash")],
    "hkeys-5": [words("hkeys", "hash")],
    "hvals-5": [words("hvals", "hash")],
    "hrandfield": [words("hrandfield", "hash")],
}
SETS = {
    "sismember": [words("sismember", "set", "three")],
    "sadd": [words("sadd", "set", "three")],
    "sadd+srem": [words("sadd", "set", "new"), words("srem", "set", "new")],
    "sadd+spop": [words("sadd", "popped", "new"), words("spop", "popped")],
    "scard": [words("scard", "set")],
    "smismember-2": [words("smismember", "set", ["one", "none"])],
    "smembers-5": [words("smembers", "set")],
    "srandmember": [words("srandmember", "set")],
    "smove": [words("smove", "set", "second", "one"), words("smove", "second", "set", "one")],
}
LISTS = {
    "lpush+rpop": [words("lpush", "list", "new"), words("rpop", "list")],
    "rpush+lpop": [words("rpush", "list", "new"), words("lpop", "list")],
    "lpushx": [words("lpushx", "none", "new")],
    "rpushx": [words("rpushx", "none", "new")],
    "llen": [words("llen", "list")],
    "lindex": [words("lindex", "list", 2)],
    "lset": [words("lset", "list", 2, "three")],
    "lrange-5": [words("lrange", "list", 0, 4)],
    "lpos": [words("lpos", "list", "none")],
    "linsert+lrem": [words("linsert", "list", "BEFORE", "one", "x"), words("lrem", "list", 1, "x")],
    "ltrim": [words("ltrim", "list", 0, -1)],
    "lmove": [words("lmove", "list", "list", "LEFT", "RIGHT")],
    "rpoplpush": [words("rpoplpush", "list", "list")],
}
SORTED_SETS = {
    "zscore": [words("zscore", "zset", "three")],
    "zadd": [words("zadd", "zset", {"three": 3})],
    "zadd+zrem": [words("zadd", "zset", {"new": 9}), words("zrem", "zset", "new")],
    "zadd+zpopmin": [words("zadd", "zset", {"new": 0}), words("zpopmin", "zset")],
    "zadd+zpopmax": [words("zadd", "zset", {"new": 9}), words("zpopmax", "zset")],
    "zincrby": [words("zincrby", "counted", 1, "one")],
    "zcard": [words("zcard", "zset")],
    "zcount": [words("zcount", "zset", 2, 4)],
    "zlexcount": [words("zlexcount", "zset", "-", "+")],
    "zrank": [words("zrank", "zset", "three")],
    "zrevrank": [words("zrevrank", "zset", "three")],
    "zmscore-2": [words("zmscore", "zset", ["one", "none"])],
    "zrange-5": [words("zrange", "zset", 0, -1)],
    "zrange-scores-5": [words("zrange", "zset", 0, -1, withscores=True)],
    "zrangebyscore-5": [words("zrangebyscore", "zset", 1, 5)],
    "zrevrange-5": [words("zrevrange", "zset", 0, -1)],
    "zrandmember": [words("zrandmember", "zset")],
    "zremrangebyrank": [words("zremrangebyrank", "zset", 9, 10)],
}
OPERATIONS: dict[str, list[Words]] = {
    **STRINGS,
    **KEYS,
    **HASHES,
    **SETS,
    **LISTS,
    **SORTED_SETS,
}


def encoded(argument: Any) -> Any:
    """Return an argument with every string in it encoded as bytes."""
    if isinstance(argument, str):
        return argument.encode()
    if isinstance(argument, list):
        return [encoded(each) for each in argument]
    if isinstance(argument, dict):
        return {encoded(key): encoded(value) for key, value in argument.items()}
    return argument


def connected(kind: str, text: bool, path: str) -> Any:
    """Return a client of an embedded store or of a Redis server."""
    if kind == "embedded":
        import undercroft

        return undercroft.Redis(path, decode_responses=text)
    import redis
    import redis.utils

    parser = "hiredis" if redis.utils.HIREDIS_AVAILABLE else "its own parser"
    print(f"redis-py {redis.__version__} with {parser}", flush=True)
    return redis.Redis(unix_socket_path=path, decode_responses=text)


def fill(client: Any) -> None:
    """Empty the database and add one value of each type."""
    client.flushdb()
    client.mset(dict.fromkeys(["string", "other", "volatile", "moved"], VALUE))
    client.mset({"number": 7, "float": 1.5})
    client.expire("volatile", LATER)
    client.setbit("bits", 1000, 1)
    client.hset("hash", mapping=FIELDS)
    client.sadd("set", *FIVE)
    client.rpush("list", *FIVE)
    client.zadd("zset", {name: at for at, name in enumerate(FIVE, 1)})


def timed(chosen: list[tuple[Callable[..., object], tuple[Any, ...], dict[str, Any]]]) -> Any:
    """Return a loop over one call, or over two calls of which the second undoes the first."""
    (first, one, named), *rest = chosen
    if not rest:

        def alone(count: int) -> float:
            start = time.perf_counter_ns()
            for _ in range(count):
                first(*one, **named)
            return (time.perf_counter_ns() - start) / count

        return alone
    ((second, two, too),) = rest

    def both(count: int) -> float:
        start = time.perf_counter_ns()
        for _ in range(count):
            first(*one, **named)
            second(*two, **too)
        return (time.perf_counter_ns() - start) / count / 2

    return both


def main() -> None:
    """Answer one line at a time until standard input ends."""
    text = sys.argv[2] == "text"
    client = connected(sys.argv[1], text, sys.argv[3])
    # Newer versions of redis-py warn about deprecated methods, which are measured as well.
    warnings.simplefilter("ignore", DeprecationWarning)
    fill(client)
    print("ready", flush=True)
    for line in sys.stdin:
        operation, count = line.split()
        if operation == "names":
            print(*OPERATIONS, flush=True)
            continue
        chosen = [
            (
                getattr(client, method),
                arguments if text else tuple(map(encoded, arguments)),
                options if text else {name: encoded(value) for name, value in options.items()},
            )
            for method, arguments, options in OPERATIONS[operation]
        ]
        try:
            # Run each call once before the timing, so that a failing call is never reported as a
            # figure.
            for call, arguments, options in chosen:
                call(*arguments, **options)
            print(timed(chosen)(int(count)), flush=True)
        except Exception as error:
            print("error", type(error).__name__, " ".join(str(error).split())[:200], flush=True)


if __name__ == "__main__":
    main()
