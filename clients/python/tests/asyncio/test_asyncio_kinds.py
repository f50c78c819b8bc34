"""Tests commands that depend on the state or the earlier commands of a shared connection."""

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis
import redis.asyncio
import undercroft
import undercroft.asyncio
from asyncio_servers import plain
from conftest import SCRATCH, Run
from test_asyncio import url as url
from undercroft.remote.command_kinds import ALONE, KINDS, READS, REPLICATED

# The ACL categories of commands that concern connections.
ABOUT_CONNECTIONS = {"@connection", "@transaction", "@blocking"}
# Commands of these categories that neither depend on their connection nor change it. They concern
# other connections or the entire server, or return a value that is equal on all shared connections.
PLAIN = {
    *("CLIENT", "PING", "ECHO", "COMMAND", "COMMAND COUNT", "COMMAND DOCS", "COMMAND GETKEYS"),
    *("COMMAND GETKEYSANDFLAGS", "COMMAND HELP", "COMMAND INFO", "COMMAND LIST", "CLIENT GETNAME"),
    *("CLIENT HELP", "CLIENT ID", "CLIENT INFO", "CLIENT KILL", "CLIENT LIST", "CLIENT PAUSE"),
    *("CLIENT UNBLOCK", "CLIENT UNPAUSE"),
}


def table(client: Any) -> dict[str, set[str]]:
    """Return the flags and categories of all of a server's commands, by uppercase name."""
    # Request the raw reply, because redis-py versions parse it differently.
    client.set_response_callback("COMMAND", lambda reply, **_: reply)
    found = {}
    rows = list(client.execute_command("COMMAND"))
    for name, _, flags, _, _, _, categories, _, _, subcommands in rows:
        words = {bytes(word).decode() for word in (*flags, *categories)}
        found[name.decode().upper().replace("|", " ")] = words
        rows += subcommands
    return found


def test_every_server_command_has_the_right_kind(url: str) -> None:
    with redis.Redis.from_url(url) as client:
        commands = table(client)
    assert len(commands) > 200
    for name, marks in commands.items():
        kind = KINDS.get(name)
        if marks & ABOUT_CONNECTIONS or {"pubsub", "noscript"} <= marks:
            assert kind is not None or name in PLAIN, name
        if "blocking" in marks or "@blocking" in marks:
            assert kind in (ALONE, REPLICATED), name
        # A command that may change data is never resent.
        if name in READS:
            assert "write" not in marks, name
            assert kind is None, name
        elif "readonly" in marks and " " not in name:
            assert kind == ALONE, name
    for name in PLAIN:
        assert name in commands
        assert KINDS.get(name) is None


class Tracking:
    """A server that tracks the offset of each connection's last write, as Redis does."""

    def __init__(self) -> None:
        self.offset = 0
        self.acknowledged = 0
        self.states: list[list[bytes]] = []
        # The words of each command with the number of its connection.
        self.heard: list[tuple[int, bytes]] = []
        self.release = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        mine, state = 0, []
        place = len(self.states)
        self.states.append(state)
        while line := await reader.readline():
            words = []
            for _ in range(int(line[1:])):
                await reader.readline()
                words.append((await reader.readline()).strip())
            name = words[0].upper()
            self.heard.append((place, b" ".join(words)))
            if name in (b"SET", b"BLMOVE", b"EXEC"):
                self.offset += 1
                mine = self.offset
            if name == b"WAIT":
                if mine > self.acknowledged and words[2] == b"0":
                    await self.release.wait()
                writer.write(b":%d\r\n" % (mine <= self.acknowledged))
            elif name == b"WAITAOF":
                writer.write(b"*2\r\n:1\r\n:%d\r\n" % (mine <= self.acknowledged))
            elif name == b"BLMOVE":
                writer.write(b"$1\r\nv\r\n")
            else:
                if name in (b"CLIENT", b"AUTH", b"READONLY", b"READWRITE"):
                    state.append(b" ".join(words))
                writer.write(b"+OK\r\n")
        writer.close()


def tracked(run: Run, test: Any) -> None:
    """Run a test with a `Tracking` server and a client that is connected to it."""

    async def main() -> None:
        peer = Tracking()
        server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
        client = plain(server)
        await test(peer, client)
        peer.release.set()
        await client.aclose()
        server.close()

    run(main())


def test_each_command_uses_the_connection_its_kind_requires(run: Run) -> None:
    async def test(peer: Tracking, client: Any) -> None:
        await client.set("k", "v")
        # Skip HIMPORT, because redis-py sends it together with other commands.
        for name in sorted(KINDS.keys() - {"HIMPORT"}):
            peer.heard.clear()
            # Pass the name of a two-word command both as one string and as two words.
            for words in ((name, "1", "1"), (*name.lower().split(), "1", "1")):
                # Ignore errors, because redis-py may reject the server's fixed reply to this
                # command.
                with suppress(Exception):
                    await client.execute_command(*words)
            places = [
                place for place, heard in peer.heard if heard.upper().startswith(name.encode())
            ]
            if KINDS[name] == ALONE:
                assert 0 not in places, name
                assert len(places) == 2, name
            else:
                assert places.count(0) == 2, name
            await client.set("k", "v")
            assert peer.heard[-1][0] == 0

    tracked(run, test)


