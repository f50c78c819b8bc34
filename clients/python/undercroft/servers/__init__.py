"""Helper modules for server clients.

- `at_most_once`: prevents retries of commands that may have run.
- `channel`: channels on a server.
- `command_kinds`: the kind of connection that each command needs.
- `objects`: objects on a server: copies of values, sent and fetched in pipelines.
- `pubsub`: redis-py's PubSub for a server, with a native reader.
- `topology`: clients for a Redis Cluster, and for the master that Sentinels name.
"""
