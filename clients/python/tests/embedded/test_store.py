"""Tests that `undercroft.Store` matches `undercroft.Redis` on a store, without redis-py."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
from conftest import Run
from test_rows import CALLS, OPTIONS, STATES, contents, outcome, prepare
from undercroft._native import METHODS

EVERY = [(name, call, {}) for name, calls in CALLS.items() for call in calls] + OPTIONS


def agree(own: tuple[str, Any], redis_pys: tuple[str, Any]) -> bool:
    """Return whether two outcomes are equivalent, although the clients' exceptions differ."""
    if "raised" not in (own[0], redis_pys[0]):
        return own == redis_pys
    if own[0] != redis_pys[0]:
        # redis-py rejects some arguments itself, or returns a default for calls that the store
        # rejects.
        return own[0] == "raised" and own[1][0] in (undercroft.CommandError, TypeError)
    (kind, text), (theirs, their_text) = own[1], redis_pys[1]
    if issubclass(theirs, redis.DataError | TypeError):
        return kind in (undercroft.CommandError, TypeError)
    return kind is undercroft.CommandError and text.endswith(their_text)


@pytest.mark.parametrize("decode", [False, True], ids=["bytes", "str"])
@pytest.mark.parametrize("state", STATES)
def test_methods_match_those_of_the_redis_client(path: str, state: str, decode: bool) -> None:
    refused = 0
    with (
        undercroft.Redis(f"{path}-theirs", decode_responses=decode) as theirs,
        undercroft.Redis(f"{path}-ours", decode_responses=decode) as beside,
        undercroft.Store(f"{path}-ours", decode_responses=decode) as ours,
    ):
        for name, arguments, options in EVERY:
            prepare(beside, state)
            prepare(theirs, state)
            own = outcome(lambda: getattr(ours, name)(*arguments, **options))  # noqa: B023
            redis_pys = outcome(lambda: getattr(theirs, name)(*arguments, **options))  # noqa: B023
            assert agree(own, redis_pys), (name, arguments, options, own, redis_pys)
            refused += own[0] != redis_pys[0]
            if own[0] == redis_pys[0]:
                assert contents(beside) == contents(theirs), (name, arguments, options)
    # Only calls with empty lists may differ, because redis-py answers them itself.
    assert refused <= 2


