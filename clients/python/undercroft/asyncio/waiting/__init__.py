"""Tasks that wait, while the event loop goes on.

- `keys`: tasks that wait for keys of a store in this process, each in its place in the queue.
- `lines`: tasks that wait for locks, in a line for each lock, and are woken when it is released.
- `lock`: locks of a store in this process, which are waited for in the event loop.
- `releases`: tasks that wait for locks of a store in this process, and how they hear of a release.
- `remote_lock`: locks of a server, and how all locks for asyncio are waited for.
- `remote_releases`: tasks that wait for locks of a server, and how they hear of a release.
- `retries`: calls that met a lock and are tried again.
"""
