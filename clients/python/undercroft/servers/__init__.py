"""Parts of clients of servers.

- `at_most_once`: commands that may have run, which are not sent again.
- `channel`: channels by way of a server.
- `command_kinds`: which connection a command takes: by what it leaves on one, or needs of one.
- `objects`: objects on a server: copies of the values, by pipelines.
- `pubsub`: messages of a server: redis-py's PubSub, read natively.
- `topology`: clients of a Redis Cluster, and of the master that a Sentinel names.
"""
