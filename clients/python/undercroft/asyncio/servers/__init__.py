"""Helper modules for asyncio server clients.

- `channel`: channels on a server, whose steps run in threads.
- `objects`: objects on a server.
- `topology`: clients for a Redis Cluster, and for the master that Sentinels name.
"""
