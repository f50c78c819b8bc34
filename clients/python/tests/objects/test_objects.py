"""Tests that objects are read back, large ones in place, and that nothing is lost or leaked."""

from __future__ import annotations

import gc
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
import traceback
from datetime import timedelta

import numpy as np
import pytest
import undercroft
from undercroft import Objects, PickleRefused, Store
from undercroft._native import command

LONG = 300_000


@pytest.fixture
def objects(path):
    with Objects(f"undercroft://{path}", maxmemory="64mb") as opened:
        yield opened


def used(objects):
    return objects._client.execute("INFO", "memory")


def used_memory(objects) -> int:
    text = used(objects)
    text = text.decode() if isinstance(text, bytes) else text
    if isinstance(text, dict):
        return int(text["used_memory"])
    lines = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    return int(lines["used_memory"])


def same(found, put) -> bool:
    if isinstance(put, np.ndarray):
        return (
            isinstance(found, np.ndarray)
            and found.dtype == put.dtype
            and found.shape == put.shape
            and found.tobytes() == put.tobytes()
        )
    if isinstance(put, (bytes, bytearray, memoryview)):
        return isinstance(found, memoryview) and found == memoryview(put).cast("B")
    if isinstance(put, dict):
        return list(found) == list(put) and all(same(found[key], put[key]) for key in put)
    if isinstance(put, (list, tuple)):
        return type(found) is type(put) and len(found) == len(put) and all(map(same, found, put))
    return type(found) is type(put) and found == put


VALUES = [
    b"",
    b"x",
    bytearray(b"abc" * 1000),
    os.urandom(LONG),
    memoryview(os.urandom(LONG))[7:],
    np.zeros(1),
    np.arange(1024.0),
    np.arange(65_536.0).reshape(4, 128, 128),
    np.arange(100_000, dtype="u1")[::3],
    np.asfortranarray(np.arange(60_000, dtype=">i4").reshape(200, 300)),
    np.array(3.5, "f4"),
    np.zeros((0, 5), "c16"),
    np.arange(20_000).astype("M8[s]"),
    np.array([(1, 2.5, "x"), (3, 4.5, "yz")], dtype=[("a", "i4"), ("b", "f8"), ("c", "U3")]),
    None,
    17,
    -(2**63),
    2**64 - 1,
    1.5,
    "text \xfc",
    True,
    [],
    {},
    (),
    [1, (2, [3, (4,)]), {"a": (5, 6)}],
    {"image": np.ones((100, 200, 3), "u1"), "meta": {"name": "a", "size": (100, 200), 7: b"raw"}},
    (np.arange(9000.0), [np.arange(5), b"", {"deep": [np.ones(50_000)]}], "end"),
]


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_stored_values_are_read_back(objects, number):
    value = VALUES[number]
    before = used_memory(objects)
    name = objects.put(value)
    assert isinstance(name, bytes)
    assert len(name) <= 32
    assert objects.contains(name)
    assert name in objects
    assert same(objects.get(name), value)
    assert same(objects.get(name, writable=True), value)
    assert same(objects.take(name), value)
    gc.collect()
    assert not objects.contains(name)
    with pytest.raises(KeyError):
        objects.get(name)
    with pytest.raises(KeyError):
        objects.take(name)
    assert objects.delete(name) == 0
    # Tables that were allocated for the first key remain.
    assert used_memory(objects) - before < 20_000


@pytest.mark.parametrize("length", [0, 1, 63, 64, 4096, 32_703, 32_704, 32_768, 300_000, 3_000_001])
def test_bytes_of_any_length_are_read_back(objects, length):
    put = os.urandom(length)
    name = objects.put(put)
    assert objects.get(name) == put
    assert objects.take(name) == put


