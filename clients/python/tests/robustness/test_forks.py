"""Forked children of a process with busy threads call every public method.

A lock that another thread holds at the time of the fork remains locked in the child, so a call that
needs the lock hangs. The calls are derived from the classes.
"""

import asyncio
import faulthandler
import inspect
import multiprocessing
import random
import threading
import traceback
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
from chance import drawn_seed
from children import fork, status_of

# The seconds after which a child counts as hanging. The child then prints its stacks and fails.
HANGS = 60
# The arguments by parameter name; any other parameter gets the name of a key.
VALUES: dict[str, Any] = {
    **dict.fromkeys(("amount", "count", "num", "numkeys", "db", "index", "start", "offset"), 1),
    **dict.fromkeys(("end", "value", "time", "when", "bit", "score", "min", "max"), 1),
    **dict.fromkeys(("seconds", "milliseconds", "ttl", "size", "cursor", "first", "last"), 1),
    "mapping": {"a": 1},
    "streams": {"stream": "0"},
    "fields": {"a": "b"},
    "keys": ["k", "l"],
    "script": "return 1",
    "numreplicas": 0,
    "num_replicas": 0,
    "num_local": 0,
    "where": "BEFORE",
    "operation": "AND",
    "func": lambda _: None,
}
# Methods that stop the server, wait without a timeout, or open another kind of connection.
LEFT_OUT = {
    *("shutdown", "failover", "sync", "psync", "replicaof", "slaveof", "client_pause", "monitor"),
    *("save", "bgsave", "bgrewriteaof", "script_debug", "run", "run_in_thread", "listen"),
    *("set_retry", "set_response_callback", "debug_segfault", "migrate", "module_load"),
    *("module_loadex", "reset", "quit", "acl_setuser", "client_reply"),
}
Instances = dict[str, Any]


