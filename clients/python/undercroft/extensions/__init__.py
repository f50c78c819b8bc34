"""Additions to redis-py's API for store and server clients.

- `caches`: the clients' decorator that caches the results of functions.
- `caching`: cached functions, whose results are computed by one caller at a time.
- `feed`: the feed object that a client's `feed(key)` returns.
- `lock`: redis-py's locks, with waiters that are woken when a lock is released.
- `object_kinds`: value types in objects other than bytes and NumPy arrays.
- `object_waits`: waits for objects that do not exist yet.
"""
