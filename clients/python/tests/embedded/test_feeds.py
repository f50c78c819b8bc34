"""Tests that the typed feed object behaves the same on embedded, async and queueing clients."""

import asyncio
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import undercroft
import undercroft.asyncio
from undercroft.extensions import feed as feeds

SIZE, WIDTHS = 12, (4, 3, 1)
Item = tuple[bytes, tuple[int, ...]]


def value(number: int) -> bytes:
    return b"thread%06d" % number


def items(count: int, seed: int = 7) -> list[Item]:
    """Return items with distinct values and random attributes."""
    choice = random.Random(seed)
    return [(value(n), tuple(choice.randrange(1 << bits) for bits in WIDTHS)) for n in range(count)]


class Served:
    """A store and the socket on which a server serves it."""

    def __init__(self, path: str, socket: str) -> None:
        self.path = path
        self.socket = socket


@pytest.fixture
def served(path: str) -> Iterator[Served]:
    """Yield a store that a server serves."""
    socket = f"{path}.socket"
    words = [sys.executable, "-m", "undercroft", "serve", "--store", path]
    server = subprocess.Popen(
        [*words, "--port", "0", "--unixsocket", socket],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert server.stdout is not None
        if not any(" serves " in line for line in iter(server.stdout.readline, "")):
            pytest.fail(f"the store is not served; exit status {server.wait()}")
        yield Served(path, socket)
    finally:
        server.terminate()
        server.communicate()


def awaited(call: Any, loop: asyncio.AbstractEventLoop) -> Any:
    async def main() -> Any:
        return await call()

    return loop.run_until_complete(main())


class Synchronous:
    """An asyncio client whose calls run one by one on its own loop."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.loop = asyncio.new_event_loop()

        async def made() -> Any:
            return make()

        self.client = self.loop.run_until_complete(made())

    def feed(self, *arguments: Any, **options: Any) -> Any:
        client, feed = self, self.client.feed(*arguments, **options)

        class Calls:
            def __getattr__(self, name: str) -> Any:
                def call(*arguments: Any, **options: Any) -> Any:
                    return awaited(lambda: getattr(feed, name)(*arguments, **options), client.loop)

                return call

        return Calls()

    def close(self) -> None:
        self.loop.run_until_complete(self.client.aclose())
        self.loop.close()


class Queued:
    """A client that sends each call as a pipeline of one command."""

    def __init__(self, client: Any, transaction: bool) -> None:
        self.client = client
        self.transaction = transaction

    def feed(
        self, key: str, size: int | None = SIZE, attributes: Any = WIDTHS, type: Any = None
    ) -> Any:
        queued = self

        class Calls:
            def __getattr__(self, name: str) -> Any:
                def call(*arguments: Any, **options: Any) -> Any:
                    with queued.client.pipeline(transaction=queued.transaction) as pipe:
                        feed = pipe.feed(key, size, attributes, type)
                        assert getattr(feed, name)(*arguments, **options) is pipe
                        (result,) = pipe.execute()
                        return result

                return call

        return Calls()

    def close(self) -> None:
        self.client.close()


KINDS = ("embedded", "store", "server", "resp3")
FORMS = ("call", "await", "pipeline", "transaction")


@pytest.fixture(params=[False, True], ids=["bytes", "str"])
def decode(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.fixture(params=[f"{kind}-{form}" for kind in KINDS for form in FORMS])
def client(request: pytest.FixtureRequest, decode: bool) -> Iterator[Any]:
    """Yield an object with a ``feed`` method for each kind of client."""
    kind, form = request.param.split("-")
    if kind in ("server", "resp3"):
        url = f"unix://{request.getfixturevalue('served').socket}"
        options: dict[str, Any] = {
            "decode_responses": decode,
            "protocol": 3 if kind == "resp3" else 2,
        }
        if form == "await":
            made: Any = Synchronous(lambda: undercroft.asyncio.Redis.from_url(url, **options))
        else:
            made = undercroft.Redis.from_url(url, **options)
    else:
        path = request.getfixturevalue("path")
        if form == "await":
            classes: Any = (undercroft.asyncio.Redis, undercroft.asyncio.Store)
            of = classes[kind == "store"]
            made = Synchronous(lambda: of(path, decode_responses=decode))
        else:
            classes = (undercroft.Redis, undercroft.Store)
            made = classes[kind == "store"](path, decode_responses=decode)
    if form in ("pipeline", "transaction"):
        made = Queued(made, form == "transaction")
    yield made
    made.close()


def test_every_feed_method_matches_its_command(client: Any, decode: bool) -> None:
    def text(word: bytes) -> Any:
        return word.decode() if decode else word

    feed = client.feed("board")
    assert feed.create(SIZE, WIDTHS) is True
    a, b, c, d = (value(number) for number in range(4))
    assert feed.add(0, a, attributes=(3, 0, 1)) == 1
    assert feed.add(-1, b, c, attributes=(1, None, 0)) == 3
    assert feed.add(0, d) == 4
    assert feed.range() == [text(v) for v in (d, a, b, c)]
    assert feed.range(1, 2, attributes=True) == [(text(a), (3, 0, 1)), (text(b), (1, 0, 0))]
    assert feed.range(0, 2, reverse=True) == [text(c), text(b)]
    assert feed.range(where="1::") == [text(b), text(c)]
    assert (feed.hide(b, c), feed.show(c), feed.count()) == (2, 1, 3)
    assert (feed.count(seen="hidden"), feed.count(seen="all", where="a0=1")) == (1, 2)
    assert feed.range(seen="hidden") == [text(b)]
    assert (feed.position(c), feed.position(b), feed.position(b, seen="all")) == (2, None, 2)
    assert (feed.move(c, 0), feed.move(value(9), 0)) == (True, False)
    assert feed.set_attributes(c, (None, 7, None)) == 1
    assert feed.range(0, 1, attributes=True) == [(text(c), (1, 7, 0))]
    info = feed.info()
    assert (info["size"], info["attributes"], info["order"]) == (SIZE, WIDTHS, "list")
    assert (info["items"], info["hidden"]) == (4, 1)
    assert feed.compact() is True
    assert (feed.pop(), feed.pop("right", 2)) == (text(c), [text(a), text(d)])
    assert (feed.pop(), feed.delete(b), feed.delete_where("::")) == (None, 1, 0)
    with pytest.raises(Exception, match="value has 3 bytes, expected 12"):
        feed.add(0, b"abc")
    # The feed is not sorted, so a query for items between two values fails.
    with pytest.raises(Exception, match=r"\w"):
        feed.between(a, b)
    assert feed.count(seen="all") == 0


def test_arrays_contain_the_same_items_as_ranges(client: Any, decode: bool) -> None:
    there = items(300)
    feed = client.feed("board")
    feed.create(SIZE, WIDTHS)
    # Add items with attributes in a separate array, in a structured array and in tuples, and items
    # without attributes.
    values = np.array([v for v, _ in there], "S12")
    attributes = np.array([a for _, a in there], np.int64)
    feed.add_many(-1, values[:100], attributes[:100])
    whole = np.zeros(100, [("value", "S12"), ("a0", "u1"), ("a1", "u2"), ("a2", "?")])
    whole["value"] = values[100:200]
    for at in range(3):
        whole[f"a{at}"] = attributes[100:200, at]
    feed.add_many(-1, whole)
    assert feed.add_many(200, [v for v, _ in there[200:]], [a for _, a in there[200:]]) == 300
    for start, count, reverse in (
        (0, 300, False),
        (7, 50, True),
        (-10, 100, False),
        (400, 9, True),
    ):
        plain = feed.range(start, count, attributes=True, reverse=reverse)
        found = feed.array(start, count, attributes=True, reverse=reverse)
        assert found.dtype == [("value", "S12"), ("a0", "u1"), ("a1", "u1"), ("a2", "u1")]
        assert [(v, tuple(a)) for v, *a in found.tolist()] == [
            (v.encode() if decode else v, a) for v, a in plain
        ]
        alone = feed.array(start, count, reverse=reverse)
        assert (alone.dtype, alone.tolist()) == (np.dtype("S12"), found["value"].tolist())
    # An array without items has the dtype of an array with items.
    none = feed.array(0, 100, where="a0=0 a0=1", attributes=True)
    assert (len(none), none.dtype) == (0, found.dtype)
    wanted = [v for v, (first, *_) in there if first == 5]
    assert feed.array(0, 300, where="5::", dtype="V12").tolist() == wanted
    with pytest.raises(
        ValueError, match="expected a dtype of 12 bytes, the size of the values, got int64"
    ):
        feed.array(dtype="i8")


def test_values_and_attributes_of_every_width(r: undercroft.Redis) -> None:
    feed = r.feed("numbers")
    widths = [1, 8, 9, 16, 17, 32]
    feed.create(8, widths)
    numbers = (np.arange(1000) << 40).astype(">u8")
    choice = np.random.default_rng(3)
    attributes = np.stack([choice.integers(0, 1 << bits, 1000) for bits in widths], axis=1)
    attributes[0] = [(1 << bits) - 1 for bits in widths]
    assert feed.add_many(0, numbers, attributes) == 1000
    found = feed.array(0, 1000, attributes=True, dtype=">u8")
    assert [found.dtype[at].str for at in range(7)] == [
        *(">u8", "|u1", "|u1", "<u2", "<u2", "<u4", "<u4")
    ]
    assert (found["value"] == numbers).all()
    assert found["value"][3] == 3 << 40
    for at in range(6):
        assert (found[f"a{at}"] == attributes[:, at]).all(), at
    # Parsing the reply of FEED.RANGE gives the same attributes.
    assert (
        feeds.Form(8, widths).packed(
            r.execute_command("FEED.RANGE", "numbers", 0, 1000, "WITHATTRS"), True
        )
        == found.tobytes()
    )
    # Bytes that are not text, including zero bytes, are stored unchanged.
    assert r.feed("numbers").range(0, 2)[1] == numbers[1:2].tobytes()


def test_many_items_are_added_in_batches(r: undercroft.Redis) -> None:
    feed = r.feed("board", SIZE, WIDTHS)
    feed.create(SIZE, WIDTHS)
    count = feeds.CHUNK * 2 + 5
    values = np.array([value(n) for n in range(count)], "S12")
    for position in (0, -1, 1, -2, 10**6):
        feed.delete_where("::")
        feed.add(0, value(10**5), value(10**5 + 1))
        before = feed.range()
        assert feed.add_many(position, values) == count + 2
        at = {0: 0, -1: 2, 1: 1, -2: 1, 10**6: 2}[position]
        wanted = [*before[:at], *values.tolist(), *before[at:]]
        assert feed.array(0, count + 2).tolist() == wanted, position
    assert feed.add_many(0, []) is None
    assert feed.add_many(0, np.array([], "S12")) is None


def test_the_form_of_a_recreated_feed_is_read_again(r: undercroft.Redis) -> None:
    feed = r.feed("board")
    assert (len(feed.array()), len(feed.array(attributes=True))) == (0, 0)
    for size, widths in ((12, [4]), (3, [4]), (3, [20]), (3, []), (3, [1, 1])):
        r.delete("board")
        r.feed("board").create(size, widths)
        r.feed("board").add(0, b"x" * size, attributes=[1 for _ in widths])
        if widths == [20]:
            r.feed("board").set_attributes(b"xxx", [1 << 19])
        found = feed.array(attributes=True)
        assert found.dtype["value"] == f"S{size}"
        assert len(found.dtype.names) == 1 + len(widths)
        assert found.tolist() == [
            (b"x" * size, *(1 << 19 if widths == [20] else 1 for _ in widths))
        ]


@pytest.mark.parametrize(
    ("values", "attributes", "error"),
    [
        (np.array([["a"]], "S12"), None, "expected an array of one dimension, got 2"),
        (np.array(["a"]), None, "expected an array of bytes or numbers, .* got <U1"),
        (np.array([object()]), None, "expected an array of bytes or numbers, .* got object"),
        (np.array([b"a"], "S12"), np.array([[1.5, 0, 0]]), "got float64"),
        (np.array([b"a"], "S12"), np.array([[-1, 0, 0]]), "got -1"),
        (np.array([b"a"], "S12"), np.array([[1 << 32, 0, 0]]), "got 4294967296"),
        (
            np.array([b"a"], "S12"),
            np.array([[1, 0, 0]] * 2),
            r"of 1 rows as attributes, got shape \(2, 3\)",
        ),
        (np.zeros(1, [("id", "S12")]), None, "field 'value' .* got the fields id"),
        ([b"a" * 12], [], "expected attributes for 1 values, got 0"),
        (np.array([b"a" * 11] * 2, "S11"), None, "value has 11 bytes, expected 12"),
        (np.array([b"a" * 12], "S12"), np.array([[16, 0, 0]]), "attribute 0 is '16', .* 0 to 15"),
        (np.array([b"a" * 12], "S12"), np.array([[1, 0]]), "ATTRS has 2 parts, expected 3"),
        ([b"a" * 12, b"b" * 12], [(1, 1, 1), (1, 8, 1)], "attribute 1 is '8', expected 0 to 7"),
    ],
)
def test_invalid_items_change_nothing(
    r: undercroft.Redis, values: Any, attributes: Any, error: str
) -> None:
    feed = r.feed("board")
    feed.create(SIZE, WIDTHS)
    with pytest.raises((ValueError, undercroft.ResponseError), match=error):
        feed.add_many(0, values, attributes)
    assert feed.count(seen="all") == 0


def test_values_that_look_like_keywords_are_stored_as_values(r: undercroft.Redis) -> None:
    feed = r.feed("words")
    feed.create(5, [1])
    words = [b"apple", b"attrs", b"ATTRS"]
    with pytest.raises(ValueError, match="before a value that reads ATTRS"):
        feed.add_many(0, words)
    with pytest.raises(ValueError, match="before a value that reads ATTRS"):
        feed.add(0, *words)
    with pytest.raises(ValueError, match="before a value that reads ATTRS"), r.pipeline() as pipe:
        pipe.feed("words").add_many(0, words)
    assert feed.count() == 0
    assert feed.add_many(0, np.array(words), np.array([1, 0, 1])) == 3
    assert feed.add_many(-1, words, [(1,), (0,), (1,)]) == 6
    assert feed.add(-1, b"attrs") == 7
    assert feed.range() == [*words, *words, b"attrs"]
    # An array is never converted to words in these calls.
    assert feed.add_many(0, np.array(words[1:])) == 9
    assert feed.range(0, 2) == words[1:]
    # A rejected array is not converted for its error text either.
    with pytest.raises(ValueError, match="before a value that reads ATTRS"):
        r.feed("none").add_many(0, np.array(words))


def test_a_key_of_another_type_and_a_queue_are_refused(r: undercroft.Redis) -> None:
    r.set("text", "x")
    for call in (r.feed("text").array, r.feed("text", 3).array, r.feed("text").range):
        with pytest.raises(undercroft.ResponseError, match="WRONGTYPE"):
            call()
    with pytest.raises(undercroft.ResponseError, match="no such key"):
        r.feed("nothing").add_many(0, np.array([b"abc"]))
    with pytest.raises(undercroft.ResponseError, match="no such key"):
        r.feed("nothing").info()
    queue = r.feed("queue")
    queue.create(3, order="queue")
    assert queue.add_many(-1, np.array([b"abc", b"def"])) == 2
    with pytest.raises(undercroft.ResponseError, match="expected 0 or -1 in a queue"):
        queue.add_many(1, np.array([b"ghi"]))
    assert queue.range() == [b"abc", b"def"]


def test_arrays_in_a_pipeline_require_size_and_attributes(r: undercroft.Redis) -> None:
    r.feed("board").create(SIZE, WIDTHS)
    r.feed("board").add(0, value(1))
    with r.pipeline() as pipe:
        with pytest.raises(ValueError, match="pass size= and attributes= to feed"):
            pipe.feed("board").array()
        assert pipe.execute() == []
        pipe.feed("board", 3).array()
        with pytest.raises(ValueError, match="was given values of 3 bytes"):
            pipe.execute()
        pipe.feed("board", SIZE, WIDTHS).array().get("none").feed("board").count()
        found, none, count = pipe.execute()
        assert (found.tolist(), none, count) == ([value(1)], None, 1)
    # A command that runs immediately while keys are watched returns the same type of result.
    with r.pipeline() as pipe:
        pipe.watch("board")
        assert pipe.feed("board", SIZE, WIDTHS).array().tolist() == [value(1)]
        assert pipe.feed("board").info()["size"] == SIZE


def test_the_native_module_refuses_mismatched_arguments(r: undercroft.Redis) -> None:
    feed = r.feed("board")
    feed.create(SIZE, WIDTHS)
    feed.add(0, value(1), attributes=(15, 7, 1))
    client: Any = r

    def rows(key: str, size: int, columns: bytes, seen: str = "visible") -> Any:
        return client._range_rows(key, 0, 10, None, seen, False, size, columns)

    assert rows("board", SIZE, b"\1\1\1") == value(1) + b"\x0f\7\1"
    assert rows("board", SIZE, b"\4\2\1") == value(1) + b"\x0f\0\0\0\7\0\1"
    assert rows("board", SIZE, b"") == value(1)
    for size, columns in ((11, b"\1\1\1"), (SIZE, b"\1\1"), (SIZE, b"\1\1\1\1"), (11, b"")):
        assert rows("board", size, columns) is None, (size, columns)
    r.feed("wide").create(1, [9])
    r.feed("wide").add(0, b"x", attributes=[256])
    assert rows("wide", 1, b"\1") is None
    assert rows("wide", 1, b"\2") == b"x\0\1"
    with pytest.raises(ValueError, match="expected seen to be 'visible', 'hidden' or 'all', got"):
        rows("wide", 1, b"", "some")
    for values, size, attributes, columns in (
        (b"abcd", 3, b"", 0),
        (b"abc", 0, b"", 0),
        (b"abc", 3, b"\0\0\0", 1),
        (b"abc", 3, b"", 1),
        (b"abc", 3, b"\0\0\0\0", 0),
        (b"abc", 3, b"", 1 << 62),
    ):
        with pytest.raises(ValueError, match="expected values of"):
            client._add_rows(("FEED.ADD", "wide", 0), values, size, attributes, columns)
    assert r.feed("wide").count() == 1


def test_sorted_feeds_hold_numbers(client: Any, decode: bool) -> None:
    def text(word: str) -> Any:
        return word if decode else word.encode()

    feed = client.feed("times", None, (4,), type="int64")
    assert feed.create(attributes=(4,), order="sorted", type="int64") is True
    assert feed.add("*", 7, -3, attributes=(1,)) == 2
    times = np.array([5, -3, 1 << 40])
    assert feed.add_many("*", times, np.array([[2], [3], [4]])) == 5
    assert feed.add_many("*", [9, 8], [(5,), (6,)]) == 7
    assert feed.range(0, 3) == [text("-3"), text("-3"), text("5")]
    found = feed.array(attributes=True)
    assert found.dtype == [("value", "<i8"), ("a0", "u1")]
    assert found["value"].tolist() == [-3, -3, 5, 7, 8, 9, 1 << 40]
    assert found["a0"].tolist() == [1, 3, 2, 1, 6, 5, 4]
    assert feed.between(5, "(9") == [text("5"), text("7"), text("8")]
    assert feed.count(between=(5, "(9")) == 3
    assert feed.delete_where("", between=("+inf", "-inf")) == 0
    assert feed.between("-inf", "+inf", 1, 2, attributes=True, reverse=True) == [
        (text("9"), (5,)),
        (text("8"), (6,)),
    ]
    assert (feed.position(7), feed.delete(-3), feed.hide(8)) == (3, 2, 1)
    assert feed.info()["type"] == "int64"
    assert feed.array().tolist() == [5, 7, 9, 1 << 40]
    # The arrays that a feed returns can be added again, as can raw bytes and decimal text.
    again = client.feed("again", None, (4,), type="int64")
    again.create(attributes=(4,), order="sorted", type="int64")
    again.add_many("*", found)
    again.add_many("*", found["value"].view("V8"))
    again.add_many("*", np.array([b"77"]))
    assert again.array(0, 50).tolist() == sorted([*found["value"].tolist() * 2, 77])


def test_a_sorted_feed_refuses_values_of_the_wrong_type(r: undercroft.Redis) -> None:
    feed = r.feed("small")
    feed.create(order="sorted", type="int32")
    for values in (np.array([1 << 31]), np.array([1.5]), np.array([b"x"])):
        with pytest.raises((ValueError, undercroft.ResponseError), match="expected"):
            feed.add_many("*", values)
    with pytest.raises(undercroft.ResponseError, match=r"expected \* in a sorted feed"):
        feed.add_many(0, np.array([1], "<i4"))
    assert feed.count() == 0
    with pytest.raises(ValueError, match="expected size="):
        r.feed("none", type="bytes")
    texts = r.feed("names")
    texts.create(5, order="sorted", type="text", unique=True)
    assert texts.add_many("*", np.array([b"bob", b"ada", b"bob"])) == 2
    assert texts.array().tolist() == texts.range() == [b"ada", b"bob"]
    floats = r.feed("floats")
    floats.create(order="sorted", type="float32")
    assert floats.add_many("*", np.array([0.1, -np.inf, 2.0])) == 3
    assert floats.array().tolist() == np.array([-np.inf, 0.1, 2.0], "<f4").tolist()
    for number in (np.nan, 1e39):
        with pytest.raises(ValueError, match="expected numbers in the range of <f4, got"):
            floats.add_many("*", np.array([1.0, number]))
    assert floats.add_many("*", np.array([-0.0, 0.0])) == 5
    assert floats.delete(0) == 2


class Words:
    """A client that only records commands."""

    def _feed_run(self, words: tuple[Any, ...], *_: Any) -> Any:
        return words[0], words[1], " ".join(str(word) for word in words[2:])


def test_options_are_spelled_as_servers_expect() -> None:
    feed = feeds.PipelineFeed(Words(), "f", None, None)
    assert feed.create(8, (4, 3), "queue", index=True)[2] == "SIZE 8 ATTRS 4:3 ORDER queue INDEX"
    assert (
        feed.create(attributes=[1], order="sorted", type="int64", unique=True)[2]
        == "ATTRS 1 ORDER sorted TYPE int64 UNIQUE"
    )
    assert feed.add("*", 5, 7, attributes=(3,))[2] == "* 5 ATTRS 3 7 ATTRS 3"
    assert feed.between(5, "(9")[2] == "5 (9"
    assert feed.between("-", "+", 10)[2] == "- + LIMIT 10 -1"
    assert (
        feed.between("[a", "[b", 0, 20, where="1", seen="all", attributes=True, reverse=True)[2]
        == "[a [b LIMIT 0 20 all WHERE 1 WITHATTRS REV"
    )


def test_numpy_is_imported_only_when_an_array_is_used(path: str) -> None:
    program = f"""
import sys, undercroft
sys.modules["numpy"] = None
for kind in (undercroft.Store, undercroft.Redis):
    with kind({path!r}) as client:
        feed = client.feed(kind.__name__)
        feed.create(3, [4])
        feed.add_many(0, [b"abc", b"def"], [(1,), (2,)])
        assert feed.range(attributes=True) == [(b"abc", (1,)), (b"def", (2,))]
        try:
            feed.array()
        except ImportError as error:
            assert "need numpy" in str(error)
        else:
            raise AssertionError
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_an_asyncio_array_call_waits_for_a_lock(path: str) -> None:
    async def main() -> None:
        async with undercroft.asyncio.Store(path) as store:
            feed = store.feed("board")
            await feed.create(SIZE, WIDTHS)
            assert await feed.add_many(0, np.array([value(1)])) == 1
            calls = (feed.array(), feed.add(0, value(2)), feed.array(attributes=True))
            first, _, second = await asyncio.gather(*calls)
            assert (len(first), len(second)) == (1, 2)

    asyncio.run(main())
