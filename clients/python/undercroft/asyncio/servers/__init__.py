"""Helper modules for asyncio clients of servers.

- `channel`: channels on a server, whose steps run in threads.
- `objects`: objects on a server.
- `topology`: clients of a Redis Cluster, and of the master that Sentinels name.
"""
