"""Real servers, and clusters of three masters, for the tests."""

import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import redis

SLOTS = 16384
# The limit of a wait that only a hang exceeds.
PATIENCE = 120


def spare_port() -> int:
    """Return a free port that is low enough for a cluster bus port."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port: int = listener.getsockname()[1]
        if port < 50_000:
            return port


@contextmanager
def server(*arguments: str) -> Iterator[int]:
    """Run a server on a free port during a block."""
    binary = shutil.which("redis-server")
    if binary is None:
        pytest.skip("redis-server is not installed")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        config = Path(directory) / "redis.conf"
        # Retry, because another process can bind the port or the cluster bus port in the meantime.
        for _ in range(5):
            port = spare_port()
            config.write_text(f"port {port}\nbind 127.0.0.1\ndir {directory}\nsave ''\n")
            process = subprocess.Popen(
                [binary, str(config), *arguments], stdout=subprocess.PIPE, text=True
            )
            assert process.stdout is not None
            lines = iter(process.stdout.readline, "")
            ready = ("ready to accept connections", "sentinel id is")
            if any(any(sign in line.lower() for sign in ready) for line in lines):
                break
            process.wait()
        else:
            pytest.fail(f"redis-server did not start; exit status {process.returncode}")
        try:
            yield port
        finally:
            process.terminate()
            process.wait()


@dataclass
class Cluster:
    """A running cluster."""

    ports: list[int]
    nodes: dict[int, redis.Redis] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Return a URL for this package."""
        return f"redis+cluster://127.0.0.1:{self.ports[0]}"

    def name(self, port: int) -> str:
        """Return a node's name in the cluster."""
        return str(self.nodes[port].execute_command("CLUSTER MYID"))

    def wait_for(self, is_so: Any) -> None:
        """Wait until something is true of the cluster."""
        until = time.monotonic() + PATIENCE
        while not is_so():
            assert time.monotonic() < until, "the cluster does not change"
            time.sleep(0.01)

    def owner(self, slot: int, port: int | None = None) -> int:
        """Return the port of the master that serves a slot, according to a node."""
        node = self.nodes[port or self.ports[0]]
        for low, high, master, *_ in node.execute_command("CLUSTER SLOTS"):
            if low <= slot <= high:
                return int(master[1])
        raise AssertionError(f"no node serves slot {slot}")

    def begin_move(self, slot: int, source: int, target: int) -> None:
        """Begin to move a slot to another master."""
        self.nodes[target].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", self.name(source))
        self.nodes[source].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", self.name(target))

    def move_keys(self, slot: int, source: int, target: int, most: int | None = None) -> int:
        """Move some keys, or all keys, of a slot. Return their number."""
        moved = 0
        while most is None or moved < most:
            count = 10 if most is None else min(10, most - moved)
            keys = self.nodes[source].execute_command("CLUSTER GETKEYSINSLOT", slot, count)
            if not keys:
                break
            self.nodes[source].execute_command(
                "MIGRATE", "127.0.0.1", target, "", 0, 60_000, "KEYS", *keys
            )
            moved += len(keys)
        return moved

    def end_move(self, slot: int, target: int) -> None:
        """Give a slot to its new master, and wait until all masters agree.

        A node that is told can still believe an older message of another node, so all are told
        again if they do not agree.
        """

        def is_told() -> bool:
            for port in (target, *(port for port in self.ports if port != target)):
                self.nodes[port].execute_command("CLUSTER SETSLOT", slot, "NODE", self.name(target))
            return all(self.owner(slot, port) == target for port in self.ports)

        self.wait_for(is_told)


@contextmanager
def cluster(replicas: int = 0, *settings: str) -> Iterator[Cluster]:
    """Run three masters, and a number of replicas of the last one, during a block."""
    own = ("--cluster-enabled", "yes", "--cluster-node-timeout", "1000", *settings)
    with ExitStack() as stack:
        ports = [stack.enter_context(server(*own)) for _ in range(3 + replicas)]
        # The plain client leaves replies as the server sends them.
        nodes = {port: redis.Redis(port=port, protocol=2, decode_responses=True) for port in ports}
        for node in nodes.values():
            stack.callback(node.close)
            node.response_callbacks.clear()
        whole = Cluster(ports[:3], nodes)
        for number, port in enumerate(ports[:3]):
            low, high = number * SLOTS // 3, (number + 1) * SLOTS // 3 - 1
            nodes[port].execute_command("CLUSTER ADDSLOTSRANGE", low, high)
            nodes[port].execute_command("CLUSTER SET-CONFIG-EPOCH", number + 1)
        for port in ports[1:]:
            nodes[port].execute_command("CLUSTER MEET", "127.0.0.1", ports[0])

        def knows_all(node: Any) -> bool:
            info = node.execute_command("CLUSTER INFO")
            return "cluster_state:ok" in info and f"cluster_known_nodes:{len(ports)}" in info

        whole.wait_for(lambda: all(map(knows_all, nodes.values())))
        for port in ports[3:]:
            nodes[port].execute_command("CLUSTER REPLICATE", whole.name(ports[2]))
            whole.wait_for(
                lambda port=port: "master_link_status:up" in nodes[port].execute_command("INFO")
            )
        yield whole
