"""Helper modules for store clients.

- `address`: parses the arguments of a store client, which are the store and its options.
- `missing`: stand-ins for redis-py's attributes for Redis modules, which stores do not support.
- `options`: the names of redis-py's options, which a store in shared memory ignores.
- `pipeline`: queues of commands that run together, like redis-py's pipelines.
- `pubsub`: redis-py's PubSub, which reads from shared memory instead of a socket.
- `scheme`: adds the URL scheme of stores in shared memory to redis-py's own functions.
- `store_connection`: redis-py's connections to a store in this process.
- `taking`: methods that remove data and return it, and restore it if they are interrupted.
"""
