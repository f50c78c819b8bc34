"""Greenlets that wait, run by `test_green.py`: `green_program.py gevent|eventlet SERVER STORE`."""

import sys
from collections.abc import Callable
from queue import Empty
from typing import Any

KIND, SERVER, STORE = sys.argv[1:]
if KIND == "gevent":
    from gevent import monkey

    monkey.patch_all()
    import gevent

    spawn: Any = gevent.spawn
    sleep: Any = gevent.sleep

    def result(greenlet: Any) -> Any:
        """Return the result of a finished greenlet."""
        return greenlet.get()
else:
    import warnings

    warnings.simplefilter("ignore")
    import eventlet

    eventlet.monkey_patch()
    spawn, sleep = eventlet.spawn, eventlet.sleep

    def result(greenlet: Any) -> Any:
        """Return the result of a finished greenlet."""
        return greenlet.wait()


import redis  # noqa: E402
import undercroft  # noqa: E402

# A timeout in seconds that a wait reaches only if it blocks the other greenlets.
LONG = 100


def both(wait: Callable[[], Any], end: Callable[[], Any]) -> Any:
    """Begin a wait, make the call that ends it, and return the wait's result."""
    begun: list[int] = []

    def begin() -> Any:
        begun.append(1)
        return wait()

    waiting = spawn(begin)
    while not begun:
        sleep(0)
    # The greenlet is waiting at this point, because other greenlets run only while it waits.
    sleep(0.01)
    end()
    return result(waiting)


def commands(r: Any) -> None:
    """Test commands that wait for keys."""
    r.flushdb()
    assert both(lambda: r.blpop(["a"], LONG), lambda: r.rpush("a", 1)) == (b"a", b"1")
    assert both(lambda: r.brpop(["a"], LONG), lambda: r.rpush("a", 1)) == (b"a", b"1")
    assert both(lambda: r.blmove("a", "b", LONG), lambda: r.rpush("a", 1)) == b"1"
    assert both(lambda: r.blmpop(LONG, 1, "a", direction="LEFT"), lambda: r.rpush("a", 1))
    popped = both(lambda: r.bzpopmin(["z"], LONG), lambda: r.zadd("z", {"m": 1}))
    assert popped == (b"z", b"m", 1.0)
    run = r.execute_command
    assert both(lambda: run("BRPOPLPUSH", "a", "b", LONG), lambda: r.rpush("a", 1)) == b"1"
    r.xadd("s", {"f": 1})
    assert both(lambda: r.xread({"s": "$"}, block=LONG * 1000), lambda: r.xadd("s", {"f": 2}))
    r.xgroup_create("s", "group", "$")
    take = r.xreadgroup
    assert both(
        lambda: take("group", "me", {"s": ">"}, block=LONG * 1000), lambda: r.xadd("s", {"f": 3})
    )
    assert r.blpop(["none"], 0.01) is None
    pipe = r.pipeline(transaction=False).set("k", 1).blpop(["a"], LONG).get("k")
    assert both(pipe.execute, lambda: r.rpush("a", 2)) == [True, (b"a", b"2"), b"1"]


def messages(r: Any) -> None:
    """Test messages and locks."""
    with r.pubsub(ignore_subscribe_messages=True) as receiver:
        receiver.subscribe("news")
        while not r.publish("news", "first"):
            sleep(0)
        while (first := receiver.get_message(timeout=LONG)) is None:
            pass
        assert first["data"] == b"first"
        listening = receiver.listen()
        assert both(lambda: next(listening), lambda: r.publish("news", "x"))["data"] == b"x"
    lock = r.lock("lock", timeout=LONG)
    assert lock.acquire()

    def locked() -> bool:
        with r.lock("lock", timeout=LONG):
            return True

    assert both(locked, lock.release)


def many(r: Any) -> None:
    """Test many greenlets that wait at the same time, each served by one push."""
    waiting = [spawn(r.blpop, ["many"], LONG) for _ in range(50)]
    sleep(0.01)
    for number in range(50):
        r.rpush("many", number)
    assert sorted(int(result(each)[1]) for each in waiting) == list(range(50))


def cancelled(r: Any) -> None:
    """Test that a greenlet that is killed while it waits removes no item."""
    waiting = spawn(r.blpop, ["killed"], LONG)
    sleep(0.01)
    waiting.kill()
    r.rpush("killed", 1)
    assert r.lpop("killed") == b"1"


def reused(r: Any) -> None:
    """Test that a connection is reused and that a pipeline returns its results."""
    before = r.client_id()
    assert [r.set("k", number) and r.get("k") for number in range(3)] == [b"0", b"1", b"2"]
    assert r.pipeline().set("k", 1).get("k").execute() == [True, b"1"]
    assert r.client_id() == before


def channels(store: Any) -> None:
    """Test channels in a store, and its client without redis-py."""
    channel = undercroft.Channel("c", store, maxsize=1)
    assert both(lambda: channel.get(timeout=LONG), lambda: channel.put("x")) == "x"
    channel.put("first")
    taken: list[Any] = []
    assert (
        both(lambda: channel.put("second", timeout=LONG), lambda: taken.append(channel.get()))
        is None
    )
    assert channel.get_many(1, timeout=LONG) == ["second"]
    try:
        channel.get(timeout=0.01)
    except Empty:
        pass
    else:
        raise AssertionError("expected Empty")
    run = store.execute
    pushed = both(lambda: run("BLPOP", "list", LONG), lambda: run("RPUSH", "list", 1))
    assert pushed == [b"list", b"1"]


def connections(r: Any) -> None:
    """Test redis-py's connections to a store."""
    theirs = redis.Redis(connection_pool=r.connection_pool)
    r.delete("a")
    assert both(lambda: theirs.blpop(["a"], LONG), lambda: r.rpush("a", 1)) == (b"a", b"1")
    with theirs.pubsub(ignore_subscribe_messages=True) as receiver:
        receiver.subscribe("news")
        listening = receiver.listen()
        assert both(lambda: next(listening), lambda: r.publish("news", "x"))["data"] == b"x"


def caches(r: Any) -> None:
    """Test a cached result that another greenlet computes."""
    r.delete("computing")

    @r.cache(ttl=LONG)
    def computed() -> bytes:
        r.rpush("begun", 1)
        r.blpop(["computing"], LONG)
        return b"x"

    first = spawn(computed)
    r.blpop(["begun"], LONG)
    assert both(computed, lambda: r.rpush("computing", 1)) == b"x"
    assert result(first) == b"x"


server = undercroft.Redis.from_url(SERVER)
embedded = undercroft.Redis(STORE)
for client in (server, embedded):
    for test in (commands, messages, many, cancelled):
        test(client)
reused(server)
connections(embedded)
caches(embedded)
channels(undercroft.Store(STORE))
print("done")
