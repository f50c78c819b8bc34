"""pottery: dictionaries, sets, lists, queues, counters, filters, ids and locks as in Python."""

from place import client, eventually, in_threads
from pottery import (
    BloomFilter,
    HyperLogLog,
    NextID,
    RedisCounter,
    RedisDeque,
    RedisDict,
    RedisList,
    RedisSet,
    RedisSimpleQueue,
    Redlock,
    redis_cache,
)

redis = client()
table = RedisDict({"a": 1}, redis=redis, key="table")
table["b"] = [1, {"x": None}]
assert table.to_dict() == {"a": 1, "b": [1, {"x": None}]}
del table["a"]
assert "a" not in table
few = RedisSet({"a", "b"}, redis=redis, key="few")
more = RedisSet({"b", "c"}, redis=redis, key="more")
assert few.intersection(more) == {"b"}
assert few.union(more) == {"a", "b", "c"}
assert not few.isdisjoint(more)
numbers = RedisList(range(10), redis=redis, key="numbers")
assert numbers[2:5] == [2, 3, 4]
numbers[0] = "zero"
numbers.insert(1, "half")
del numbers[2]
assert numbers[:3] == ["zero", "half", 2]
letters = RedisDeque("abc", redis=redis, key="letters", maxlen=3)
letters.append("d")
letters.rotate(1)
assert list(letters) == ["d", "b", "c"]
counter = RedisCounter("mississippi", redis=redis, key="counter")
assert counter.most_common(1)[0][1] == 4
counter.subtract({"s": 4})
assert counter["s"] == 0

queue = RedisSimpleQueue(redis=redis, key="queue")
for number in range(3):
    queue.put(number)
assert [queue.get(timeout=5) for _ in range(3)] == [0, 1, 2]
assert queue.empty()

seen = BloomFilter(num_elements=100, false_positives=0.01, redis=redis, key="seen")
seen.update(["a", "b"])
assert "a" in seen
assert list(seen.contains_many("a", "b", "c")) == [True, True, False]
visitors = HyperLogLog(range(100), redis=redis, key="visitors")
assert 95 <= len(visitors) <= 105

ids = NextID(key="ids", masters={redis})
assert [next(ids) for _ in range(3)] == [1, 2, 3]


@redis_cache(redis=redis, key="cached", timeout=60)
def square(number: int) -> int:
    """Compute an expensive result."""
    return number * number


assert [square(3), square(3)] == [9, 9]
assert square.cache_info().hits == 1


def count() -> None:
    """Increment a number that only the lock protects."""
    theirs = client()
    lock = Redlock(key="lock", masters={theirs}, auto_release_time=30)
    for _ in range(5):
        with lock:
            theirs.set("number", int(theirs.get("number") or 0) + 1)


in_threads(3, count)
assert int(redis.get("number")) == 15
short = Redlock(key="short", masters={redis}, auto_release_time=0.3)
assert short.acquire()
assert short.locked() > 0
short.extend()
eventually(lambda: not short.locked())
