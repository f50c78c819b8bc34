"""Makes tasks wait while the event loop runs other tasks.

- `keys`: tasks that wait for keys in a store in this process, in the store's queues.
- `lines`: queues of tasks that wait for locks, one queue for each lock.
- `lock`: locks in a store in this process, whose waits run in the event loop.
- `releases`: reports released locks to the tasks that wait for locks in a store in this process.
- `remote_lock`: locks on a server, and the waiting logic of all asyncio locks.
- `remote_releases`: reports released locks to the tasks that wait for locks on a server.
- `retries`: retries calls that found a lock held.
"""
