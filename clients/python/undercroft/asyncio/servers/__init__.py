"""Parts of asyncio clients of servers.

- `channel`: channels by way of a server: threads make the steps.
- `objects`: objects on a server.
- `topology`: clients of a Redis Cluster, and of the master that a Sentinel names.
"""
