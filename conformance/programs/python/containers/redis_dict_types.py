"""redis-dict: a dictionary that preserves the types of its values, with expiry and batches."""

from datetime import UTC, datetime
from decimal import Decimal

from place import client, eventually
from redis_dict import RedisDict

table = RedisDict(namespace="app", redis=client(decode_responses=True))
values = {
    "text": "words",
    "number": 7,
    "share": 0.5,
    "yes": True,
    "nothing": None,
    "list": [1, [2, "three"]],
    "tuple": (1, 2),
    "set": {1, 2},
    "money": Decimal("1.10"),
    "when": datetime(2026, 1, 2, tzinfo=UTC),
}
table.update(values)
assert {name: table[name] for name in values} == values
assert len(table) == len(values)
assert sorted(table) == sorted(values)
assert "gone" not in table
assert table.pop("text") == "words"
assert table.setdefault("text", "new") == "new"
table.chain_set(["users", "7", "name"], "ann")
assert table.chain_get(["users", "7", "name"]) == "ann"

with table.pipeline():
    for number in range(200):
        table[f"n{number}"] = number
assert sum(table[f"n{number}"] for number in range(200)) == sum(range(200))

with table.expire_at(1):
    table["short"] = 1
eventually(lambda: "short" not in table)
other = RedisDict(namespace="other", redis=client(decode_responses=True))
other["kept"] = 1
table.clear()
assert (len(table), len(other)) == (0, 1)
