"""Tests that a store with a journal is recovered after its processes and its file are gone."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import redis
import undercroft

# Writes numbered keys and list items, and prints each number once its call has returned.
WRITER = """
import itertools, sys
import undercroft
r = undercroft.Redis(sys.argv[1], durability="always", journal=sys.argv[2])
for number in itertools.count():
    with r.pipeline() as pipe:
        pipe.set(f"session:{number}", "x" * (number % 300))
        pipe.rpush("jobs", number)
        pipe.execute()
    print(number, flush=True)
"""


def test_acknowledged_changes_survive_the_loss_of_all_processes_and_the_file(path: str) -> None:
    """Kill writers, remove the store, and find every acknowledged change."""
    folder = f"{path}.kept"
    acknowledged = -1
    for _ in range(2):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, path, folder], stdout=subprocess.PIPE, text=True
        ) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                acknowledged = int(line)
                if acknowledged >= 40:
                    writer.send_signal(signal.SIGKILL)
            writer.wait()
        Path(path).unlink()
        with undercroft.Redis(path, journal=folder) as r:
            jobs = [int(job) for job in r.lrange("jobs", 0, -1)]
            assert acknowledged in jobs
            # Each transaction is recovered completely or not at all.
            assert all(r.strlen(f"session:{job}") == job % 300 for job in jobs)
            r.delete("jobs")


def test_everysec_is_recovered_after_a_close(path: str) -> None:
    """Close a store, which makes its changes durable, and lose its file."""
    with undercroft.Redis(f"undercroft://{path}?durability=everysec") as r:
        r.hset("user:1", mapping={"name": "Ada", "visits": 3})
        r.xadd("log", {"event": "login"})
    Path(path).unlink()
    with undercroft.Redis(path) as r:
        assert r.hgetall("user:1") == {b"name": b"Ada", b"visits": b"3"}
        assert r.xlen("log") == 1


def test_forked_child_keeps_the_journal(path: str) -> None:
    """Write in a forked child, and lose the store's file."""
    r = undercroft.Redis(path, durability="always")
    r.set("parent", 1)
    child = os.fork()
    if child == 0:
        r.set("child", 2)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    r.close()
    Path(path).unlink()
    with undercroft.Redis(path) as again:
        assert again.mget("parent", "child") == [b"1", b"2"]


# Changes a key and dies at once.
DYING = """
import os, signal, sys
import undercroft
undercroft.Redis(sys.argv[1], durability="everysec").set("last", "words")
os.kill(os.getpid(), signal.SIGKILL)
"""

# Waits for an item that never comes, until all changes are durable, then dies.
WAITING = """
import os, signal, sys, time
import undercroft
r = undercroft.Redis(sys.argv[1])
deadline = time.monotonic() + 60
while r.info("persistence")["journal_lag_bytes"] and time.monotonic() < deadline:
    r.blpop("no list", timeout=0.1)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_waiting_process_makes_the_changes_of_a_dead_one_durable(path: str) -> None:
    """Kill the only process that changed a store, and let another one wait."""
    for program in (DYING, WAITING):
        child = subprocess.run([sys.executable, "-c", program, path], check=False)
        assert child.returncode == -signal.SIGKILL
    Path(path).unlink()
    with undercroft.Redis(path) as r:
        assert r.get("last") == b"words"


def test_options_are_checked(path: str) -> None:
    """Refuse an unknown mode, and warn about a different one."""
    with pytest.raises((ValueError, redis.exceptions.RedisError), match="everysec"):
        undercroft.Redis(path, durability="sometimes")
    with undercroft.Redis(path, durability="everysec"):
        pass
    with pytest.warns(RuntimeWarning, match="durability everysec, not the requested always"):
        undercroft.Redis(path, durability="always")


# Opens a store whose journal is locked, and says how the wait ends.
OPENING = """
import signal
import sys
import undercroft
# A shell makes programs in the background ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
print("opening", flush=True)
try:
    undercroft.Redis(sys.argv[1])
except KeyboardInterrupt:
    print("interrupted")
"""


def test_wait_for_a_recovery_can_be_interrupted(path: str) -> None:
    """Wait for another process that holds the lock of the journal's folder, and press Ctrl-C."""
    with undercroft.Redis(path, durability="everysec") as r:
        r.set("k", "v")
    Path(path).unlink()
    name = f"{path}.journal/undercroft.lock"
    with Path(name).open("r+b") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        arguments = [sys.executable, "-c", OPENING, path]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            assert child.stdout.readline() == "opening\n"
            # The child has the file open while it waits.
            while not any(is_open(link, name) for link in Path(f"/proc/{child.pid}/fd").iterdir()):
                pass
            child.send_signal(signal.SIGINT)
            assert child.stdout.read() == "interrupted\n"
            assert child.wait() == 0
    assert not Path(path).exists()
    with undercroft.Redis(path) as r:
        assert r.get("k") == b"v"


def is_open(link: Path, name: str) -> bool:
    """Return whether a link of a process's descriptors refers to a file."""
    try:
        return str(link.readlink()) == name
    except FileNotFoundError:
        return False


def test_pipeline_waits_for_the_disk_once(path: str) -> None:
    """Find that no change of a pipeline is durable before the pipeline ends."""
    with undercroft.Redis(path, durability="always") as r:
        for is_queued in (True, False):
            # The thread that syncs once a second may sync during a pipeline.
            for _ in range(50):
                before = r.info("persistence")["journal_durable_position"]
                with r.pipeline(transaction=False) as pipe:
                    for number in range(10):
                        if is_queued:
                            pipe.set("k", number)
                        else:
                            pipe.execute_command("SET", "k", number)
                    pipe.info("persistence")
                    within = pipe.execute()[-1]
                assert r.info("persistence")["journal_lag_bytes"] == 0
                if within["journal_durable_position"] == before:
                    break
            else:
                pytest.fail("each change waited for the disk")
            assert within["journal_lag_bytes"] > 0


def test_waitaof_makes_one_write_durable(path: str) -> None:
    """Make a write durable in a store that is synced once a second."""
    with undercroft.Redis(path) as r:
        with pytest.raises(redis.ResponseError, match="appendonly is disabled"):
            r.execute_command("WAITAOF", 1, 0, 0)
        r.config_set("appendonly", "yes")
        r.set("k", "v")
        assert r.execute_command("WAITAOF", 1, 0, 100) == [1, 0]
        assert r.info("persistence")["journal_lag_bytes"] == 0
        assert r.save() is True
        assert r.info("persistence")["rdb_last_bgsave_status"] == "ok"


def test_sync_lets_other_threads_run(path: str, tmp_path: Path) -> None:
    """Run Python code in another thread while calls wait for the disk."""
    journal = str(tmp_path / "journal")
    with undercroft.Redis(path, durability="always", journal=journal) as r:
        stop = threading.Event()
        rounds = 0

        def spin() -> None:
            nonlocal rounds
            while not stop.is_set():
                rounds += 1
                time.sleep(0)

        interval = sys.getswitchinterval()
        # Threads then switch only where they release the interpreter.
        sys.setswitchinterval(60)
        thread = threading.Thread(target=spin)
        try:
            thread.start()
            seen = set()
            for number in range(200):
                r.set("k", number)
                seen.add(rounds)
        finally:
            stop.set()
            sys.setswitchinterval(interval)
            thread.join()
        assert len(seen) > 1