def calls(kind: type[Any]) -> Iterator[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    """Yield all public methods of a class, with arguments for each."""
    for name in sorted(dir(kind)):
        method = inspect.getattr_static(kind, name)
        if name.startswith("_") or name in LEFT_OUT or not callable(method):
            continue
        try:
            parameters = list(inspect.signature(getattr(kind, name)).parameters.values())[1:]
        except (TypeError, ValueError):
            parameters = []
        args: list[Any] = []
        options: dict[str, Any] = {}
        for each in parameters:
            value = VALUES.get(each.name, "k")
            if each.name == "block":
                # The argument is a number of milliseconds, or a flag that specifies whether to
                # wait.
                value = False if each.default is True else 1
            elif "timeout" in each.name:
                value = 0.01
            elif each.default is not each.empty or each.kind is each.VAR_KEYWORD:
                continue
            is_placed = each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
            if (
                is_placed and each.default is each.empty and not options
            ) or each.kind is each.VAR_POSITIONAL:
                args.append(value)
            else:
                options[each.name] = value
        yield name, tuple(args), options


Calls = list[tuple[str, tuple[Any, ...], dict[str, Any]]]


def call_all(instance: Any, made: Calls) -> int:
    """Make calls, and return how many yielded a result or an error from the store."""
    reached = 0
    for name, args, options in made:
        with suppress(Exception):
            try:
                result = getattr(instance, name)(*args, **options)
                if inspect.iscoroutine(result):
                    result.close()
            except redis.RedisError:
                pass
            reached += 1
    return reached


async def await_all(instance: Any, made: Calls) -> int:
    """Make the calls on an instance whose methods are awaited."""
    reached = 0
    for name, args, options in made:
        with suppress(Exception):
            try:
                result = getattr(instance, name)(*args, **options)
                if inspect.isawaitable(result):
                    await result
            except redis.RedisError:
                pass
            reached += 1
    return reached


def instances(url: str, package: Any) -> Instances:
    """Return instances of all public classes of a store's or server's client."""
    client = package.Redis.from_url(url)
    found = {
        "client": client,
        "pipeline": client.pipeline(),
        "messages": client.pubsub(),
        "lock": client.lock("lock", timeout=10, blocking_timeout=0.01),
        "feed": client.feed("feed"),
        "script": client.register_script("return 1"),
        "pool": client.connection_pool,
    }
    found["channel"] = package.Channel("channel", url)
    found["objects"] = package.Objects(url)
    if url.startswith("undercroft"):
        found["store"] = package.Store(url)
    return found


@contextmanager
def busy(url: str, served: str) -> Iterator[None]:
    """Run threads that use a store and a server in every way."""
    stop = threading.Event()
    store, server = undercroft.Redis.from_url(url), undercroft.Redis.from_url(served)

    def embedded() -> None:
        while not stop.is_set():
            store.incr("busy")
            store.eval("return redis.call('GET', KEYS[1])", 1, "busy")
            store.pipeline().rpush("queue", 1).lpop("queue").execute()
            store.publish("news", "x")
            store.config_get("max*")

    def remote() -> None:
        messages = server.pubsub()
        messages.subscribe("news")
        while not stop.is_set():
            server.incr("busy")
            server.pipeline().rpush("queue", 1).lpop("queue").execute()
            server.publish("news", "x")
            messages.get_message()
        messages.close()

    def looping() -> None:
        async def main() -> None:
            async with (
                undercroft.asyncio.Redis.from_url(url) as store,
                undercroft.asyncio.Redis.from_url(served) as server,
            ):
                while not stop.is_set():
                    for client in (store, server):
                        await asyncio.gather(*(client.incr("busy") for _ in range(5)))
                        await client.blpop(["nothing"], 0.001)

        asyncio.run(main())

    threads = [threading.Thread(target=work) for work in (embedded, embedded, remote, looping)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        store.close()
        server.close()


def child(client: Any, part: list[tuple[Any, Calls]]) -> None:
    """Make calls on several instances, and use the client afterwards."""
    faulthandler.dump_traceback_later(HANGS, exit=True)
    try:
        for instance, made in part:
            make(client, instance, made)
        use(client)
    except BaseException:
        traceback.print_exc()
        raise


def make(client: Any, instance: Any, made: Calls) -> None:
    """Make calls on one instance."""
    if is_async(client):
        reached = asyncio.run(await_all(instance, made))
    else:
        reached = call_all(instance, made)
    if instance is client:
        assert reached >= 0.5 * len(made), f"{reached} of {len(made)} calls"


def is_async(client: Any) -> bool:
    return isinstance(client, undercroft.asyncio.Redis)


def use(client: Any) -> None:
    """Set a key and read it back."""

    async def again() -> None:
        assert await client.set("child", "yes")
        assert await client.get("child") == b"yes"

    if is_async(client):
        asyncio.run(again())
    else:
        assert client.set("child", "yes")
        assert client.get("child") == b"yes"


@pytest.fixture
def places(path: str, server_socket: str) -> tuple[str, str]:
    """Return the URLs of a store and of a server."""
    return f"undercroft://{path}", f"unix://{server_socket}"


@pytest.mark.parametrize("package", [undercroft, undercroft.asyncio], ids=["sync", "asyncio"])
@pytest.mark.parametrize("place", [0, 1], ids=["embedded", "served"])
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::RuntimeWarning")
def test_a_child_forked_at_any_moment_can_make_every_call(
    place: int, package: Any, places: tuple[str, str]
) -> None:
    seed = drawn_seed()
    rng = random.Random(seed)
    with ExitStack() as stack:
        stack.enter_context(busy(*places))
        made = instances(places[place], package)
        client = made["client"]
        other = undercroft.Redis.from_url(places[place])
        drawn = list(calls(type(client)))
        rng.shuffle(drawn)
        half = len(drawn) // 2
        # Make all calls of a client and some calls of every other instance. At other random
        # moments, make only a few calls.
        parts = [[(client, drawn[:half])], [(client, drawn[half:])], []]
        for instance in made.values():
            some = list(calls(type(instance)))
            parts[2].append((instance, rng.sample(some, min(60, len(some)))))
        parts += [[(client, rng.sample(drawn, 40))] for _ in range(3)]
        for part in parts:
            for _ in range(rng.randrange(100)):
                other.get("busy")
            assert status_of(fork(lambda part=part: child(client, part))) == 0, seed
        other.close()


# Classes that the instances use internally, or that only create clients.
WITHIN = {
    *("BlockingConnectionPool", "Connection", "SSLConnection", "UnixDomainSocketConnection"),
    *("StoreConnection", "Delivery", "CredentialProvider", "UsernamePasswordCredentialProvider"),
    *("Sentinel", "SentinelConnectionPool", "SentinelManagedConnection", "StrictRedis"),
    *("SentinelManagedSSLConnection", "RedisCluster", "Redis", "ChannelClosed", "PickleRefused"),
}


@pytest.mark.parametrize("package", [undercroft, undercroft.asyncio], ids=["sync", "asyncio"])
def test_each_public_class_is_among_the_instances(package: Any, places: tuple[str, str]) -> None:
    made = [each for url in places for each in instances(url, package).values()]
    for name in package.__all__:
        kind = getattr(package, name)
        if isinstance(kind, type) and not issubclass(kind, Exception) and name not in WITHIN:
            assert any(isinstance(each, kind) for each in made), name


def forked(client: Any, told: Any) -> None:
    """Use the client in a `multiprocessing` process, which reports its success as a number."""
    told.value = client.incr("forked")


@pytest.mark.parametrize("place", [0, 1], ids=["embedded", "served"])
def test_processes_of_multiprocessing_work_under_load(place: int, places: tuple[str, str]) -> None:
    context: Any = multiprocessing.get_context("fork")
    with busy(*places), undercroft.Redis.from_url(places[place]) as client:
        client.delete("forked")
        for number in range(5):
            result = context.Value("i", 0)
            process = context.Process(target=forked, args=(client, result))
            process.start()
            process.join(HANGS)
            assert process.exitcode == 0
            assert result.value == number + 1
