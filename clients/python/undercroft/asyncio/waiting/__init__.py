"""Tasks that wait for a store in this process, while the event loop goes on.

- `keys`: tasks that wait for keys, each in its place in the queue.
- `lines`: tasks that wait for locks, in a line for each lock, and are woken when it is released.
- `lock`: locks of a store, which are waited for in the event loop.
- `releases`: tasks that wait for locks of a store, and how they hear of a release.
- `retries`: calls that met a lock and are tried again.
"""
