"""Tests clients under stress: servers killed under load, huge values, many connections."""

import asyncio
import resource
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import redis
import undercroft
import undercroft.asyncio
from conftest import Run

LOST = redis.ConnectionError, redis.TimeoutError
LARGE = 512 << 20


class Restarted:
    """A server that can be killed and restarted at the same address."""

    def __init__(self, directory: Path) -> None:
        self.socket = f"{directory}/redis.sock"
        self._command = [
            *(shutil.which("redis-server") or "redis-server", "--port", "0", "--save", ""),
            *("--unixsocket", self.socket, "--dir", str(directory)),
        ]
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        lines = iter(self._process.stdout.readline, "")
        assert any("ready to accept connections" in line.lower() for line in lines)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def server(path: str) -> Any:
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not installed: nothing to kill")
    server = Restarted(Path(path).parent)
    yield server
    server.kill()


@pytest.mark.parametrize("protocol", [2, 3])
def test_threads_survive_a_server_restart(server: Restarted, protocol: int) -> None:
    url = f"unix://{server.socket}?socket_timeout=30"
    client = undercroft.Redis.from_url(url, protocol=protocol, decode_responses=True)
    done, lost = [0] * 4, [0] * 4
    wrong: list[Any] = []
    stop = threading.Event()

    def work(me: int) -> None:
        number = 0
        while not stop.is_set():
            number += 1
            text = f"{me}:{number}"
            try:
                found = client.echo(text)
                pipe = client.pipeline(transaction=bool(number % 2))
                both = pipe.echo(text).echo(f"{text}!").execute()
            except LOST:
                lost[me] += 1
            except BaseException as error:
                wrong.append(error)
                raise
            else:
                done[me] += 1
                if found != text or both != [text, f"{text}!"]:
                    wrong.append((text, found, both))

    threads = [threading.Thread(target=work, args=(me,)) for me in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            for counts, act in ((done, server.kill), (lost, server.start)):
                before = list(counts)
                while not wrong and any(a <= b for a, b in zip(counts, before, strict=True)):
                    stop.wait(0.001)
                act()
        before = list(done)
        while not wrong and any(a <= b for a, b in zip(done, before, strict=True)):
            stop.wait(0.001)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        client.close()
    assert wrong == []


def test_tasks_survive_a_server_restart(
    server: Restarted,
    run: Run,
) -> None:
    async def main() -> None:
        client = undercroft.asyncio.Redis.from_url(f"unix://{server.socket}", decode_responses=True)
        done, lost = [0] * 20, [0] * 20
        stopped = False

        async def work(me: int) -> None:
            number = 0
            while not stopped:
                number += 1
                text = f"{me}:{number}"
                try:
                    found = await client.echo(text)
                    pipe = client.pipeline(transaction=bool(number % 2))
                    both = await pipe.echo(text).echo(f"{text}!").execute()
                except LOST:
                    lost[me] += 1
                    await asyncio.sleep(0.001)
                else:
                    assert found == text
                    assert both == [text, f"{text}!"]
                    done[me] += 1

        async def go_on(counts: list[int]) -> None:
            before = list(counts)
            while any(a <= b for a, b in zip(counts, before, strict=True)):
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0.001)

        tasks = [asyncio.create_task(work(me)) for me in range(20)]
        for _ in range(3):
            await go_on(done)
            server.kill()
            await go_on(lost)
            server.start()
        await go_on(done)
        stopped = True
        await asyncio.gather(*tasks)
        await client.aclose()

    run(main())


def test_a_value_of_the_largest_size(server: Restarted) -> None:
    lines = Path("/proc/meminfo").read_text().splitlines()
    free = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))
    if free < 6 << 20:
        pytest.skip(f"a value of 512 MiB: {free >> 10} MiB of memory are not enough")
    url = f"unix://{server.socket}?socket_timeout=120"
    with undercroft.Redis.from_url(url) as client:
        client.setrange("k", LARGE - 1, b"x")
        value = client.get("k")
        assert len(value) == LARGE
        assert value[-2:] == b"\0x"
        assert client.set("k", value)
        assert client.strlen("k") == LARGE


