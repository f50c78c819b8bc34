"""Tests that every command's results and errors equal redis-py's on a real Redis server."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import undercroft
from sessions import SESSIONS, evaluate


class Clients:
    """An embedded client and redis-py's client, each on an empty database."""

    def __init__(self, ours: undercroft.Redis, theirs: redis.Redis) -> None:
        self.ours = ours
        self.theirs = theirs


@pytest.fixture(params=[False, True], ids=["bytes", "str"])
def clients(
    request: pytest.FixtureRequest, path: str, server_socket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Clients]:
    decode = request.param
    # Disable hiredis, because the error texts differ if it packs the arguments.
    monkeypatch.setattr("redis.connection.HIREDIS_AVAILABLE", False)
    # Use one connection, so that SELECT and CLIENT SETNAME persist. Use RESP2, because with RESP3
    # redis-py 8 returns some scores as bytes regardless of decode_responses.
    theirs = redis.Redis(
        unix_socket_path=server_socket,
        protocol=2,
        decode_responses=decode,
        single_connection_client=True,
    )
    theirs.flushall()
    with undercroft.Redis(path, decode_responses=decode) as ours, theirs:
        yield Clients(ours, theirs)
        theirs.select(0)


def rounded(expression: str, outcome: tuple[str, Any]) -> tuple[str, Any]:
    """Return an outcome without the parts that depend on when each client ran."""
    kind, value = outcome
    counts = re.fullmatch(r'r\.(p?)ttl\("\w"\)', expression)
    if not counts or kind != "int" or value <= 0:
        return outcome
    minute = 60_000 if counts[1] else 60
    return kind, -(-value // minute) * minute


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session[0])
def test_a_session_gives_the_same_results_as_redis_py(clients: Clients, session: list[str]) -> None:
    for expression in session:
        wanted = rounded(expression, evaluate(expression, clients.theirs))
        assert rounded(expression, evaluate(expression, clients.ours)) == wanted, expression
