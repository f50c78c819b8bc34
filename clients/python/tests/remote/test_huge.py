"""Tests that an absurd length in a header is an error, even if the connection stays open."""

import asyncio
import socket
import threading
from collections.abc import Iterator

import pytest
import undercroft
from asyncio_servers import plain
from conftest import Run
from redis.backoff import NoBackoff
from redis.exceptions import InvalidResponse
from redis.retry import Retry

HUGE = [b"*99999999999\r\n", b"$99999999999\r\n", b"*1\r\n%99999999999\r\n", b"|99999999999\r\n"]


@pytest.fixture(params=HUGE, ids=str)
def peer(request: pytest.FixtureRequest) -> Iterator[int]:
    """Yield the port of a server that sends this reply to every command and never disconnects."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            held = []
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                held.append(connection)
                connection.recv(1 << 16)
                connection.sendall(request.param)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listening.getsockname()[1]
        # Shut the socket down, which wakes a thread in accept(); closing it does not.
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("pipelined", [False, True])
def test_a_synchronous_client_refuses_an_absurd_length_at_once(peer: int, pipelined: bool) -> None:
    retry = Retry(NoBackoff(), 0)
    client = undercroft.Redis(
        host="127.0.0.1", port=peer, protocol=2, retry=retry, driver_info=None, socket_timeout=None
    )
    call = client.pipeline(transaction=False).get("k").execute if pipelined else client.randomkey
    with pytest.raises(InvalidResponse):
        call()
    client.close()


def test_an_asyncio_client_refuses_an_absurd_length_at_once(run: Run) -> None:
    async def main(data: bytes) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1 << 16)
            writer.write(data)
            await reader.read()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        client = plain(server, socket_timeout=None)
        with pytest.raises(InvalidResponse):
            await client.get("k")
        with pytest.raises(InvalidResponse):
            await client.pipeline(transaction=False).get("k").execute()
        await client.aclose()
        server.close()

    for data in HUGE:
        run(main(data))
