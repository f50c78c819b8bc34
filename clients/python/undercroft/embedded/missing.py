"""What redis-py has for the modules of a Redis server, none of which is in a store."""

from __future__ import annotations

from typing import Never


class _Missing:
    """A method that is not there; whoever looks for it is told why."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Never:
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}: redis-py's {self._name}() "
            "is for a module of a Redis server, and a store in shared memory has none"
        )


class Modules:
    """What says of each module that it is not there."""

    bf = _Missing()
    cf = _Missing()
    cms = _Missing()
    ft = _Missing()
    # Until redis-py 5.
    graph = _Missing()
    json = _Missing()
    tdigest = _Missing()
    topk = _Missing()
    ts = _Missing()
    vset = _Missing()
