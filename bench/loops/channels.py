"""Time messages between processes: ``channels.py WAY PLACE PRODUCERS CONSUMERS COUNT``.

Prints the number of messages per second from all producers to all consumers. Each message has 64
bytes; a separate call puts or takes each one.
"""

import multiprocessing
import multiprocessing.synchronize
import sys
import time
from collections.abc import Callable
from typing import Any

MESSAGE = b"x" * 64
NAME = "measured"

# The functions that put one message and take one message.
Ends = tuple[Callable[[bytes], Any], Callable[[], Any]]


def channel(place: str) -> Ends:
    """Return the functions that put to and take from a channel in a store."""
    import undercroft

    opened = undercroft.Channel(NAME, f"undercroft://{place}", maxsize=1000)
    return opened.put, opened.get


def redis_list(place: str) -> Ends:
    """Return the functions that put to and take from a list on a Redis server."""
    import redis

    client = redis.Redis.from_url(place)
    return lambda message: client.rpush(NAME, message), lambda: client.blpop(NAME)


def measure(way: str, place: str, producers: int, consumers: int, count: int) -> float:
    """Pass messages from producers to consumers and return the messages per second."""
    context = multiprocessing.get_context("fork")
    start = context.Barrier(producers + consumers + 1)
    own: Any = context.Queue(1000) if way == "multiprocessing" else None

    def ends() -> Ends:
        if own is not None:
            return own.put, own.get
        return channel(place) if way == "undercroft" else redis_list(place)

    def produce() -> None:
        put, _ = ends()
        start.wait()
        for _ in range(count // producers):
            put(MESSAGE)

    def consume() -> None:
        _, get = ends()
        start.wait()
        for _ in range(count // consumers):
            get()

    workers = [context.Process(target=produce) for _ in range(producers)]
    workers += [context.Process(target=consume) for _ in range(consumers)]
    for worker in workers:
        worker.start()
    start.wait()
    begun = time.perf_counter()
    for worker in workers:
        worker.join()
    took = time.perf_counter() - begun
    if any(worker.exitcode for worker in workers):
        raise SystemExit(f"a process of {way} failed")
    return count / took


if __name__ == "__main__":
    way, place, *numbers = sys.argv[1:]
    print(measure(way, place, *map(int, numbers)))
