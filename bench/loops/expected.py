"""What the loops over a server ask for, and what they have to get."""

import dataclasses
import time
from collections.abc import Callable

# The database with a single key, and the one with much in it.
NEAR, FAR = 0, 1
KEY = b"key:000000000001"
VALUE = b"v" * 64
# How much is in the large replies: keys of KEYS *, items of LRANGE, bytes of a value.
MANY = {"many-keys": 30_000, "many-items": 10_000, "long-value": 10_000_000}


@dataclasses.dataclass
class Place:
    """Where the server is."""

    path: str = ""
    port: int = 0
    host: str = "127.0.0.1"

    def options(self, database: int) -> dict[str, object]:
        """Return the arguments of redis-py's for it."""
        where = (
            {"unix_socket_path": self.path} if self.path else {"host": self.host, "port": self.port}
        )
        return {**where, "db": database}


def repeated(call: Callable[[], object], count: int) -> float:
    """Return the nanoseconds a call takes."""
    start = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - start) / count


def groups(count: int, many: int) -> int:
    """Return how many groups of so many are about so many in all."""
    return max(1, count // many)
