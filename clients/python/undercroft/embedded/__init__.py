"""The parts of clients of stores in this process.

- `address`: parses the arguments of a store's client: the store and its options.
- `missing`: stand-ins for redis-py's modules of a Redis server, which a store does not have.
- `options`: redis-py's options, and those that a store in shared memory ignores.
- `pipeline`: pipelines: queues of commands that run together, like redis-py's.
- `pubsub`: redis-py's PubSub, fed from shared memory instead of a socket.
- `scheme`: adds the URL scheme of stores in shared memory to redis-py's own functions.
- `store_connection`: redis-py's connections to a store in this process.
- `taking`: methods that remove data and return it, and restore it if they are interrupted.
"""
