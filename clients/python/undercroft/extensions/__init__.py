"""Additions to redis-py's API for store and server clients.

- `async_lines`: queues of tasks that wait for locks, one queue for each lock.
- `async_lock`: locks in a store in this process, whose waits run in the event loop.
- `async_releases`: reports released locks to the tasks that wait for locks in a store.
- `async_remote_lock`: locks on a server, and the waiting logic of all asyncio locks.
- `async_remote_releases`: reports released locks to the tasks that wait for locks on a server.
- `caches`: the clients' decorator that caches the results of functions.
- `caching`: cached functions, whose results are computed by one caller at a time.
- `feed`: the feed object that a client's `feed(key)` returns.
- `lock`: redis-py's locks, with waiters that are woken when a lock is released.
"""