def test_views_are_read_only_and_copies_are_not(objects):
    for value in (np.arange(10.0), np.arange(100_000.0)):
        name = objects.put(value)
        view, copy = objects.get(name), objects.get(name, writable=True)
        assert not view.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            view[0] = 7
        copy[0] = 7
        assert view[0] == 0
        assert objects.take(name, writable=True).flags.writeable
    name = objects.put(b"abc")
    assert objects.get(name).readonly
    assert not objects.get(name, writable=True).readonly


def test_a_long_array_is_aligned_and_read_in_place(objects):
    name = objects.put(np.arange(100_000.0))
    before = used_memory(objects)
    views = [objects.get(name) for _ in range(100)]
    assert all(view.ctypes.data % 64 == 0 for view in views)
    assert used_memory(objects) == before
    assert len({view.ctypes.data for view in views}) == 1


def test_a_view_outlives_object_client_and_flush(path):
    objects = Objects(f"undercroft://{path}")
    put = np.arange(100_000.0)
    before = used_memory(objects)
    got, taken = objects.get(objects.put(put)), objects.take(objects.put(put))
    objects._client.execute("FLUSHALL")
    others = [objects.put(np.full(100_000, number)) for number in range(20)]
    assert same(got, put)
    assert same(taken, put)
    assert used_memory(objects) - before > 22 * put.nbytes
    objects.delete(*others)
    objects.close()
    part = got[5:7]
    del got, objects
    gc.collect()
    assert list(part) == [5.0, 6.0]
    assert same(taken, put)
    with Objects(f"undercroft://{path}") as again:
        assert used_memory(again) - before > 2 * put.nbytes
        del part, taken
        gc.collect()
        assert used_memory(again) - before < 20_000


def test_replacing_an_object_does_not_change_its_views(objects):
    put = os.urandom(LONG)
    name = objects.put(put)
    view = objects.get(name)
    key, store = b"object:" + name, objects._client
    store.execute("SETRANGE", key, 1000, "changed")
    store.execute("APPEND", key, "more")
    store.execute("SETBIT", key, 80_000, 1)
    store.execute("BITFIELD", key, "SET", "u8", 90_000, 255)
    assert view == put
    store.execute("DEL", key)
    assert view == put


def test_values_are_copied_when_all_pins_are_used(objects):
    names = [objects.put(np.full(8192, number)) for number in range(140)]
    views = [objects.get(name) for name in names]
    objects.delete(*names)
    assert [int(view[0]) for view in views] == list(range(140))
    taken = [objects.take(objects.put(np.full(8192, number))) for number in range(300)]
    assert [int(view[-1]) for view in taken] == list(range(300))