def test_wait_is_sent_on_the_connection_of_the_last_write(run: Run) -> None:
    async def test(peer: Tracking, client: Any) -> None:
        # BLMOVE leaves a separate connection in the pool that has carried no write.
        await client.blmove("a", "b", 1)
        peer.acknowledged = peer.offset
        assert await client.wait(1, 10) == 1
        await client.set("k", "v")
        assert await client.wait(1, 10) == 0
        assert await client.execute_command("wait", "1", "10") == 0
        assert await client.waitaof(1, 1, 10) == [1, 0]
        assert await client.pipeline(transaction=False).wait(1, 10).execute() == [0]
        peer.acknowledged = peer.offset
        assert await client.wait(1, 10) == 1
        assert await client.waitaof(1, 1, 10) == [1, 1]
        await client.blmove("a", "b", 1)
        assert await client.wait(1, 10) == 0
        assert await client.pipeline(transaction=False).wait(1, 10).execute() == [0]

    tracked(run, test)


def test_wait_delays_no_other_call(run: Run) -> None:
    async def test(peer: Tracking, client: Any) -> None:
        await client.set("k", "v")
        waiting = asyncio.ensure_future(client.wait(1, 0))
        while not client._link.crowded:
            await asyncio.sleep(0)
        # The client sends these calls, and the write that follows, over another connection.
        assert await client.set("k", "w") is True
        assert len(peer.states) == 2
        # A WAIT on the new connection also covers the first write, although the earlier WAIT is
        # pending.
        assert await client.wait(1, 10) == 0
        late = asyncio.ensure_future(client.wait(1, 10))
        peer.acknowledged = peer.offset
        peer.release.set()
        assert await waiting == 1
        assert await late == 1

    tracked(run, test)


def test_connection_state_applies_to_all_shared_connections(run: Run) -> None:
    async def test(peer: Tracking, client: Any) -> None:
        await client.client_setname("first")
        await client.execute_command("AUTH", "user", "password")
        await client.execute_command("client", "no-touch", "on")
        await client.readonly()
        await client.client_setname("mine")
        pipe = client.pipeline(transaction=False)
        await pipe.readwrite().execute()
        client._link.crowd()
        assert await client.set("k", "v") is True
        one, two = peer.states
        assert one[0] == b"CLIENT SETNAME first"
        known = {b"CLIENT SETNAME mine", b"AUTH user password", b"client no-touch on", b"READWRITE"}
        assert set(two) == known
        # After all connections were lost, a new connection gets the same state.
        client._link.fail(redis.ConnectionError("gone"))
        assert await client.set("k", "v") is True
        assert set(peer.states[-1]) == known

    tracked(run, test)


@pytest.fixture
def replicated() -> Iterator[tuple[str, subprocess.Popen[Any]]]:
    """Yield the URL of a server with one replica, and the replica's process."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed: nothing to replicate")
    with tempfile.TemporaryDirectory(dir=SCRATCH) as directory:
        started = []

        def start(name: str, *more: str) -> subprocess.Popen[Any]:
            home = Path(directory, name)
            home.mkdir()
            common = ["--unixsocket", f"{home}/socket", "--save", "", "--dir", str(home)]
            server = subprocess.Popen([binary, *common, *more], stdout=subprocess.PIPE, text=True)
            started.append(server)
            assert server.stdout is not None
            lines = iter(server.stdout.readline, "")
            assert any("ready to accept connections" in line.lower() for line in lines)
            return server

        try:
            port = 25000 + os.getpid() % 1000
            start("master", "--port", str(port), "--repl-diskless-sync-delay", "0")
            replica = start("replica", "--port", "0", "--replicaof", f"127.0.0.1 {port}")
            url = f"unix://{directory}/master/socket"
            with redis.Redis.from_url(url) as client:
                while not client.wait(1, 100):
                    client.set("k", "v")
            yield url, replica
        finally:
            for server in started:
                server.send_signal(signal.SIGCONT)
                server.terminate()
                server.wait()


def test_wait_reports_a_stopped_replica(
    replicated: tuple[str, subprocess.Popen[Any]], run: Run
) -> None:
    url, replica = replicated

    async def main() -> None:
        async with undercroft.asyncio.Redis.from_url(url) as client:
            await client.set("k", "v")
            assert await client.wait(1, 60_000) == 1
            replica.send_signal(signal.SIGSTOP)
            await client.set("k", "w")
            assert await client.wait(1, 50) == 0
            await client.rpush("a", "v")
            replica.send_signal(signal.SIGCONT)
            assert await client.wait(1, 60_000) == 1

    run(main())


def test_a_synchronous_wait_uses_the_connection_that_sent_the_write(
    replicated: tuple[str, subprocess.Popen[Any]],
) -> None:
    url, replica = replicated
    with undercroft.Redis.from_url(url) as client:
        pool = client.connection_pool
        # Remove a connection from the pool, as another thread's call does.
        other = pool.take()
        assert client.set("k", "v") is True
        assert client.wait(1, 60_000) == 1
        replica.send_signal(signal.SIGSTOP)
        assert client.set("k", "w") is True
        pool.give(other)
        assert client.wait(1, 50) == 0
        assert client.execute_command("wait", 1, 50) == 0
        assert client.execute_command(b"WAIT", 1, 50) == 0
        replica.send_signal(signal.SIGCONT)
        assert client.wait(1, 60_000) == 1
        assert len(pool._available_connections) == 2
        assert not pool._in_use_connections
        with pytest.raises(redis.ResponseError):
            client.execute_command("WAIT", 1, "soon")
        assert client.get("k") == b"w"
        assert len(pool._available_connections) == 2
