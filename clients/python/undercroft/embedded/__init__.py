"""Parts of clients of stores in this process.

- `address`: what a client of a store is told: which store it is, and its options.
- `missing`: what redis-py has for the modules of a Redis server, none of which is in a store.
- `options`: what redis-py can be told, and what of it a store in shared memory has no use for.
- `pipeline`: pipelines: commands collected and run together, as redis-py's are.
- `pubsub`: messages: redis-py's PubSub, fed from shared memory instead of a socket.
- `scheme`: redis-py's own functions that take a URL, taught the scheme of stores in shared memory.
- `store_connection`: redis-py's connections to a store in this process.
- `taking`: methods that take something out of a store: it arrives, or it goes back.
"""
