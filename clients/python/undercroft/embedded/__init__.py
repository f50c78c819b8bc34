"""Clients for a store in this process.

- `address`: parses the arguments of a store client, which are the store and its options.
- `async_client`: the asyncio client, whose commands run in the calling coroutine.
- `async_connection`: redis-py's asyncio connections to a store.
- `async_keys`: tasks that wait for keys, in the store's queues.
- `async_native`: the base class of both asyncio clients, with their native methods.
- `async_retries`: retries calls that found a lock held.
- `async_store`: the asyncio client that does not need redis-py.
- `client`: the client with native methods for common commands and redis-py's methods for others.
- `connection`: redis-py's connections to a store.
- `missing`: stand-ins for redis-py's attributes for Redis modules, which stores do not support.
- `options`: the names of redis-py's options, which a store in shared memory ignores.
- `pipeline`: queues of commands that run together, like redis-py's pipelines.
- `pubsub`: redis-py's PubSub, which reads from shared memory instead of a socket.
- `scheme`: adds the URL scheme of stores in shared memory to redis-py's own functions.
- `store`: the client that does not need redis-py.
- `taking`: methods that remove data and return it, and restore it if they are interrupted.
"""
