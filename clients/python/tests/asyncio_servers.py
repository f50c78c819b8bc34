"""Servers in a test's event loop, and asyncio clients that send only the test's commands."""

import asyncio
import inspect
from typing import Any

import redis.asyncio
import undercroft.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff


async def answer_gets(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, received: list[bytes] | None = None
) -> None:
    """Answer every GET with `v`, and record the data of each read."""
    while data := await reader.read(1 << 20):
        if received is not None:
            received.append(data)
        writer.write(b"$1\r\nv\r\n" * data.count(b"GET"))
    writer.close()


def plain(server: Any, retries: int = 0, **options: Any) -> Any:
    """Return a client that sends a server only the test's commands."""
    known = inspect.signature(redis.asyncio.Redis.__init__).parameters
    named = "driver_info" in known
    silent = {"driver_info": None} if named else {"lib_name": None, "lib_version": None}
    host, port = server.sockets[0].getsockname()[:2]
    retry = Retry(NoBackoff(), retries)
    return undercroft.asyncio.Redis(
        host=host, port=port, protocol=2, retry=retry, **silent, **options
    )
