"""Tests signal handlers that use the interrupted call's object, or that end scripts."""

import os
import signal
import threading

import pytest
import redis
import undercroft
from children import fork, status_of
from holder import Holder
from undercroft._native import Subscription


def test_a_handler_can_close_the_receiver_it_interrupts(path: str) -> None:
    holder = Holder(path)
    told: list[str] = []
    done = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def send() -> None:
        while not done.wait(0.01):
            signal.pthread_kill(main, signal.SIGUSR1)

    def ring(*_: object) -> None:
        if told:
            return
        try:
            native.read(0)  # raises only once the call has begun to wait
        except redis.ConnectionError as error:
            told.append(str(error))
            native.close()
            done.set()
            holder.end()

    handler = signal.signal(signal.SIGUSR1, ring)
    sender = threading.Thread(target=send)
    try:
        holder.stop(undercroft.Redis(path, timeout=0.2))
        r = undercroft.Redis(path, timeout=3600)
        native = Subscription(r)
        # The names cover all shards, so one of them is in the shard that the stopped process has
        # locked.
        names = [str(number) for number in range(1000)]
        sender.start()
        with pytest.raises(redis.ConnectionError, match="closed by its client"):
            native.command(("SUBSCRIBE", *names))
        assert told == ["the connection is in use by the call that the signal interrupted"]
        with pytest.raises(redis.ConnectionError, match="closed by its client"):
            native.read(0)
        assert r.pubsub_numsub(*names) == [(name.encode(), 0) for name in names]
    finally:
        done.set()
        if sender.is_alive():
            sender.join()
        signal.signal(signal.SIGUSR1, handler)
        holder.end()


def press_once_it_runs(path: str, *call: str) -> int:
    """Fork a child that sends Ctrl-C as soon as a script blocks the child's call."""
    parent = os.getpid()

    def press() -> None:
        beside = undercroft.Redis(path, timeout=0.02)
        # Stop when the parent no longer exists, because no process then waits for this child.
        while os.getppid() == parent:
            try:
                getattr(beside, call[0])(*call[1:])
            except redis.ResponseError as error:
                assert str(error).startswith("BUSY"), error  # noqa: PT017 - another error is a fault
                os.kill(parent, signal.SIGINT)
                return
            except redis.TimeoutError:
                pass

    undercroft.Redis(path).config_set("busy-reply-threshold", 1)
    return fork(press)


# PERSIST runs as a general command, SET and LPOP as typed calls.
@pytest.mark.parametrize("call", [("persist", "k"), ("set", "k", "v"), ("lpop", "k")])
def test_ctrl_c_ends_a_script_that_has_written_nothing(path: str, call: tuple[str, ...]) -> None:
    r = undercroft.Redis(path)
    # Set the handler, because a program started in the background ignores Ctrl-C.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        child = press_once_it_runs(path, *call)
        with pytest.raises(KeyboardInterrupt):
            r.eval("redis.call('get', KEYS[1]) while true do end", 1, "k")
        assert status_of(child) == 0
        assert r.eval("return 1", 0) == 1
    finally:
        signal.signal(signal.SIGINT, handler)


@pytest.mark.parametrize("command", ["get", "incr"])
def test_a_handler_that_raises_nothing_does_not_end_a_script(path: str, command: str) -> None:
    r = undercroft.Redis(path)
    told: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: told.append(number))
    try:
        child = press_once_it_runs(path, "persist", "k")
        while not told:
            r.delete("k")
            first = f"redis.call('{command}', KEYS[1])"
            last = "for i = 1, 2e7 do end return redis.call('incr', KEYS[1])"
            assert r.eval(f"{first} {last}", 1, "k") == (2 if command == "incr" else 1)
        assert status_of(child) == 0
    finally:
        signal.signal(signal.SIGINT, handler)
