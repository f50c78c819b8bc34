"""Start and stop the peers' servers, and create Python environments for peers."""

import contextlib
import hashlib
import itertools
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
# Clients and the load tool run on the first core, servers on the last; with one core, both share
# it.
CORES = sorted(os.sched_getaffinity(0))
CLIENT_CORE, SERVER_CORE = CORES[0], CORES[-1]


class Server:
    """A running server and its unix socket."""

    def __init__(
        self, name: str, path: Path, process: subprocess.Popen[bytes], port: int = 0
    ) -> None:
        """Store a running server process; ``port`` is 0 without TCP."""
        self.name = name
        self.path = path
        self.port = port
        self.process = process

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds that the server has used, in user mode and in the kernel.

        Their sum is the run time of the server's threads as measured by the scheduler. The split
        into user and kernel time comes from clock ticks, which are 10 ms on most machines.
        """
        process = Path(f"/proc/{self.process.pid}")
        times = [path.read_text(encoding="ascii") for path in process.glob("task/*/schedstat")]
        total = sum(int(text.split()[0]) for text in times) / 1e9
        fields = (process / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        user, kernel = int(fields[11]), int(fields[12])
        share = kernel / max(user + kernel, 1)
        return total * (1 - share), total * share

    def connect(self) -> socket.socket:
        """Return a new connection to the server's unix socket."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(str(self.path))
        return connection

    def fill(self, count: int, value: bytes) -> None:
        """Set ``count`` keys of 16 bytes, named like the keys of redis-benchmark."""
        with self.connect() as connection, connection.makefile("rb") as replies:
            for start in range(0, count, 1000):
                some = range(start, min(start + 1000, count))
                connection.sendall(b"".join(set_command(b"key:%012d" % at, value) for at in some))
                for _ in some:
                    if replies.readline() != b"+OK\r\n":
                        raise RuntimeError(f"{self.name}: expected +OK for a SET")

    def run(self, commands: Iterable[bytes]) -> None:
        """Send commands in batches of 100 and check that every reply is an integer."""
        with self.connect() as connection, connection.makefile("rb") as replies:
            for some in batched(commands, 100):
                connection.sendall(b"".join(some))
                for _ in some:
                    reply = replies.readline()
                    if not reply.startswith(b":"):
                        raise RuntimeError(f"{self.name}: expected an integer, got {reply!r}")

    def info(self, section: str) -> dict[str, str]:
        """Return the fields of one section of INFO."""
        with self.connect() as connection, connection.makefile("rb") as reply:
            connection.sendall(b"INFO %s\r\n" % section.encode())
            length = int(reply.readline()[1:])
            lines = reply.read(length).decode().splitlines()
        return dict(line.split(":", 1) for line in lines if ":" in line)


def set_command(key: bytes, value: bytes) -> bytes:
    """Return a SET command in Redis' wire format."""
    return b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, len(value), value)


def command(*words: bytes) -> bytes:
    """Return a command in Redis' wire format."""
    return b"*%d\r\n" % len(words) + b"".join(
        b"$%d\r\n%b\r\n" % (len(word), word) for word in words
    )


def batched(things: Iterable[bytes], count: int) -> Iterator[list[bytes]]:
    """Split an iterable into lists of at most ``count`` items."""
    rest = iter(things)
    while some := list(itertools.islice(rest, count)):
        yield some


@contextlib.contextmanager
def serving(name: str, command: list[str], path: Path, port: int = 0) -> Iterator[Server]:
    """Run a server, pinned to the core for servers, until the block ends."""
    log = path.with_suffix(".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["taskset", "--cpu-list", str(SERVER_CORE), *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    server = Server(name, path, process, port)
    try:
        wait_for(server, log)
        yield server
    finally:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(server: Server, log: Path) -> None:
    """Wait until a server answers PING; raise an error with its log if it ends or takes 10 s."""
    deadline = time.monotonic() + 10
    while True:
        with contextlib.suppress(OSError), server.connect() as connection:
            connection.sendall(b"PING\r\n")
            if connection.recv(16).startswith(b"+PONG"):
                return
        if server.process.poll() is not None or time.monotonic() > deadline:
            text = log.read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{server.name} did not answer on {server.path}:\n{text}")
        time.sleep(0.02)


def redis_server(
    directory: Path, tcp: bool = False, extra: Sequence[str] = ()
) -> contextlib.AbstractContextManager[Server]:
    """Run Debian's redis-server without persistence, to compare with a store without a journal."""
    path = directory / "redis.sock"
    port = free_port() if tcp else 0
    options = ["--port", str(port), "--unixsocket", str(path), "--dir", str(directory)]
    # Some clients open a thousand connections at once.
    options += ["--tcp-backlog", "4096"]
    command = ["redis-server", *options, "--save", "", "--appendonly", "no", *extra]
    return serving("redis-server", command, path, port)


def free_port() -> int:
    """Return a free port on the loopback interface."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def undercroft_server(
    directory: Path, binaries: Path, extra: Sequence[str] = ()
) -> contextlib.AbstractContextManager[Server]:
    """Run ``undercroft serve`` with one thread, like redis-server, on ``directory/served``."""
    path = directory / "undercroft.sock"
    command = [str(binaries / "undercroft"), "serve", "--store", str(directory / "served")]
    options = ["--port", "0", "--unixsocket", str(path), "--threads", "1", "--maxmemory", "0"]
    return serving("undercroft serve", [*command, *options, *extra], path)


def has(*commands: str) -> str | None:
    """Return None if all commands are installed, otherwise a note that names the missing ones."""
    missing = [command for command in commands if not shutil.which(command)]
    return f"not measured: {', '.join(missing)} is not installed" if missing else None


def unpacked(name: str) -> Path:
    """Return a server that scripts/setup/servers.sh unpacks, and unpack it if needed."""
    subprocess.run([ROOT / "scripts/setup/servers.sh"], check=True)
    return ROOT / "target" / "servers" / name


def environment(name: str) -> Path:
    """Return the Python of an environment with ``requirements/NAME.txt``, creating it if needed.

    The environment is in target/ and is created again when the requirements change.
    """
    requirements = ROOT / "bench" / "requirements" / f"{name}.txt"
    text = requirements.read_bytes() + sys.version.encode()
    directory = ROOT / "target" / f"bench-venv-{name}-{hashlib.sha256(text).hexdigest()[:8]}"
    python = directory / "bin" / "python"
    done = directory / "complete"
    if not done.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", directory], check=True)
        quiet = ["--quiet", "--disable-pip-version-check"]
        subprocess.run([python, "-m", "pip", "install", *quiet, "-r", requirements], check=True)
        done.touch()
    return python
