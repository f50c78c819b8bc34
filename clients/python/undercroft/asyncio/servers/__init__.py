"""Parts of asyncio clients of servers.

- `channel`: channels by way of a server: threads make the steps.
- `lock`: locks of a server, and how all locks for asyncio are waited for.
- `objects`: objects on a server.
- `releases`: tasks that wait for locks of a server, and how they hear of a release.
- `topology`: clients of a Redis Cluster, and of the master that a Sentinel names.
"""
