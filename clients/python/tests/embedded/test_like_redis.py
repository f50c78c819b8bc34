"""Every command's results and errors are those of redis-py on a real Redis server."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import redis
import undercroft
from sessions import SESSIONS, evaluate


class Clients:
    """A client of either kind on an empty database."""

    def __init__(self, ours: undercroft.Redis, theirs: redis.Redis) -> None:
        self.ours = ours
        self.theirs = theirs


@pytest.fixture(params=[False, True], ids=["bytes", "str"])
def clients(
    request: pytest.FixtureRequest, path: str, server_socket: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Clients]:
    decode = request.param
    # Where hiredis packs the arguments it has error texts of its own.
    monkeypatch.setattr("redis.connection.HIREDIS_AVAILABLE", False)
    # One connection, so that SELECT and CLIENT SETNAME last. Over RESP3 redis-py 8 gives some
    # scores as bytes, whatever decode_responses says.
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
    """Return an outcome without what depends on when each client came to its turn."""
    kind, value = outcome
    counts = re.fullmatch(r'r\.(p?)ttl\("\w"\)', expression)
    if not counts or kind != "int" or value <= 0:
        return outcome
    minute = 60_000 if counts[1] else 60
    return kind, -(-value // minute) * minute


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session[0])
def test_a_session_gives_what_redis_py_gives(clients: Clients, session: list[str]) -> None:
    for expression in session:
        wanted = rounded(expression, evaluate(expression, clients.theirs))
        assert rounded(expression, evaluate(expression, clients.ours)) == wanted, expression