def test_redis_py_is_not_imported() -> None:
    program = """
import sys, undercroft
import tempfile
with tempfile.TemporaryDirectory(dir="/dev/shm") as home:
    with undercroft.Store(home + "/store") as store:
        store.set("k", "v")
        assert store.get("k") == b"v"
        for wrong in (lambda: store.hget("k", "f"), lambda: store.get()):
            try:
                wrong()
            except (undercroft.StoreError, TypeError):
                pass
            else:
                raise AssertionError
    try:
        undercroft.Store(home + "/none/store")
    except undercroft.UnavailableError:
        pass
    import asyncio, undercroft.asyncio
    async def main():
        async with undercroft.asyncio.Store(home + "/store") as store:
            assert await store.get("k") == b"v"
    asyncio.run(main())
assert "redis" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_url_specifies_the_path_and_options(path: str) -> None:
    with undercroft.Store(f"undercroft://{path}?db=3&decode_responses=yes") as store:
        store.set("k", "v")
        assert (store.get("k"), store.db, str(store.path)) == ("v", 3, path)
        assert repr(store) == f"<undercroft.embedded.store.Store({path!r}, db=3)>"
    with undercroft.Redis(path, db=3) as r:
        assert r.get("k") == b"v"
    with pytest.raises(ValueError, match="expected one of the options"):
        undercroft.Store(f"undercroft://{path}?socket_timeout=3")
    with pytest.raises(ValueError, match="'cache'"):
        undercroft.Store("cache")


def test_any_argument_may_be_a_type_that_the_encoder_accepts(path: str) -> None:
    class Text(str):
        __slots__ = ()

    with undercroft.Store(path) as store:
        for value in (bytearray(b"1"), memoryview(b"1"), Text("1"), b"1", "1", 1):
            store.set("k", value)
            assert store.get("k") == b"1"
        assert store.incrby("n", 10**18) == 10**18
        with pytest.raises(TypeError):
            store.set("k", None)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            store.set("k", True, nonsense=1)  # type: ignore[call-arg]


def test_a_program_cannot_ask_for_replicas(path: str) -> None:
    with undercroft.Redis(path) as r:
        with pytest.raises(undercroft.ResponseError, match="it needs a server"):
            r.config_set("min-replicas-to-write", 1)
        assert r.config_set("min-replicas-to-write", 0)
        assert r.config_get("min-replicas-to-write") == {"min-replicas-to-write": "0"}
        assert r.set("k", "v")


def test_execute_runs_any_command_by_name(path: str) -> None:
    with undercroft.Store(path) as store:
        assert store.execute("SET", "k", 1) == b"OK"
        assert store.execute("OBJECT", "ENCODING", "k") == b"int"
        with undercroft.Store(path, decode_responses=True) as text:
            assert text.execute("OBJECT", "ENCODING", "k") == "int"
            assert text.execute("DUMP", "k", decode=False) == store.execute("DUMP", "k")
        with pytest.raises(undercroft.CommandError, match="ERR unknown command"):
            store.execute("NONSENSE")


def test_positions_have_the_digits_that_a_server_sends(path: str) -> None:
    with undercroft.Store(path) as store:
        store.execute("GEOADD", "g", "0.000002", "0", "near")
        [[longitude, latitude]] = store.execute("GEOPOS", "g", "near")
        # Redis 7.0 sends these digits without an exponent.
        assert longitude == b"0.00000268220901489"
        assert b"e" not in latitude
        [[_, [same, _]]] = store.execute(
            "GEOSEARCH", "g", "FROMMEMBER", "near", "BYRADIUS", 1, "m", "WITHCOORD"
        )
        assert same == longitude
        assert store.execute("EVAL", "return redis.call('geopos', 'g', 'near')[1][1]", 0) == same


def test_a_closed_store_is_opened_again(path: str) -> None:
    store = undercroft.Store(path)
    store.set("k", "v")
    store.close()
    assert store.get("k") == b"v"
    store.close()


def test_a_forked_child_uses_the_store(path: str) -> None:
    with undercroft.Store(path) as store:
        store.set("k", "v")
        child = os.fork()
        if child == 0:
            os._exit(0 if store.get("k") == b"v" and store.incr("n") == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
        assert store.get("n") == b"1"


def test_using_a_removed_store_raises_unavailable_error(path: str) -> None:
    def written(store: undercroft.Store) -> None:
        # The client checks once a second whether the store's file exists.
        while True:
            store.set("k", "w")

    with undercroft.Store(path, on_removed="error") as store:
        store.set("k", "v")
        Path(path).unlink()
        with pytest.raises(undercroft.UnavailableError):
            written(store)


def at_once(call: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of a coroutine that finishes without a turn of the loop."""
    try:
        call.send(None)
    except StopIteration as stopped:
        return stopped.value
    return "it waits"


def test_the_asyncio_store_matches_the_synchronous_one(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Store(path, decode_responses=True) as store:
            for name, arguments, options in EVERY:
                with undercroft.Redis(path) as beside:
                    prepare(beside, "sorted set")
                own = outcome(lambda: getattr(store.store, name)(*arguments, **options))  # noqa: B023
                with undercroft.Redis(path) as beside:
                    prepare(beside, "sorted set")
                call = getattr(store, name)(*arguments, **options)
                assert own == outcome(lambda: at_once(call)), name  # noqa: B023

    run(main())


def test_blocking_commands_do_not_block_the_loop(path: str, run: Run) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Store(path) as store:
            waiting = asyncio.create_task(store.execute("BLPOP", "l", 0))
            await asyncio.sleep(0)
            await store.rpush("l", "x")
            assert await waiting == [b"l", b"x"]
            with pytest.raises(undercroft.CommandError):
                await store.execute("BLPOP", "l", "nonsense")

    run(main())


def test_every_method_can_be_awaited() -> None:
    for _, name in METHODS:
        assert asyncio.iscoroutinefunction(getattr(undercroft.asyncio.Store, name)), name
        assert asyncio.iscoroutinefunction(getattr(undercroft.asyncio.EmbeddedRedis, name)), name
