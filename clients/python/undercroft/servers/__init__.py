"""Helper modules for clients of servers.

- `at_most_once`: prevents retries of commands that may have run.
- `channel`: channels on a server.
- `command_kinds`: the kind of connection that each command needs.
- `objects`: objects on a server: copies of values, sent and fetched in pipelines.
- `pubsub`: redis-py's PubSub for a server, with a native reader.
- `topology`: clients of a Redis Cluster, and of the master that Sentinels name.
"""
