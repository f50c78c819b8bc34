"""Tests several processes, threads and signals that use one store."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
import undercroft
from children import in_child
from holder import Holder
from undercroft._native import Subscription

WRITERS = 4
ROUNDS = 2000


def count(path: str) -> None:
    r = undercroft.Redis(path)
    for i in range(ROUNDS):
        r.incr("n")
        r.set(f"{os.getpid()}:{i}", "v")


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_no_increment_of_several_processes_is_lost(path: str, method: str) -> None:
    context = multiprocessing.get_context(method)
    with undercroft.Redis(path) as r:
        r.set("n", 0)
        children = [context.Process(target=count, args=(path,)) for _ in range(WRITERS)]
        for child in children:
            child.start()
        for child in children:
            child.join()
        assert [child.exitcode for child in children] == [0] * WRITERS
        assert int(r.get("n")) == WRITERS * ROUNDS
        assert r.dbsize() == 1 + WRITERS * ROUNDS


def test_a_forked_child_uses_the_client_it_inherits(r: undercroft.Redis) -> None:
    r.set("k", "parent")

    def work() -> None:
        assert r.get("k") == b"parent"
        r.set("k", "child")
        assert in_child(lambda: r.set("l", "grandchild") and None) == 0

    assert in_child(work) == 0
    assert r.mget("k", "l") == [b"child", b"grandchild"]
    r.set("k", "parent again")
    assert r.get("k") == b"parent again"


def test_a_child_forked_while_threads_are_busy_works(r: undercroft.Redis) -> None:
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            r.mset({f"{threading.get_ident()}:{i}": i for i in range(50)})

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for i in range(20):
            assert in_child(lambda i=i: r.mset({"child": i, "other": i}) and None) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert r.mget("child", "other") == [b"19", b"19"]


def test_no_increment_of_several_threads_is_lost(r: undercroft.Redis) -> None:
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for i in range(ROUNDS):
                r.incr("n")
                r.execute_command("INCR", "n")
                assert r.mget(["a", "b"])[0] in (
                    None,
                    b"x" * (i + 1),
                    *[b"x" * j for j in range(9)],
                )
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert int(r.get("n")) == WRITERS * ROUNDS * 2


def ringing(call: Callable[[], object], interval: float = 0) -> None:
    """Make a call during which an alarm signal arrives, repeatedly if an interval is given."""
    before = signal.setitimer(signal.ITIMER_REAL, 0.05, interval)
    try:
        call()
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)


def test_waiting_for_a_stopped_process_ends_with_an_error_or_a_signal(path: str) -> None:
    holder = Holder(path)
    try:
        r = undercroft.Redis(path, timeout=0.2)
        holder.stop(r)
        with pytest.raises(
            redis.TimeoutError, match=f"process {holder.process.pid} holds a lock and is stopped"
        ):
            r.execute_command("SET", "key:1", "x")

        # With this timeout, no call times out during the test.
        r = undercroft.Redis(path, timeout=3600)
        waiting = threading.Thread(target=lambda: r.set("key:1", "from the thread"))
        waiting.start()
        # This thread continues, because the waiting thread does not hold the interpreter lock.
        alarms: list[int] = []

        def ring(number: int, _: object) -> None:
            # The wait continues after a handler that raises nothing.
            alarms.append(number)
            if len(alarms) == 5:
                signal.raise_signal(signal.SIGINT)

        alarm = signal.signal(signal.SIGALRM, ring)
        interrupt = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt):
                ringing(lambda: r.set("key:1", "never written"), 0.05)
            assert len(alarms) >= 5
        finally:
            signal.signal(signal.SIGINT, interrupt)
            signal.signal(signal.SIGALRM, alarm)
        assert waiting.is_alive()
    finally:
        holder.end()
    waiting.join()
    # The wait ends: the holder's death was detected and its transaction rolled back.
    assert r.get("key:1") == b"from the thread"


def test_a_process_may_exit_while_a_thread_waits(path: str) -> None:
    holder = Holder(path)
    try:
        holder.stop(undercroft.Redis(path, timeout=0.2))
        code = """
import sys, threading, undercroft
r = undercroft.Redis(sys.argv[1], timeout=3600)
threading.Thread(target=lambda: r.set("key:1", "x"), daemon=True).start()
print("ended")
"""
        run = subprocess.run(
            [sys.executable, "-c", code, path],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (run.returncode, run.stdout, run.stderr) == (0, "ended\n", "")
    finally:
        holder.end()


def test_a_receiver_in_use_at_a_fork_does_not_hang_the_child(path: str) -> None:
    class Alarm(Exception):  # noqa: N818
        pass

    def ring(*_: object) -> None:
        raise Alarm

    def forked() -> int:
        """Return nonzero if a forked child gets the error for the missing working thread."""
        child = os.fork()
        if child == 0:
            try:
                os._exit(native.read(0) is not None)
            except redis.ConnectionError:
                os._exit(2)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

    holder = Holder(path)
    handler = signal.signal(signal.SIGALRM, ring)
    try:
        holder.stop(undercroft.Redis(path, timeout=0.2))
        native = Subscription(undercroft.Redis(path, timeout=3600))
        # The names cover all shards, so one of them is in the shard that the stopped process has
        # locked.
        names = ("SUBSCRIBE", *map(str, range(1000)))
        thread = threading.Thread(target=native.command, args=(names,))
        thread.start()
        while (told := forked()) == 0:  # until the thread is working
            pass
        assert told == 2
        with pytest.raises(Alarm):
            ringing(lambda: native.read(0))
    finally:
        signal.signal(signal.SIGALRM, handler)
        holder.end()
    thread.join()
    assert native.read(0) == [b"subscribe", b"0", 1]


def test_a_killed_writer_does_not_disturb_others(path: str) -> None:
    holder = Holder(path)
    holder.end()
    with undercroft.Redis(path) as r:
        values = {len(value) for value in r.mget([f"key:{i}" for i in range(2000)]) if value}
        assert values <= {30}
        assert r.mset({f"key:{i}": "new" for i in range(2000)})
    assert Path(path).exists()
