"""The requests of the loops over a server, and the expected replies."""

import dataclasses
import time
from collections.abc import Callable

# Database 0 contains a single key, and database 1 the large values.
NEAR, FAR = 0, 1
KEY = b"key:000000000001"
VALUE = b"v" * 64
# The sizes of the large replies: keys of KEYS *, items of LRANGE, bytes of a value.
MANY = {"many-keys": 30_000, "many-items": 10_000, "long-value": 10_000_000}


@dataclasses.dataclass
class Place:
    """The address of the server."""

    path: str = ""
    port: int = 0
    host: str = "127.0.0.1"

    def options(self, database: int) -> dict[str, object]:
        """Return the arguments with which redis-py connects to this address."""
        where = (
            {"unix_socket_path": self.path} if self.path else {"host": self.host, "port": self.port}
        )
        return {**where, "db": database}


def repeated(call: Callable[[], object], count: int) -> float:
    """Return the nanoseconds per call over ``count`` calls."""
    start = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - start) / count


def groups(count: int, many: int) -> int:
    """Return how many groups of ``many`` calls add up to about ``count`` calls."""
    return max(1, count // many)
