"""Tests embedded commands that wait for keys: threads, processes, signals and pipelines."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
import redis
import undercroft

WAITER = """
import sys, undercroft
r = undercroft.Redis(sys.argv[1])
print("ready", flush=True)
print(r.blpop("jobs"), flush=True)
"""


def waiter(path: str) -> subprocess.Popen[str]:
    """Start a process that waits for an item from the list ``jobs``."""
    child = subprocess.Popen(
        [sys.executable, "-c", WAITER, path], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    return child


def wait_for(r: undercroft.Redis, key: str) -> None:
    """Push items until a waiter removes one immediately."""
    while r.rpush(key, "probe") != 1 or r.lpop(key) is not None:
        time.sleep(0.001)


def test_other_threads_run_while_one_waits(r: undercroft.Redis) -> None:
    taken: list[object] = []
    threads = [threading.Thread(target=lambda: taken.append(r.blpop("k"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(4):
        r.rpush("k", number)
    for thread in threads:
        thread.join()
    assert sorted(taken) == [(b"k", str(number).encode()) for number in range(4)]


def test_a_wait_ends_at_its_timeout(r: undercroft.Redis) -> None:
    for timeout in (0.01, 0.15):
        start = time.monotonic()
        assert r.blpop("k", timeout=timeout) is None
        assert time.monotonic() - start >= timeout


def test_blocking_commands_do_not_wait_within_a_transaction(r: undercroft.Redis) -> None:
    with r.pipeline(transaction=True) as p:
        p.blpop("k").rpush("k", 1).blpop("k").bzpopmin("z")
        assert p.execute() == [None, 1, (b"k", b"1"), None]


def test_an_item_goes_to_a_waiting_process(r: undercroft.Redis, path: str) -> None:
    child = waiter(path)
    wait_for(r, "jobs")
    out, _ = child.communicate()
    assert out == "(b'jobs', b'probe')\n"


def test_a_stopped_and_killed_process_loses_no_item(r: undercroft.Redis, path: str) -> None:
    child = waiter(path)
    # Until the child begins to wait, pushed items remain in the list.
    while True:
        child.send_signal(signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        try:
            r.rpush("jobs", "one")
            break
        except redis.TimeoutError:
            # The child was stopped while it held a lock, just as it began to wait.
            child.send_signal(signal.SIGCONT)
    child.kill()
    child.wait()
    assert r.blpop("jobs", timeout=10) == (b"jobs", b"one")


def waiting(r: undercroft.Redis) -> int:
    """Return the number of bytes that waits and subscriptions occupy."""
    return r.info("memory")["used_memory_waiting"]


def test_memory_of_killed_waiters_and_subscribers_is_freed_without_a_server(
    r: undercroft.Redis, path: str
) -> None:
    program = """
import sys, undercroft
r = undercroft.Redis(sys.argv[1])
pubsub = r.pubsub()
pubsub.subscribe(*[f"channel {sys.argv[2]} {name}" for name in range(60)])
print("ready", flush=True)
r.blpop([f"list {sys.argv[2]} {name}" for name in range(60)])
"""
    command = [sys.executable, "-c", program, path]
    for round in range(5):
        children = [
            subprocess.Popen([*command, f"{round} {child}"], stdout=subprocess.PIPE, text=True)
            for child in range(4)
        ]
        for child in children:
            assert child.stdout is not None
            assert child.stdout.readline() == "ready\n"
        assert waiting(r) > 0
        for child in children:
            child.kill()
            child.communicate()
    assert waiting(r) > 0
    # A process that writes frees the memory of dead processes over time, even if it uses none of
    # their keys.
    while waiting(r) > 0:
        r.set("k", "v")
    assert r.pubsub_channels() == []


def test_a_signal_handler_ends_the_wait(path: str) -> None:
    code = """
import signal, sys, undercroft
def stop(*_): raise InterruptedError("stopped")
signal.signal(signal.SIGUSR1, stop)
r = undercroft.Redis(sys.argv[1])
try:
    print("ready", flush=True)
    r.blpop("jobs")
except InterruptedError as error:
    print(error, flush=True)
r.rpush("jobs", "kept")
print(r.lrange("jobs", 0, -1), flush=True)
"""
    child = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    child.send_signal(signal.SIGUSR1)
    out, _ = child.communicate()
    assert out == "stopped\n[b'kept']\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="os.fork does not exist here")
def test_a_forked_child_waits_independently(r: undercroft.Redis) -> None:
    assert r.blpop("k", timeout=0.001) is None
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if r.blpop("k", timeout=30) == (b"k", b"child's") else 2
        finally:
            os._exit(status)
    r.rpush("k", "child's")
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
