"""What clients have beyond redis-py's API, on stores and on servers.

- `caches`: what clients have to cache the results of functions.
- `caching`: functions whose results are cached: each is computed by one caller at a time.
- `feed`: the object that a client's `feed(key)` is.
- `lock`: redis-py's locks, whose waiters are woken when one is released.
- `object_kinds`: kinds of values in objects beyond bytes and numpy's arrays.
- `object_waits`: waiting for objects, whose ids are known before they are there.
"""
