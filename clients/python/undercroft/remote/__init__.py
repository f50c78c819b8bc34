"""Clients for a server.

- `async_client`: redis-py's asyncio client, whose calls share one connection.
- `async_cluster`: asyncio's calls and pipelines of a cluster, which share connections.
- `async_connection`: redis-py's asyncio connections with this package's codec.
- `async_topology`: asyncio clients for a Redis Cluster, and for the master that Sentinels name.
- `at_most_once`: prevents retries of commands that may have run.
- `client`: redis-py's client, with less overhead per call.
- `cluster_pipeline`: pipelines of a cluster, whose commands are sent to all nodes at once.
- `cluster_routes`: finds the nodes of a cluster for most calls.
- `command_kinds`: the kind of connection that each command needs.
- `connection`: redis-py's connections and pools with this package's codec.
- `multiplexing`: shares one connection among many tasks.
- `pubsub`: redis-py's PubSub, with a native reader.
- `replies`: converts replies to the results of redis-py's methods.
- `resp`: RESP2 and RESP3 in pure Python: encodes commands and decodes replies.
- `topology`: clients for a Redis Cluster, and for the master that Sentinels name.
"""
