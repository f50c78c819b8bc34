"""Tasks that wait while the event loop runs other tasks.

- `keys`: tasks that wait for keys of a store in this process, each at its place in the queue.
- `lines`: tasks that queue for locks, with a queue for each lock.
- `lock`: locks of a store in this process, with waits in the event loop.
- `releases`: announces releases to the tasks that wait for locks of a store in this process.
- `remote_lock`: locks of a server, and the waiting logic of all asyncio locks.
- `remote_releases`: announces releases to the tasks that wait for locks of a server.
- `retries`: retries of calls that met a lock.
"""