def test_info_reports_values_that_are_read_in_place(objects):
    client = objects._client
    assert "# Pins" not in client.execute("INFO", "everything").decode()
    assert client.execute("INFO", "pins").decode().split() == [
        *("#", "Pins", "pinned_values:0", "pinned_bytes:0")
    ]
    names = objects.put(bytes(50_000)), objects.put(bytes(90_000))
    views = list(map(objects.get, names))
    objects.delete(names[1])
    lines = client.execute("INFO", "pins").decode().split("\r\n")
    assert lines[1] == "pinned_values:2"
    told = [
        dict(field.split("=") for field in line.split(":")[1].split(",")) for line in lines[3:5]
    ]
    assert [int(one["bytes"]) // 10_000 for one in told] == [5, 9]
    assert [one["state"] for one in told] == ["read", "deleted"]
    assert {int(one["pid"]) for one in told} == {os.getpid()}
    assert all(int(one["age_ms"]) >= 0 for one in told)
    del views
    gc.collect()
    assert b"pinned_values:0" in client.execute("INFO", "pins")


@pytest.mark.parametrize("library", ["msgpack", "numpy"])
def test_an_object_whose_library_is_missing_is_not_taken(path, objects, monkeypatch, library):
    name = objects.put(np.arange(9.0) if library == "numpy" else {"a": 1})
    monkeypatch.setitem(sys.modules, library, None)
    reader = undercroft.Objects(path)
    for take in (reader.take, lambda name: reader.take_many([name])):
        with pytest.raises(ImportError, match=library):
            take(name)
        assert reader.contains(name)
    monkeypatch.undo()
    assert same(reader.get(name), objects.take(name))


def test_a_read_error_carries_the_objects_already_taken(objects):
    whole = b"\xc1UOm\x04\0\0\0\x09\0\0\0"
    objects._client.set("object:damaged", whole)
    with pytest.raises(ValueError, match="9 buffers") as caught:
        objects.get(b"damaged")
    assert not hasattr(caught.value, "unread")
    first = objects.put("first")
    with pytest.raises(ValueError, match="9 buffers") as caught:
        objects.take_many([first, b"damaged"])
    assert caught.value.taken == ["first"]
    assert list(map(bytes, caught.value.unread)) == [whole]
    assert not objects.contains(b"damaged")


def test_several_objects_are_put_and_taken_at_once(objects):
    values = [np.arange(float(number)) for number in range(10)]
    names = objects.put_many(values)
    assert len(set(names)) == 10
    assert all(map(same, objects.get_many(names), values))
    assert all(map(same, objects.take_many(iter(names)), values))
    keys = objects._client.execute("DBSIZE")
    with pytest.raises(TypeError):
        objects.put_many([b"one", object()])
    assert objects._client.execute("DBSIZE") == keys


def test_an_object_that_is_not_fetched_expires(path):
    with Objects(f"undercroft://{path}", ttl=timedelta(hours=1)) as objects:
        store = objects._client
        kept, gone = objects.put(b"x" * LONG), objects.put(b"y" * LONG, ttl=0.001)
        draft = objects.create_bytes(10, ttl=100)
        sealed = draft.seal()
        assert 3500 < store.execute("TTL", b"object:" + kept) <= 3600
        assert 90 < store.execute("TTL", b"object:" + sealed) <= 100
        while objects.contains(gone):
            pass
        with pytest.raises(KeyError):
            objects.get(gone)
        for wrong in (0, -1, float("nan"), float("inf")):
            with pytest.raises(ValueError, match="time to live"):
                objects.put(b"", ttl=wrong)


def test_an_object_is_filled_in_place(objects):
    for shape in ((), 7, (3, 5), (100, 100, 10), (0, 4)):
        draft = objects.create(shape, "float32")
        expected = np.random.default_rng(1).random(draft.array.shape, dtype="float32")
        draft.array[...] = expected
        assert draft.array.ctypes.data % 64 == 0 or expected.size == 0
        name = draft.seal()
        assert same(objects.take(name), expected)
    draft = objects.create_bytes(LONG)
    with draft.buffer as buffer:
        buffer[:] = os.urandom(LONG)
        expected = bytes(buffer)
    assert objects.get(draft.seal()) == expected
    with pytest.raises(ValueError, match="already sealed"):
        draft.seal()
    with pytest.raises(BufferError, match="sealed"):
        draft.buffer  # noqa: B018


def test_an_unsealed_object_is_invisible_and_freed(objects):
    objects.take(objects.put(b"x"))
    before, keys = used_memory(objects), objects._client.execute("DBSIZE")
    draft = objects.create(100_000)
    array = draft.array
    with pytest.raises(BufferError, match="delete them before sealing"):
        draft.seal()
    assert objects._client.execute("DBSIZE") == keys
    assert used_memory(objects) - before > 800_000
    del array, draft
    gc.collect()
    assert used_memory(objects) == before


def test_putting_into_a_full_store_raises_and_loses_nothing(path):
    with Objects(f"undercroft://{path}", maxmemory="8mb") as objects:
        names: list[bytes] = []

        def fill():
            names.extend(objects.put(bytes([number]) * 999_944) for number in range(100))

        with pytest.raises(MemoryError, match="no room for an object of 1000008 bytes") as raised:
            fill()
        assert "maxmemory" in str(raised.value)
        assert 3 < len(names) < 20
        with pytest.raises(MemoryError):
            objects.create_bytes(1000)
        for number, name in enumerate(names):
            assert objects.take(name) == bytes([number]) * 999_944
        gc.collect()
        objects.put(bytes(999_944))


def test_unsupported_values_are_refused(objects):
    keys = objects._client.execute("DBSIZE")
    circle: list[object] = []
    circle.append(circle)
    for wrong, error, text in [
        (object(), TypeError, "got object"),
        ({1, 2}, TypeError, "got set"),
        ({"a": [1j]}, TypeError, "got complex"),
        ({(1, 2): 3}, TypeError, "key of a dict"),
        (np.array([object()]), TypeError, "Python objects"),
        (2**64, ValueError, "integer is outside"),
        (circle, ValueError, "nested too deeply"),
        (memoryview(b"abcd")[::2], ValueError, "with strides"),
    ]:
        with pytest.raises(error, match=text):
            objects.put(wrong)
    assert objects._client.execute("DBSIZE") == keys


def test_invalid_ids_are_refused(objects):
    for wrong in (b"", b"garbage", b"\0" * 1000):
        assert not objects.contains(wrong)
        with pytest.raises(KeyError):
            objects.get(wrong)
        with pytest.raises(KeyError):
            objects.take(wrong)
    with pytest.raises(TypeError, match="of type bytes, got str"):
        objects.get("text")
    objects._client.set("object:foreign", "something else")
    objects._client.rpush("object:list", "item")
    for _ in range(2):
        with pytest.raises(ValueError, match="expected an object"):
            objects.take(b"foreign")
        with pytest.raises(undercroft.StoreError, match="wrong kind"):
            objects.take(b"list")


def test_arrays_of_one_shape_keep_their_memory_order(objects):
    """A head cached for one memory order is not reused for an array with the other order."""
    array = np.arange(6, dtype="int32").reshape(2, 3)
    for other in (
        array,
        np.asfortranarray(array),
        np.arange(12, dtype="int32").reshape(2, 6)[:, ::2],
    ):
        for _ in range(2):
            assert np.array_equal(objects.take(objects.put(other)), other)
            assert np.array_equal(objects.take_many(objects.put_many([other]))[0], other)


def test_the_error_for_a_missing_object_carries_those_already_taken(objects):
    ids = objects.put_many([b"one", {"two": 2}])
    with pytest.raises(KeyError, match="none") as caught:
        objects.take_many([*ids, b"none"])
    one, two = caught.value.taken
    assert (bytes(one), two) == (b"one", {"two": 2})
    assert not any(each in objects for each in ids)


def test_objects_with_damaged_lengths_raise_errors(objects):
    """If any length field is wrong, no byte beyond the object is read, and nothing is cached."""
    kept = len(undercroft.objects.encoding.array_shapes)
    damaged = [
        b"\xc1UOa\x05\0\0\0((((",
        b"\xc1UOa\xff\xff\xff\xff" + b"(" * 40_000,
        b"\xc1UOa\x0d\0\0\0('|O', (5,))" + bytes(99),
        b"\xc1UOa\x0e\0\0\0('<f8', (50,))" + bytes(99),
        b"\xc1UOm\x04\0\0\0\xff\xff\xff\xff",
        b"\xc1UOm\x0d\0\0\0\1\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff\1",
        b"\xc1UOm\xff\xff\xff\x7f\1\0\0\0" + bytes(40_000),
        b"\xc1UOx\0\0\0\0",
    ]
    for number, value in enumerate(damaged):
        objects._client.set(b"object:%d" % number, value)
        for read in (objects.get, objects.take):
            with pytest.raises(ValueError, match=r"expected|buffer|OBJECT"):
                read(b"%d" % number)
    assert len(undercroft.objects.encoding.array_shapes) <= kept + 2


class Thing:
    """An object that only pickle can store."""

    def __init__(self, array):
        self.array = array


def test_pickles_are_refused_unless_enabled(objects, path):
    with Objects(f"undercroft://{path}", pickle=True) as both:
        name = both.put(Thing(np.arange(100_000.0)))
        small = both.put({1, 2})
        for _ in range(2):
            for refused in (name, small):
                with pytest.raises(PickleRefused, match=r"pickle=True"):
                    objects.get(refused)
                with pytest.raises(PickleRefused, match=r"pickle=True"):
                    objects.take(refused)
        # A value that does not need pickle is stored without it.
        assert same(objects.take(both.put([np.arange(5)])), [np.arange(5)])
        thing = both.take(name)
        assert same(thing.array, np.arange(100_000.0))
        assert not thing.array.flags.writeable
        assert both.take(small) == {1, 2}
        assert pickle.loads(pickle.dumps(both.get(both.put(b"x")).tobytes())) == b"x"


def put_and_die(path: str, ready) -> None:
    objects = Objects(path)
    held = [objects.get(objects.put(os.urandom(LONG))) for _ in range(5)]
    held += [objects.take(objects.put(os.urandom(LONG))) for _ in range(5)]
    drafts = [objects.create(100_000) for _ in range(5)]
    arrays = [draft.array for draft in drafts]
    arrays[0][:] = 1
    ready.send(True)
    signal.pause()
    assert held


def test_memory_held_by_killed_processes_is_freed(objects, path):
    objects.take(objects.put(b"x" * LONG))
    gc.collect()
    before = used_memory(objects)
    context = multiprocessing.get_context("spawn")
    for _ in range(3):
        ours, theirs = context.Pipe()
        child = context.Process(target=put_and_die, args=(f"undercroft://{path}", theirs))
        child.start()
        assert ours.recv()
        assert used_memory(objects) - before > 10 * LONG
        child.kill()
        child.join()
    # Objects that a killed process put and did not take still exist.
    store = objects._client
    names = [key[7:] for key in store.execute("KEYS", "object:*")]
    assert len(names) == 15
    for name in names:
        assert len(objects.take(name)) == LONG
    gc.collect()
    while used_memory(objects) - before > 50_000:
        store.execute("SET", "upkeep", "is behind writes")


def test_views_remain_valid_after_a_fork(objects):
    put = np.arange(100_000.0)
    name = objects.put(put)
    got, taken = objects.get(name), objects.take(objects.put(put))
    draft = objects.create_bytes(10)
    before = used_memory(objects)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            fine = same(got, put) and same(taken, put) and same(objects.get(name), put)
            try:
                draft.seal()
            except ValueError:
                # The child's objects have distinct ids. Objects that the child drops still belong
                # to its parent.
                mine = objects.put(put)
                del got, taken, draft
                gc.collect()
                status = int(not (fine and same(objects.take(mine), put)))
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert same(got, put)
    assert same(taken, put)
    del got, taken
    draft.seal()
    gc.collect()
    assert before - used_memory(objects) > put.nbytes - 5000


def hand_over(path: str, names, results) -> None:
    objects = Objects(path)
    for name in iter(names.get, None):
        array = objects.take(name)
        results.put((int(array[0]), int(array.sum())))


def test_arrays_are_passed_to_other_processes(objects, path):
    context = multiprocessing.get_context("spawn")
    names, results = context.Queue(), context.Queue()
    workers = [
        context.Process(target=hand_over, args=(f"undercroft://{path}", names, results))
        for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    for number in range(60):
        names.put(objects.put(np.full(10_000, number)))
    found = sorted(results.get() for _ in range(60))
    assert found == [(number, number * 10_000) for number in range(60)]
    for _ in workers:
        names.put(None)
    for worker in workers:
        worker.join()
    assert isinstance(objects._client, Store)


def work_until_killed(objects, kept, chance, told) -> None:
    """Put, read, take and fill objects forever, and report after every twelve steps."""
    held: list[object] = []
    while True:
        for _ in range(12):
            length = chance.choice([10, 40_000, 300_000])
            mine = objects.put(bytes([length % 251]) * length)
            view = objects.get(chance.choice(kept))
            assert view[0] == view[-1]
            held.append(view)
            if chance.random() < 0.5:
                held.append(objects.take(mine))
            else:
                objects.delete(mine)
            draft = objects.create_bytes(length)
            held.append(draft)
            with draft.buffer as buffer:
                buffer[:] = bytes([7]) * length
            if chance.random() < 0.5:
                sealed = draft.seal()
                if chance.random() < 0.9:
                    objects.delete(sealed)
            del held[: -chance.randrange(1, 20)]
        os.write(told, b".")


def test_a_storm_of_kills_leaks_nothing(path):
    objects = Objects(f"undercroft://{path}", maxmemory="512mb")
    seed = random.getrandbits(32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    kept = [objects.put(bytes([number]) * 100_000) for number in range(8)]
    # Each round kills two children, so a long run of 500 rounds makes 1000 kills.
    for _ in range(int(os.environ.get("UNDERCROFT_KILLS", "40"))):
        heard, told = os.pipe()
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                try:
                    work_until_killed(objects, kept, random.Random(chance.random()), told)
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(1)
            chance.random()
            children.append(child)
        # Replace objects that the children are reading in place.
        for _ in range(chance.randrange(1, 6)):
            assert os.read(heard, 1)
            number = chance.randrange(8)
            kept_key = b"object:" + kept[number]
            objects._client.set(kept_key, objects.get(kept[number], writable=True).obj)
        for child in children:
            os.kill(child, signal.SIGKILL)
            assert os.waitpid(child, 0)[1] == signal.SIGKILL
        os.close(heard)
        os.close(told)
        for number, name in enumerate(kept):
            assert objects.get(name) == bytes([number]) * 100_000
        # Objects from killed children are complete, because an unsealed object is never visible.
        for name in {key[7:] for key in objects._client.execute("KEYS", "object:*")} - set(kept):
            left = objects.take(name)
            assert left == bytes([left[0]]) * len(left)
            assert left[0] in (7, len(left) % 251)
            del left
    store = f"undercroft://{path}"
    assert command(["undercroft", "recover", "--store", store]) == 0
    assert command(["undercroft", "check", "--store", store]) == 0
    objects._client.execute("FLUSHALL")
    assert command(["undercroft", "recover", "--store", store]) == 0
    gc.collect()
    assert used_memory(objects) < 50_000
    assert "in place" not in stat(store)


def stat(store: str) -> str:
    """Return the output of `undercroft stat` for a store."""
    words = [sys.executable, "-m", "undercroft", "stat", "--store", store]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


ENDINGS = {
    "globals": "",
    "a cycle": "circle = [views]; circle.append(circle)",
    "atexit": "import atexit; atexit.register(lambda: print(views[0][-1], draft))",
    "a thread": """
import threading
def hold(held=views):
    while True: objects.get(name).sum()
threading.Thread(target=hold, daemon=True).start()
""",
    "an exception": "raise SystemExit(0)",
    "exit without an end": "import os; os._exit(0)",
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_interpreter_exits_cleanly_with_live_views(objects, path, ending):
    name = objects.put(np.arange(100_000.0))
    gc.collect()
    before = used_memory(objects)
    program = f"""
import numpy as np
from undercroft import Objects
objects = Objects("undercroft://{path}")
name = {name!r}
views = [objects.get(name), objects.take(objects.put(np.ones(50_000))), objects.get(name)[7:9]]
draft = objects.create(50_000)
array = draft.array
{ENDINGS[ending]}
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    objects.delete(name)
    assert command(["undercroft", "recover", "--store", f"undercroft://{path}"]) == 0
    assert used_memory(objects) < before - 700_000
