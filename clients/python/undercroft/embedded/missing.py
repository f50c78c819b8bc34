"""Stand-ins for redis-py's attributes for Redis modules, which stores do not support."""

from __future__ import annotations

from typing import Never


class _Missing:
    """A descriptor for a missing Redis module. Reading it raises an error with the reason."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Never:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}: redis-py's {self._name}() "
            "needs a module of a Redis server, and a store in shared memory has no modules"
        )


class Modules:
    """A mixin whose attributes for Redis modules raise an error, because stores have no modules."""

    bf = _Missing()
    cf = _Missing()
    cms = _Missing()
    ft = _Missing()
    # Only redis-py up to version 5 supports this module.
    graph = _Missing()
    json = _Missing()
    tdigest = _Missing()
    topk = _Missing()
    ts = _Missing()
    vset = _Missing()
