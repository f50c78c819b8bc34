"""Measures the duration of operations, in this process and over a socket."""

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

Client = Any  # undercroft.Redis and redis.Redis have the same methods
ROUNDS = 5
SECONDS = 0.08


def _operations(client: Client, keys: list[str]) -> dict[str, Callable[[int], object]]:
    hundreds = [random.sample(keys, 100) for _ in range(20)]
    values = dict.fromkeys(hundreds[0], "v" * 64)
    client.rpush("timing:list", *keys)
    client.sadd("timing:set", *keys)
    client.zadd("timing:sorted set", {key: at for at, key in enumerate(keys)})
    last = len(keys) - 100
    return {
        "get": lambda at: client.get(keys[at % len(keys)]),
        "set": lambda at: client.set(f"timing:{at % 1000}", "v" * 64),
        "incr": lambda _: client.incr("timing"),
        "mget of 100": lambda at: client.mget(hundreds[at % 20]),
        "mset of 100": lambda _: client.mset(values),
        "sismember": lambda at: client.sismember("timing:set", keys[at % len(keys)]),
        "lrange of 100": lambda at: client.lrange("timing:list", at % last, at % last + 99),
        "zrange of 100": lambda at: client.zrange("timing:sorted set", at % last, at % last + 99),
    }


def _round(operation: Callable[[int], object]) -> float:
    """Return the average duration of a call in microseconds, measured over a short period."""
    calls, start = 0, time.perf_counter()
    while (taken := time.perf_counter() - start) < SECONDS:
        for at in range(calls, calls + 20):
            operation(at)
        calls += 20
    return taken / calls * 1e6


def measure(clients: dict[str, Client], names: dict[str, str]) -> dict[str, dict[str, float]]:
    """Return the median duration of each operation with each client, in microseconds.

    The measurements of the clients alternate, so that other load on the machine affects all clients
    alike.
    """
    keys = random.sample(list(names), 10_000)
    sides = {}
    for client_name, client in clients.items():
        client.mset({key: names[key] for key in keys})
        sides[client_name] = _operations(client, keys)
    rounds: dict[str, dict[str, list[float]]] = {}
    for _ in range(ROUNDS):
        for client_name, operations in sides.items():
            for name, operation in operations.items():
                times = rounds.setdefault(name, {}).setdefault(client_name, [])
                times.append(_round(operation))
    return {
        name: {side: statistics.median(times) for side, times in found.items()}
        for name, found in rounds.items()
    }