@pytest.fixture
def descriptors() -> Any:
    """Raise the file descriptor limit of this process and its children."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = 2500
    if hard != resource.RLIM_INFINITY and hard < needed:
        pytest.skip(f"1,000 connections: only {hard} files may be open")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("descriptors")
def test_a_thousand_connections(path: str, run: Run) -> None:
    server = Restarted(Path(path).parent)
    url = f"unix://{server.socket}?max_connections=2000&socket_timeout=120"
    url += "&socket_connect_timeout=120"
    try:
        with undercroft.Redis.from_url(url) as client:
            pool = client.connection_pool
            connections = [pool.take() for _ in range(1000)]
            for number, connection in enumerate(connections):
                assert connection.round_trip(("ECHO", number), True) == b"%d" % number
            assert len(client.client_list()) == 1001
            for connection in connections:
                pool.give(connection)

        async def main() -> None:
            client = undercroft.asyncio.Redis.from_url(url)
            tasks: list[asyncio.Task[Any]] = []
            while len(tasks) < 1000:
                # Connect in batches, because a socket's backlog is limited.
                tasks += [asyncio.create_task(client.blpop("k")) for _ in range(100)]
                while (await client.info("clients"))["blocked_clients"] < len(tasks):
                    assert not any(task.done() for task in tasks)
                    await asyncio.sleep(0.01)
            await client.rpush("k", *range(1000))
            found = await asyncio.gather(*tasks)
            assert sorted(int(item) for _, item in found) == list(range(1000))
            await client.aclose()

        run(main())
    finally:
        server.kill()


ENDS = """
import asyncio, sys, threading, undercroft, undercroft.asyncio
url, path, how = sys.argv[1:]
remote = undercroft.Redis.from_url(url)
remote.set("k", 1)
pool = [remote.connection_pool.take() for _ in range(5)]
messages = remote.pubsub()
messages.subscribe("c")
pipe = remote.pipeline().set("k", 2)
store = undercroft.Redis(path)
heard = store.pubsub()
heard.subscribe("c")

async def main():
    global held
    own = undercroft.asyncio.Redis.from_url(url)
    mine = undercroft.asyncio.Redis(path)
    await own.get("k")
    listening = own.pubsub()
    await listening.subscribe("c")
    tasks = [asyncio.create_task(call) for call in (
        own.blpop("none"), mine.blpop("none"), mine.lock("l").acquire(), mine.lock("l").acquire(),
    )]
    # redis-py forgets that a task was cancelled while its connection greets the server.
    while (await own.info("clients"))["blocked_clients"] < 1:
        pass
    held = own, mine, listening, tasks

if how == "run":
    asyncio.run(main())
else:
    loop = asyncio.new_event_loop()
    loop.run_until_complete(main())
for client in (remote, store):
    threading.Thread(target=client.blpop, args=("never",), daemon=True).start()
print("ends")
"""


@pytest.mark.parametrize("how", ["run", "abandon"])
def test_an_interpreter_exits_cleanly_with_open_connections(
    server: Restarted, path: str, how: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDS, f"unix://{server.socket}", path, how],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "ends\n", done.stderr
    assert done.returncode == 0, done.stderr
    if how == "run":
        # Check the output only here, because asyncio and redis-py warn about unfinished tasks.
        assert done.stderr == ""


LOCKED = '''
import sys, threading, time, undercroft
remote = undercroft.Redis.from_url(sys.argv[1])
messages = remote.pubsub()
messages.subscribe("c")
held = threading.Event()
# A namespace of its own: what the thread's function could see would never be deleted.
apart = {"lock": remote.connection_pool._lock, "held": held, "time": time}
exec("""
def hold():
    with lock:
        held.set()
        time.sleep(10**6)
""", apart)
threading.Thread(target=apart["hold"], daemon=True).start()
held.wait()
print("ends")
'''


def test_an_interpreter_exits_while_a_thread_uses_the_pool(server: Restarted) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOCKED, f"unix://{server.socket}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")


UNUSUAL = """
import sys, threading, undercroft
clients = [undercroft.Redis.from_url(url) for url in sys.argv[1:]]
begun = [threading.Event() for _ in clients]

def call(client, begun):
    while True:
        # A key that is none of the native methods' business, and a reply that has a callback.
        client.get(memoryview(b"k"))
        client.execute_command("info")
        begun.set()

for pair in zip(clients, begun):
    threading.Thread(target=call, args=pair, daemon=True).start()
for each in begun:
    each.wait()
print("ends")
"""


def test_an_interpreter_exits_while_threads_are_in_unusual_calls(
    server: Restarted, path: str
) -> None:
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", UNUSUAL, f"unix://{server.socket}", f"undercroft://{path}"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "ends\n", "")
