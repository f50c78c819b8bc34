"""dogpile.cache: if many threads miss a value, one computes it under a lock in Redis."""

import time

from dogpile.cache import make_region
from place import URL, client, eventually, in_threads

region = make_region().configure(
    "dogpile.cache.redis",
    expiration_time=60,
    arguments={"url": URL, "distributed_lock": True, "redis_expiration_time": 120},
)
computed = []


@region.cache_on_arguments()
def dear(number: int) -> int:
    """Compute slowly, so that other threads request the value in the meantime."""
    computed.append(number)
    time.sleep(0.2)
    return number * 2


found: list[int] = []
in_threads(8, lambda: found.append(dear(21)))
assert found == [42] * 8
assert computed == [21]

dear.invalidate(21)
assert (dear(21), computed) == (42, [21, 21])
region.set_multi({f"k{number}": number for number in range(20)})
assert region.get_multi([f"k{number}" for number in range(20)]) == list(range(20))
region.delete_multi(["k1", "k2"])
assert not region.get("k1")
assert client().ttl("k3") > 60

short = make_region().configure("dogpile.cache.redis", expiration_time=1, arguments={"url": URL})
short.set("s", 1)
eventually(lambda: not short.get("s"))
