"""Tests channels: each message reaches one consumer, in order, even if a process is killed.

``UNDERCROFT_CRASH=full`` lengthens the storms of kills.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hashlib
import os
import pickle
import queue
import random
import signal
import subprocess
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import undercroft
import undercroft.asyncio
from chance import drawn_seed
from children import fork, in_child, status_of
from undercroft import Channel, ChannelClosed, Objects, PickleRefused, Store

ROOT = Path(__file__).parents[4]
SERVER = ROOT / "target/debug/undercroft"
FULL = os.environ.get("UNDERCROFT_CRASH") == "full"
LONG = 300_000
# The maximum wait in seconds, which passing tests never reach.
PATIENCE = 60


@pytest.fixture
def url(path):
    return f"undercroft://{path}"


@pytest.fixture
def served(path):
    """Yield the URL of a store and the URL of the server that serves it."""
    if not SERVER.exists():
        pytest.skip(f"{SERVER} is not built: no store is served")
    socket = f"{path}.socket"
    words = [SERVER, "serve", "--store", path, "--port", "0", "--unixsocket", socket]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        if not any(" serves " in line for line in iter(server.stdout.readline, "")):
            pytest.fail(f"the store is not served; exit status {server.wait()}")
        yield f"undercroft://{path}", f"unix://{socket}"
    finally:
        server.terminate()
        server.communicate()


@pytest.fixture(params=["embedded", "redis", "served"])
def made(request, path):
    """Yield a function that opens channels on a store, on Redis, or on a served store."""
    name = f"tested:{os.getpid()}:{time.monotonic_ns()}"
    if request.param == "embedded":
        place = f"undercroft://{path}"
    elif request.param == "redis":
        place = f"unix://{request.getfixturevalue('server_socket')}"
    else:
        place = request.getfixturevalue("served")[1]
    return lambda **options: Channel(name, place, **options)


def message(number: int) -> bytes:
    """Return a message whose content can be verified."""
    body = b"%012d" % number + bytes(number % 90)
    return body + hashlib.blake2b(body, digest_size=8).digest()


def number_of(found) -> int:
    found = bytes(found)
    body, digest = found[:-8], found[-8:]
    assert hashlib.blake2b(body, digest_size=8).digest() == digest
    return int(body[:12])


def test_a_channel_behaves_like_pythons_queue(made):
    choice = random.Random(drawn_seed())
    size = choice.randrange(1, 6)
    channel, model = made(maxsize=size), queue.Queue(size)
    for step in range(300):
        if choice.random() < 0.5:
            value = choice.choice([message(step), str(step), step, (step, None), {"step": [step]}])
            outcomes = [outcome(one.put, value, False) for one in (channel, model)]
        else:
            outcomes = [outcome(one.get, False) for one in (channel, model)]
        assert outcomes[0] == outcomes[1], f"step {step}"
        assert channel.qsize() == model.qsize()


def outcome(call, *args):
    try:
        return call(*args)
    except (queue.Full, queue.Empty) as error:
        return type(error)


def test_batches_arrive_in_order(made):
    channel = made(maxsize=10)
    assert channel.put_many(range(25), block=False) == 10
    assert channel.get_many(4) == [0, 1, 2, 3]
    assert channel.put_many(range(10, 12)) == 2
    assert channel.get_many(100) == [4, 5, 6, 7, 8, 9, 10, 11]
    with pytest.raises(queue.Empty):
        channel.get_many(3, timeout=0.01)
    with pytest.raises(ValueError, match="at least 1"):
        channel.get_many(0)
    channel.put_many(range(10))
    with pytest.raises(queue.Full):
        channel.put_many([1], timeout=0.01)
    assert channel.put_many([]) == 0


VALUES = [
    b"",
    b"x" * 40_000,
    "text \xfc",
    "t" * 50_000,
    bytearray(b"abc"),
    np.arange(7, dtype="f4"),
    np.zeros((0, 3)),
    np.arange(LONG, dtype="u1"),
    {"name": "boat", "image": np.ones((100, 200)), "parts": (1, [2.5, None])},
]


@pytest.mark.parametrize("ack", [False, True])
def test_values_of_all_kinds_and_lengths_are_received_unchanged(made, ack):
    channel = made()
    for value in VALUES:
        channel.put(value)
    assert channel.put_many(VALUES) == len(VALUES)
    for value in VALUES * 2:
        found = channel.get(ack=ack)
        if ack:
            found, delivery = found.value, found
        assert same(found, value)
        if ack:
            assert delivery.ack()
            assert not delivery.ack()
    del found
    gc.collect()
    assert channel.qsize() == 0
    if channel._objects is not None:
        assert list(channel._client.scan_iter()) in ([], [channel._consumers])


def same(found, put) -> bool:
    if isinstance(put, np.ndarray):
        return found.dtype == put.dtype and np.array_equal(found, put)
    if isinstance(put, (bytes, bytearray)):
        return isinstance(found, memoryview) and found == put
    if isinstance(put, dict):
        return list(found) == list(put) and all(same(found[key], put[key]) for key in put)
    return type(found) is type(put) and found == put


def test_a_long_value_is_a_view_that_remains_valid(url):
    channel = Channel("arrays", url)
    channel.put(np.arange(LONG, dtype="u1"))
    array = channel.get()
    assert not array.flags.owndata
    channel.put(np.zeros(LONG, dtype="u1"))
    channel.delete()
    assert int(array.sum()) == int(np.arange(LONG, dtype="u1").sum())
    assert channel._client.dbsize() == 0


@pytest.mark.parametrize("by", [0, 1], ids=["embedded", "served"])
def test_an_expired_long_value_is_skipped(served, by):
    putting, taking = Channel("arrays", served[0], ttl=0.001), Channel("arrays", served[by])
    for take, values in (
        (taking.get, "next"),
        (lambda: taking.get_many(9), ["1", "2", "3"]),
    ):
        putting.put(np.zeros(LONG, "u1"))
        putting.put_many(values if type(values) is list else [values])
        while putting._run("KEYS", "*:object:*"):
            pass
        assert take() == values


def test_rejected_pickles_stay_in_the_channel(made):
    channel, trusting = made(), made(pickle=True)
    trusting.put({1, 2})
    for _ in range(2):
        with pytest.raises(PickleRefused):
            channel.get(timeout=PATIENCE)
        with pytest.raises(PickleRefused):
            channel.get(timeout=PATIENCE, ack=True)
    assert trusting.get() == {1, 2}
    with pytest.raises(TypeError):
        channel.put({1, 2})
    assert channel.qsize() == 0


def test_expired_timeouts_raise_empty_or_full(made):
    channel = made(maxsize=1)
    for wait in ({"block": False}, {"timeout": 0}, {"timeout": 0.02}):
        with pytest.raises(queue.Empty):
            channel.get(**wait)
        with pytest.raises(queue.Empty):
            channel.get(ack=True, **wait)
    channel.put(b"one")
    for value in (b"two", np.zeros(LONG)):
        for wait in ({"block": False}, {"timeout": 0}, {"timeout": 0.02}):
            with pytest.raises(queue.Full):
                channel.put(value, **wait)
    with pytest.raises(ValueError, match="at least 0"):
        channel.get(timeout=-1)
    assert channel.qsize() == 1
    assert channel.get() == b"one"


def test_an_empty_name_and_options_with_a_client_are_refused(url):
    with pytest.raises(ValueError, match="name"):
        Channel("", url)
    with pytest.raises(TypeError, match="name"):
        Channel(b"jobs", url)
    with Store(url) as store, pytest.raises(TypeError, match="options"):
        Channel("jobs", store, maxmemory="1gb")


def test_a_closed_channel_is_drained(made):
    channel = made()
    channel.put_many(range(5))
    channel.close()
    assert channel.closed
    with pytest.raises(ChannelClosed):
        channel.put(1)
    with pytest.raises(ChannelClosed):
        channel.put_many([1, 2])
    assert list(channel) == [0, 1, 2, 3, 4]
    for ack in (False, True):
        with pytest.raises(ChannelClosed):
            channel.get(ack=ack)
    channel.delete()
    assert not channel.closed
    channel.put(1)
    assert channel.get() == 1


def test_closing_a_channel_wakes_its_waiters(made):
    full, ends = made(maxsize=1), []
    empty = Channel(full.name + ":empty", full._made_of[0])
    full.put(0)

    def end(call, *args):
        try:
            call(*args)
        except ChannelClosed:
            ends.append(call)

    calls = [(full.put, 1)] * 2 + [(empty.get,)] * 3
    # Use threads, because redis-py's connections and the store's seats (futex slots) belong to one
    # thread each.
    threads = [threading.Thread(target=end, args=call, daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    full.close()
    empty.close()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(ends) == 5
    assert list(full) == [0]


def test_puts_that_wait_are_made_in_time(made):
    channel, count = made(maxsize=3), 400

    def produce():
        for number in range(count):
            made(maxsize=3).put(number) if not number else channel.put(number)

    producer = fork(produce)
    assert [channel.get(timeout=PATIENCE) for _ in range(count)] == list(range(count))
    assert status_of(producer) == 0


def test_a_producer_needs_only_one_free_place(made):
    """A producer waits only briefly for more room, because a consumer may wait for its message."""
    channel, done = made(maxsize=8), queue.Queue()
    assert channel.put_many(range(8)) == 8

    def produce():
        for number in range(8, 28):
            channel.put(number)
            done.put(number)

    producer = threading.Thread(target=produce, daemon=True)
    producer.start()
    for number in range(20):
        assert channel.get() == number
        assert done.get(timeout=PATIENCE) == number + 8
    producer.join(PATIENCE)
    assert channel.qsize() == 8


@pytest.mark.parametrize("size", [1, 7, 0])
def test_many_processes_take_each_message_once(url, path, size):
    count = 6000 if not FULL else 200_000
    log = Path(path).with_suffix(".log")

    def produce(first):
        channel = Channel("jobs", url, maxsize=size)
        for number in range(first, count, 3):
            channel.put(message(number), timeout=PATIENCE)

    def consume(which):
        channel = Channel("jobs", url)
        found = [number_of(item) for item in channel]
        log.with_suffix(f".{which}").write_text("\n".join(map(str, found)))

    consumers = [fork(lambda which=which: consume(which)) for which in range(3)]
    producers = [fork(lambda first=first: produce(first)) for first in range(3)]
    assert [status_of(child) for child in producers] == [0, 0, 0]
    Channel("jobs", url).close()
    assert [status_of(child) for child in consumers] == [0, 0, 0]
    taken = []
    for which in range(3):
        numbers = [int(line) for line in log.with_suffix(f".{which}").read_text().split()]
        for first in range(3):
            # One producer's messages arrive in the order in which it put them.
            mine = [number for number in numbers if number % 3 == first]
            assert mine == sorted(mine)
        taken += numbers
    assert sorted(taken) == list(range(count))


def test_messages_of_a_killed_consumer_go_to_another_one(url):
    channel = Channel("jobs", url)
    channel.put_many([b"one", np.zeros(LONG, "u1"), b"three"])
    ready, told = os.pipe()

    def hold():
        held = [channel.get(ack=True) for _ in range(2)]
        os.write(told, b"x")
        signal.pause()
        del held

    child = fork(hold)
    os.read(ready, 1)
    assert channel.get() == b"three"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    # Messages that the killed consumer held return in their original order, before newer messages.
    channel.put(b"four")
    assert channel.get(timeout=PATIENCE, ack=True).value in (b"one", b"four")
    rest = [channel.get(timeout=PATIENCE) for _ in range(2)]
    assert sum(isinstance(value, np.ndarray) for value in rest) == 1


def test_a_message_without_an_object_is_not_held_without_acknowledgement(made):
    channel = made()
    channel.put("one")
    # Simulate a race in which another consumer removed the object that was found first.
    taken: list[Any] = []
    found = channel._link.hold(taken, False, None)
    assert channel._of_held(taken, *found, False).value == "one"
    assert not channel._link.end_hold(*found, True)
    assert channel.qsize() == 0


def test_a_released_message_is_delivered_next(made):
    channel = made()
    channel.put_many([1, 2, 3])
    first = channel.get(ack=True)
    second = channel.get(ack=True)
    assert (first.value, second.value, channel.qsize()) == (1, 2, 1)
    assert second.release()
    assert not second.ack()

    def fail():
        with channel.get(ack=True) as delivery:
            assert delivery.value == 2
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with channel.get(ack=True) as delivery:
        assert delivery.value == 2
    assert first.ack()
    assert channel.get() == 3
    with pytest.raises(queue.Empty):
        channel.get(block=False)


def test_a_remote_consumer_loses_a_message_after_the_visibility_timeout(server_socket):
    def made(visibility):
        return Channel("late", f"unix://{server_socket}", visibility=visibility)

    slow, other = made(-1.0), made(60.0)
    other.put("job")
    held = slow.get(ack=True)
    assert held.value == "job"
    again = other.get(timeout=PATIENCE, ack=True)
    assert again.value == "job"
    assert not held.ack()
    assert again.ack()
    assert other.qsize() == 0


def test_embedded_and_served_are_one_channel(served):
    channel, remote = Channel("jobs", served[0], maxsize=2), Channel("jobs", served[1], maxsize=2)
    remote.put("a")
    channel.put(b"b")
    for one in (channel, remote):
        with pytest.raises(queue.Full):
            one.put("c", timeout=0.01)
    assert remote.get() == "a"
    channel.put(np.arange(LONG))
    assert channel.get() == b"b"
    assert np.array_equal(remote.get(), np.arange(LONG))
    threads = [
        threading.Thread(target=lambda: [remote.put(i) for i in range(50)], daemon=True),
        threading.Thread(target=lambda: [channel.put(i) for i in range(50)], daemon=True),
    ]
    for thread in threads:
        thread.start()
    found = [(channel, remote)[i % 2].get(timeout=PATIENCE) for i in range(100)]
    assert Counter(found) == Counter(list(range(50)) * 2)
    threads.append(threading.Thread(target=lambda: list(remote), daemon=True))
    threads[-1].start()
    channel.close()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()


@pytest.mark.parametrize("count", [10, 1_000_000])
def test_channels_hold_few_and_many_messages(url, count):
    channel = Channel("many", url, maxsize=0)
    step = 50_000
    for first in range(0, count, step):
        values = [b"%d" % number for number in range(first, min(first + step, count))]
        assert channel.put_many(values) == len(values)
    assert channel.qsize() == count
    expected = 0
    while expected < count:
        for found in channel.get_many(step):
            assert found == b"%d" % expected
            expected += 1
    channel.put("last")
    assert channel.get() == "last"


def test_a_put_into_a_full_store_raises_and_loses_nothing(url):
    channel = Channel("jobs", url, maxsize=0, maxmemory="8mb")
    put = 0

    def fill():
        nonlocal put
        while True:
            channel.put(bytes(20_000))
            put += 1

    with pytest.raises(MemoryError):
        fill()
    assert channel.qsize() == put
    with pytest.raises(MemoryError):
        channel.put(bytes(10_000_000))
    assert sum(1 for _ in range(put) if len(channel.get(block=False)) == 20_000) == put


def test_a_channel_is_sent_to_another_process(url, path):
    channel = pickle.loads(pickle.dumps(Channel("jobs", url, maxsize=5)))
    assert (channel.name, channel.maxsize) == ("jobs", 5)
    assert in_child(lambda: channel.put("from a child")) == 0
    assert channel.get() == "from a child"
    with Objects(url) as objects, Store(url) as store:
        Channel("jobs", objects).put(1)
        assert Channel("jobs", store).get() == 1
    with undercroft.Redis(path, decode_responses=True) as client:
        named = Channel("jobs", client)
        named.put(np.zeros(LONG))
        named.get(ack=True)
        named.put(np.zeros(LONG))
        named.delete()
        assert client.dbsize() == 0


@pytest.mark.parametrize("call", ["get", "put"])
def test_a_signal_ends_a_wait(url, call):
    channel = Channel("jobs", url, maxsize=1)
    if call == "put":
        channel.put(1)

    class RungError(Exception):
        pass

    def ring(*_):
        raise RungError

    old = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(RungError):
            channel.get() if call == "get" else channel.put(2)
    finally:
        signal.signal(signal.SIGALRM, old)
    assert channel.qsize() == (call == "put")
    # No waiter remains.
    assert channel._client.dbsize() == channel.qsize()


def test_a_storm_of_kills_with_acknowledgement_loses_nothing(url, path):
    choice = random.Random(drawn_seed())
    count, kills = (1500, 8) if not FULL else (200_000, 1000)
    log = os.open(path + ".log", os.O_CREAT | os.O_APPEND | os.O_RDWR)

    def produce():
        channel = Channel("jobs", url, maxsize=20)
        for number in range(count):
            channel.put(message(number), timeout=PATIENCE)

    def consume():
        channel = Channel("jobs", url)
        while True:
            with channel.get(ack=True) as delivery:
                os.write(log, b"%d\n" % number_of(delivery.value))

    producer = fork(produce)
    consumers = [fork(consume) for _ in range(3)]
    for _ in range(kills):
        victim = choice.randrange(3)
        time.sleep(choice.random() * 0.05)
        os.kill(consumers[victim], signal.SIGKILL)
        os.waitpid(consumers[victim], 0)
        consumers[victim] = fork(consume)
    assert status_of(producer) == 0
    channel, until = Channel("jobs", url), time.monotonic() + PATIENCE
    while set(range(count)) - done(path) and time.monotonic() < until:
        time.sleep(0.05)
    for child in consumers:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    os.close(log)
    assert not set(range(count)) - done(path)
    # Delivery is at least once, so only messages that a killed consumer held are repeated.
    numbers = Path(path + ".log").read_text().split()
    assert len(numbers) <= count + kills + 3
    channel._link.recall()
    channel.delete()
    assert channel._client.dbsize() == 0


def done(path) -> set[int]:
    return {int(line) for line in Path(path + ".log").read_text().split()}


def test_a_storm_of_kills_leaves_a_working_channel(url):
    choice = random.Random(drawn_seed())
    kills = 12 if not FULL else 1000

    def produce():
        channel, values = Channel("jobs", url, maxsize=4), (message(1), np.zeros(LONG // 4))
        for number in range(10**9):
            channel.put(values[number % 8 == 0])

    def consume():
        for value in Channel("jobs", url):
            assert len(value) in (LONG // 4, len(message(1)))

    roles = [produce, produce, consume, consume]
    children = [fork(role) for role in roles]
    for _ in range(kills):
        victim = choice.randrange(4)
        time.sleep(choice.random() * 0.03)
        os.kill(children[victim], signal.SIGKILL)
        os.waitpid(children[victim], 0)
        children[victim] = fork(roles[victim])
    channel = Channel("jobs", url, maxsize=4)
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert channel.qsize() <= 4
    # The first of these calls puts the messages that the dead consumers held back into the channel.
    with contextlib.suppress(queue.Empty):
        while True:
            channel.get(block=False)
    assert channel.put_many(range(4), block=False) == 4
    with pytest.raises(queue.Full):
        channel.put(5, block=False)
    assert channel.get_many(9) == [0, 1, 2, 3]


def test_tasks_wait_for_messages_and_for_room(run, url):
    async def work():
        channel, found = undercroft.asyncio.Channel("jobs", url, maxsize=2), []
        with pytest.raises(queue.Empty):
            await channel.get(timeout=0.01)

        async def consume():
            async for value in channel:
                found.append(value)

        consumers = [asyncio.create_task(consume()) for _ in range(3)]
        await asyncio.gather(*(channel.put(number) for number in range(40)))
        await channel.put(np.zeros(LONG))
        await channel.close()
        await asyncio.gather(*consumers)
        assert sorted(value for value in found if isinstance(value, int)) == list(range(40))
        assert len(found) == 41
        with pytest.raises(ChannelClosed):
            await channel.put(1)

    run(work())


def test_a_cancelled_task_neither_takes_nor_puts_a_message(run, url):
    async def work():
        channel = undercroft.asyncio.Channel("jobs", url, maxsize=1)
        tasks = [asyncio.create_task(channel.get()) for _ in range(4)]
        await asyncio.sleep(0)
        for task in tasks[:3]:
            task.cancel()
        # These calls run in one turn of the loop, so the first task may already be woken.
        await channel.put("kept")
        tasks[2].cancel()
        assert (await asyncio.gather(*tasks, return_exceptions=True))[3] == "kept"
        await channel.put("one")
        putting = asyncio.create_task(channel.put("two"))
        await asyncio.sleep(0)
        putting.cancel()
        assert await channel.get() == "one"
        assert await channel.qsize() == 0
        with pytest.raises(queue.Full):
            await asyncio.gather(channel.put(1), channel.put(2, timeout=0.01))

    run(work())


def test_tasks_acknowledge_and_share_with_processes(run, url):
    async def work():
        channel, other = undercroft.asyncio.Channel("jobs", url), Channel("jobs", url)
        other.put_many([1, np.arange(LONG), 3])
        first = await channel.get(ack=True)
        assert first.value == 1
        assert await first.release()
        async with await channel.get(ack=True) as delivery:
            assert delivery.value == 1
        async with await channel.get(ack=True) as delivery:
            assert np.array_equal(delivery.value, np.arange(LONG))
        waiting = asyncio.create_task(asyncio.to_thread(other.get, timeout=PATIENCE))
        assert await waiting == 3
        waiting = asyncio.create_task(asyncio.to_thread(other.get, timeout=PATIENCE))
        await channel.put("for the thread")
        assert await waiting == "for the thread"
        del delivery
        gc.collect()
        assert all(b":object:" not in key for key in other._client.scan_iter())

    run(work())


def test_consumers_that_hold_messages_match_a_model(url):
    """Two consumers in one process make random calls, whose results are checked against a model."""
    choice = random.Random(drawn_seed())
    channel, waiting, held = Channel("jobs", url), deque(), []
    for number in range(2000):
        action = choice.randrange(5)
        if action < 2:
            channel.put(number % 7)
            waiting.append(number % 7)
        elif action == 2 and waiting:
            delivery = channel.get(ack=True)
            assert delivery.value == waiting.popleft()
            held.append(delivery)
        elif held:
            delivery = held.pop(choice.randrange(len(held)))
            if action == 3:
                assert delivery.ack()
            else:
                assert delivery.release()
                waiting.appendleft(delivery.value)
        assert channel.qsize() == len(waiting)


def test_a_loop_acknowledges_finished_messages_and_releases_the_rest(made):
    channel = made()
    channel.put_many([1, 2, 3, 4])
    done = []
    for delivery in channel.deliveries():
        if delivery.value == 2:
            break
        done.append(delivery.value)
    loop = channel.deliveries()
    # A generator holds its last delivery until the generator is collected.
    assert next(loop).value == 2
    with pytest.raises(KeyError):
        loop.throw(KeyError("of the body"))
    channel.close()
    done += [delivery.value for delivery in channel.deliveries()]
    assert done == [1, 2, 3, 4]
    assert channel.qsize() == 0


def test_a_url_is_not_accepted_as_a_name():
    for kind in (Channel, undercroft.asyncio.Channel):
        with pytest.raises(ValueError, match="write Channel\\('name', 'undercroft://x'\\)"):
            kind("undercroft://x")


def test_tasks_use_a_channel_of_a_server(server_socket):
    async def main() -> None:
        url = f"unix://{server_socket}"
        channel = undercroft.asyncio.Channel("tasks", url, maxsize=2)
        undercroft.Channel("tasks", url).delete()
        with pytest.raises(queue.Empty):
            await channel.get(0)
        waiting = asyncio.create_task(channel.get())
        await channel.put(b"first")
        assert bytes(await waiting) == b"first"
        await channel.put("one")
        await channel.put("two")
        with pytest.raises(queue.Full):
            await channel.put("three", timeout=0.01)
        async with await channel.get(ack=True) as delivery:
            assert delivery.value == "one"
        gone = asyncio.create_task(channel.get())
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
        # A message assigned to a cancelled task returns to the channel.
        assert await channel.get() == "two"
        await channel.close()
        assert [value async for value in channel] == []
        undercroft.Channel("tasks", url).delete()

    asyncio.run(main())
