"""Tests that replies are parsed correctly, however their bytes are split."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from redis._parsers.encoders import Encoder
from redis.connection import PythonRespSerializer
from redis.exceptions import DataError, InvalidResponse, ResponseError
from undercroft.remote.resp import MISSING, Packer, Push, Reader

REPLIES: list[tuple[bytes, object]] = [
    (b"+OK\r\n", b"OK"),
    (b"+\r\n", b""),
    (b":-42\r\n", -42),
    (b"$5\r\nhe\r\no\r\n", b"he\r\no"),
    (b"$0\r\n\r\n", b""),
    (b"$-1\r\n", None),
    (b"*-1\r\n", None),
    (b"*0\r\n", []),
    (b"*3\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n+x\r\n", [b"a", [1, None], b"x"]),
    (
        b"*5\r\n$1\r\na\r\n$0\r\n\r\n$-1\r\n$12\r\nhello\r\nworld\r\n$10\r\n$3\r\n+x\r\n:1\r\n",
        [b"a", b"", None, b"hello\r\nworld", b"$3\r\n+x\r\n:1"],
    ),
    (
        b"*3\r\n$9999\r\n%b\r\n$10000\r\n%b\r\n$1\r\nc\r\n" % (b"a" * 9999, b"b" * 10000),
        [b"a" * 9999, b"b" * 10000, b"c"],
    ),
    (b"%2\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n$1\r\nd\r\n", {b"a": b"b", b"c": b"d"}),
    (b"_\r\n", None),
    (b"#t\r\n", True),
    (b"#f\r\n", False),
    (b",1.5\r\n", 1.5),
    (b",-inf\r\n", float("-inf")),
    (
        b"(3492890328409238509324850943850943825024385\r\n",
        3492890328409238509324850943850943825024385,
    ),
    (b"=7\r\ntxt:abc\r\n", b"abc"),
    (b"%2\r\n+a\r\n:1\r\n+b\r\n*1\r\n:2\r\n", {b"a": 1, b"b": [2]}),
    (b"%0\r\n", {}),
    (b"~2\r\n+a\r\n+b\r\n", [b"a", b"b"]),
    (b"|1\r\n+ttl\r\n:3600\r\n*1\r\n|1\r\n+x\r\n*1\r\n:1\r\n:7\r\n", [7]),
    (b">2\r\n+invalidate\r\n*1\r\n$1\r\nk\r\n", Push([b"invalidate", [b"k"]])),
]


Make = Callable[..., Any]


@pytest.fixture(params=["pure", "native"])
def reader(request: pytest.FixtureRequest) -> Make:
    """Return a function that creates a reader, native or in Python."""

    def make(encoding: str | None = None, sets: bool = False) -> Any:
        if request.param == "pure":
            return Reader(encoding, "strict", ResponseError, sets)
        return native.Wire(ResponseError, encoding is not None, encoding or "utf-8", sets=sets)

    if request.param == "native":
        native = pytest.importorskip("undercroft._native")
    return make


@pytest.fixture(params=["pure", "native"])
def packer(request: pytest.FixtureRequest) -> Make:
    """Return a function that creates a packer, native or in Python."""

    def make(encoding: str) -> Any:
        if request.param == "pure":
            return Packer(encoding, "strict", Encoder(encoding, "strict", False).encode)
        return native.Wire(ResponseError, False, encoding)

    if request.param == "native":
        native = pytest.importorskip("undercroft._native")
    return make


@pytest.mark.parametrize(("data", "value"), REPLIES, ids=lambda item: repr(item)[:30])
def test_replies_of_every_type_are_parsed(reader: Make, data: bytes, value: object) -> None:
    replies = reader()
    replies.feed(data)
    given = replies.gets()
    assert (given, type(given)) == (value, type(value))
    assert replies.gets() is MISSING
    assert not replies.has_data()


def test_splitting_does_not_change_a_reply(reader: Make) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    rng = random.Random(seed)
    for _ in range(300):
        chosen = rng.choices(REPLIES, k=rng.randint(1, 30))
        stream = b"".join(data for data, _ in chosen)
        cuts = sorted(rng.randrange(len(stream)) for _ in range(rng.randint(0, 40)))
        replies = reader()
        given = []
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            replies.feed(stream[start:end])
            if rng.random() < 0.7:
                while (reply := replies.gets()) is not MISSING:
                    given.append(reply)
        while (reply := replies.gets()) is not MISSING:
            given.append(reply)
        assert given == [value for _, value in chosen]
        assert not replies.has_data()


def test_text_is_decoded_on_request(reader: Make) -> None:
    replies = reader("utf-8")
    replies.feed("$3\r\n\u20ac\r\n*1\r\n+a\r\n$3\r\n\u20ac\r\n".encode())
    assert replies.gets() == "\u20ac"
    assert replies.gets() == ["a"]
    assert replies.gets(False) == "\u20ac".encode()
    replies.feed(b"$1\r\n\xff\r\n")
    with pytest.raises(UnicodeDecodeError):
        replies.gets()


def test_sets_can_be_sets(reader: Make) -> None:
    replies = reader(sets=True)
    replies.feed(b"~2\r\n:1\r\n:2\r\n~1\r\n*1\r\n:1\r\n")
    assert replies.gets() == {1, 2}
    assert replies.gets() == [[1]]


def test_errors_are_returned_as_exceptions(reader: Make) -> None:
    replies = reader()
    replies.feed(b"-ERR no\r\n*2\r\n!8\r\nERR\r\nyes\r\n:1\r\n")
    first = replies.gets()
    assert isinstance(first, ResponseError)
    assert str(first) == "ERR no"
    (inner, one) = replies.gets()
    assert isinstance(inner, ResponseError)
    assert (str(inner), one) == ("ERR\r\nyes", 1)


@pytest.mark.parametrize("data", [b"?\r\n", b"$x\r\n", b"*1\r\n:one\r\n", b"*1\r\n" * 1000])
def test_malformed_replies_raise_errors(reader: Make, data: bytes) -> None:
    replies = reader()
    replies.feed(data)
    with pytest.raises(InvalidResponse):
        replies.gets()


# 2^32, and lengths that exceed any machine word.
HUGE = [b"4294967296", b"99999999999", b"9" * 30]


@pytest.mark.parametrize("kind", [b"*", b"$", b"%", b"~", b">", b"|", b"=", b"!"])
@pytest.mark.parametrize("length", HUGE)
def test_an_absurd_length_is_refused_at_once(reader: Make, kind: bytes, length: bytes) -> None:
    for before in (b"", b"*2\r\n:1\r\n"):
        replies = reader()
        replies.feed(before + kind + length + b"\r\n")
        with pytest.raises(InvalidResponse):
            replies.gets()


def test_the_longest_valid_length_is_accepted(reader: Make) -> None:
    for kind in (b"*", b"$"):
        replies = reader()
        replies.feed(kind + b"4294967295\r\n")
        assert replies.gets() is MISSING


def test_a_large_value_may_arrive_in_many_pieces(reader: Make) -> None:
    value = random.randbytes(3_000_000)
    stream = b"*2\r\n$%d\r\n%b\r\n:1\r\n" % (len(value), value)
    replies = reader()
    for start in range(0, len(stream), 10_000):
        assert replies.gets() is MISSING
        replies.feed(stream[start : start + 10_000])
    assert replies.gets() == [value, 1]


def test_long_values_are_parsed_alike_however_they_are_split(reader: Make) -> None:
    values = [random.randbytes(length) for length in (65_535, 65_536, 200_000, 65_537)]
    bulks = [b"$%d\r\n%b\r\n" % (len(value), value) for value in values]
    stream = b"*4\r\n" + b"".join(bulks) + b":7\r\n" + b"".join(bulks)
    wanted = [values, 7, *values]
    # Also split around the line ending after each value.
    ends, at = [], 4
    for bulk in bulks:
        at += len(bulk)
        ends += [at - 2, at - 1, at]
    for turn in range(40):
        cuts = sorted({*random.sample(range(len(stream)), turn), *random.sample(ends, turn % 4)})
        replies = reader()
        found = []
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            replies.feed(stream[start:end])
            while random.random() < 0.7 and (reply := replies.gets()) is not MISSING:
                found.append(reply)
        while (reply := replies.gets()) is not MISSING:
            found.append(reply)
        assert found == wanted
        assert not replies.has_data()


COMMANDS: list[tuple[object, ...]] = [
    ("GET", "k"),
    ("CONFIG GET", "max*"),
    (b"CONFIG SET", "a", b"b"),
    ("SET", "\u20ac", 1, 1.5, -0.0, memoryview(b"yy")),
    ("SET", b"k", "v" * 100_000, b"w" * 70_000),
    ("PING",),
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_commands_are_packed_as_redis_py_packs_them(packer: Make, encoding: str) -> None:
    encoder = Encoder(encoding, "strict", False)
    theirs = PythonRespSerializer(6000, encoder.encode)
    ours = packer(encoding)
    packed = [b"".join(theirs.pack(*command)) for command in COMMANDS]
    for _ in range(2):  # on the second pass, the command name is cached
        assert [b"".join(ours.pack(*command)) for command in COMMANDS] == packed
    assert b"".join(ours.pack_many(COMMANDS)) == b"".join(packed)
    assert ours.pack_many([]) == []


@pytest.mark.parametrize("value", [True, None, object(), ["a"]])
def test_arguments_without_a_byte_form_are_refused(packer: Make, value: object) -> None:
    commands = packer("utf-8")
    with pytest.raises(DataError, match="Invalid input of type"):
        commands.pack("SET", "k", value)
    assert commands.pack("PING") == [b"*1\r\n$4\r\nPING\r\n"]


def test_a_bytearray_is_packed_as_bytes(packer: Make) -> None:
    packed = packer("utf-8").pack("SET", bytearray(b"k"), bytearray(b"v" * 70_000))
    assert b"".join(packed) == b"".join(packer("utf-8").pack("SET", b"k", b"v" * 70_000))
