"""walrus: containers, models, a cache, locks, rate limits, streams, autocompletion."""

import walrus
from place import client, eventually, in_threads

database = walrus.Database(connection_pool=client().connection_pool)

table = database.Hash("table")
table.update(name="ann", age="7")
assert table.as_dict(decode=True) == {"name": "ann", "age": "7"}
names = database.List("names")
names.extend(["a", "b", "c"])
assert [name.decode() for name in names[1:]] == ["b", "c"]
scores = database.ZSet("scores")
scores.add({"ann": 3, "bob": 1, "eve": 2})
assert [name for name, _ in scores.popmin(1)] == [b"bob"]
assert [name.decode() for name in scores.iterator()] or len(scores) == 2
few, all_of_them = database.Set("few"), database.Set("all")
few.add("a", "b")
all_of_them.add("a", "b", "c")
assert all_of_them - few == {b"c"}

cache = database.cache(default_timeout=60)
calls: list[int] = []


@cache.cached(timeout=2)
def square(number: int) -> int:
    """Compute an expensive result."""
    calls.append(number)
    return number * number


assert [square(3), square(3)] == [9, 9]
assert calls == [3]
eventually(lambda: square(3) and len(calls) == 2)

limit = database.rate_limit("limit", limit=3, per=60)
assert [limit.limit("ann") for _ in range(5)] == [False, False, False, True, True]
lua = database.rate_limit_lua("lua", limit=3, per=60)
assert [lua.limit("ann") for _ in range(5)] == [False, False, False, True, True]


def count() -> None:
    """Increment a number that only the lock protects."""
    for _ in range(10):
        with database.lock("lock", ttl=30_000):
            database.set("number", int(database.get("number") or 0) + 1)


in_threads(4, count)
assert int(database.get("number")) == 40

group = database.consumer_group("group", ["events", "others"])
group.create()
group.set_id("$")
added = [group.events.add({"n": str(number)}) for number in range(5)]
assert [item for item, _ in group.events.read()] == added
assert group.events.ack(*added[:3]) == 3
assert len(group.events.pending()) == 2
again = group.consumer("other")
assert [item for item, _ in again.events.claim(*added[3:])] == added[3:]
assert group.read(block=10) in ([], None)

words = database.autocomplete()
for title in ("red apple", "red pear", "green apple"):
    words.store(title)
assert sorted(words.search("red")) == ["red apple", "red pear"]
assert list(words.search("gr ap")) == ["green apple"]


class User(walrus.Model):
    """A stored user."""

    __database__ = database
    name = walrus.TextField(primary_key=True)
    age = walrus.IntegerField(index=True)
    active = walrus.BooleanField(index=True)


for number in range(10):
    User.create(name=f"u{number}", age=number, active=number % 2 == 0)
found = User.query((User.age >= 4) & (User.active == True))  # noqa: E712 - it makes a query
assert sorted(user.name for user in found) == ["u4", "u6", "u8"]
User.load("u4").delete()
assert User.count() == 9
